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
        for place, function, source in list(_places_of_functions()):
            stack.enter_context(_noticed(place, function, partial(not_held.add, source)))
        yield


def _places_of_functions() -> Iterator[tuple[ModuleType, str, str]]:
    """Yield each module that holds one of the functions, also one that imported it by name: module, name, source."""
    sources: dict[str, tuple[object, str]] = {}
    for source, modules in _READS.items():
        for module, names in modules.items():
            owner = _LOADED.get(module) or sys.modules.get(module)
            if owner is not None:
                sources.update({name: (getattr(owner, name), source) for name in names if hasattr(owner, name)})
                yield from ((owner, name, source) for name in names if hasattr(owner, name))
    for holder in list(sys.modules.values()):
        if type(holder) is not ModuleType or _is_known(holder):
            continue
        members = vars(holder)
        for name in sources.keys() & members.keys():
            function, source = sources[name]
            if members[name] is function:
                yield holder, name, source


def _is_known(module: ModuleType) -> bool:
    """Return whether a module is Python's or our own."""
    package = module.__name__.partition(".")[0]
    return package == "replaykit" or (package in sys.stdlib_module_names and package != "__main__")


@contextmanager
def _noticed(holder: ModuleType, name: str, note: Callable[[], None]) -> Iterator[None]:
    """Call `note` when the agent's own code calls a function of a module."""
    real = getattr(holder, name)

    def noticing(*args: Any) -> Any:
        frame = sys._getframe(1)
        is_other_clock = name.startswith("clock_") and args[:1] and args[0] not in _CPU_CLOCKS
        if not is_other_clock and not is_ours(frame) and not is_library(frame.f_code.co_filename):
            note()
        return real(*args)

    setattr(holder, name, noticing)
    try:
        yield
    finally:
        if getattr(holder, name, None) is noticing:
            setattr(holder, name, real)
