"""Notice that the agent reads what no replay can repeat: the CPU time spent, and the id of its process."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import ModuleType
from typing import Any

from replaykit.seam.own_code import is_library, is_ours

CPU_TIME, PROCESS_ID = "cpu_time", "process_id"
"""Names for `Chance.not_held`: a served tool spends no CPU time, and every process has its own id."""
_READS: dict[str, dict[str, tuple[str, ...]]] = {
    CPU_TIME: {
        "time": (
            *("process_time", "process_time_ns", "thread_time", "thread_time_ns"),
            *("clock_gettime", "clock_gettime_ns"),
        ),
        "os": ("times",),
        "resource": ("getrusage",),
    },
    PROCESS_ID: {"os": ("getpid",)},
}
_LOADED = {"os": os, "time": time}
_CPU_CLOCKS = {getattr(time, name, None) for name in ("CLOCK_PROCESS_CPUTIME_ID", "CLOCK_THREAD_CPUTIME_ID")}


@contextmanager
def reads_of_process_noticed(not_held: set[str]) -> Iterator[None]:
    """Add the names of what the agent's own code reads inside the block; libraries decide nothing by it."""
    with ExitStack() as stack:
        for name, modules in _READS.items():
            for module, functions in modules.items():
                owner: Any = _LOADED.get(module) or sys.modules.get(module)
                for function in functions:
                    if hasattr(owner, function):
                        stack.enter_context(_noticed(owner, function, partial(not_held.add, name)))
        yield


@contextmanager
def _noticed(owner: Any, name: str, note: Callable[[], None]) -> Iterator[None]:
    """Call `note` when the agent's own code calls a function of a module, also one that it imported by name."""
    real = getattr(owner, name)

    def noticing(*args: Any) -> Any:
        frame = sys._getframe(1)
        is_other_clock = name.startswith("clock_") and args[:1] and args[0] not in _CPU_CLOCKS
        if not is_other_clock and not is_ours(frame) and not is_library(frame.f_code.co_filename):
            note()
        return real(*args)

    holders = [owner, *_modules_with(name, real)]
    for holder in holders:
        setattr(holder, name, noticing)
    try:
        yield
    finally:
        for holder in holders:
            if getattr(holder, name, None) is noticing:
                setattr(holder, name, real)


def _modules_with(name: str, function: Any) -> list[ModuleType]:
    """Return the modules, other than Python's and our own, that hold a function under its name."""
    modules = [module for module in list(sys.modules.values()) if type(module) is ModuleType]
    return [module for module in modules if vars(module).get(name) is function and not _is_known(module)]


def _is_known(module: ModuleType) -> bool:
    package = module.__name__.partition(".")[0]
    return package == "replaykit" or (package in sys.stdlib_module_names and package != "__main__")
