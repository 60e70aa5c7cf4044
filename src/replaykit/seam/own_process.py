"""Notice that the agent reads what no replay can repeat: the CPU time spent, and the id of its process."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from replaykit.seam.own_code import is_library, is_ours

CPU_TIME, PROCESS_ID = "cpu_time", "process_id"
"""Names for `Chance.not_held`: a served tool spends no CPU time, and every process has its own id."""
_READS: dict[str, dict[str, tuple[str, ...]]] = {
    CPU_TIME: {
        "time": ("process_time", "process_time_ns", "thread_time", "thread_time_ns"),
        "os": ("times",),
        "resource": ("getrusage",),
    },
    PROCESS_ID: {"os": ("getpid",)},
}
_LOADED = {"os": os, "time": time}


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
    """Call `note` when the agent's own code first calls a function of a module."""
    real = getattr(owner, name)

    def noticing(*args: Any) -> Any:
        frame = sys._getframe(1)
        if not is_ours(frame) and not is_library(frame.f_code.co_filename):
            note()
        return real(*args)

    setattr(owner, name, noticing)
    try:
        yield
    finally:
        if getattr(owner, name) is noticing:
            setattr(owner, name, real)
