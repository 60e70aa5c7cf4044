"""Notice that the agent reads what no replay can repeat: CPU time, memory and other resources, and its process id."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from types import ModuleType
from typing import Any

from replaykit.seam.own_code import is_library, is_ours
from replaykit.seam.scope import inside_call

CPU_TIME, RESOURCES, PROCESS_ID = "cpu_time", "resources", "process_id"
"""Names for `Chance.not_held`: a served tool uses no CPU time and no memory, and every process has its own id."""
_READS: dict[str, dict[str, tuple[str, ...]]] = {
    CPU_TIME: {
        "time": (
            *("process_time", "process_time_ns", "thread_time", "thread_time_ns"),
            *("clock_gettime", "clock_gettime_ns"),
        ),
        "os": ("times",),
        "resource": ("getrusage",),
        "psutil": ("cpu_percent", "cpu_times", "cpu_times_percent"),
        "psutil.Process": ("cpu_percent", "cpu_times"),
    },
    RESOURCES: {
        "tracemalloc": ("get_traced_memory", "take_snapshot"),
        "sys": ("getallocatedblocks",),
        "gc": ("get_count", "get_objects", "get_stats"),
        "os": ("getloadavg", "statvfs"),
        "shutil": ("disk_usage",),
        "psutil": ("disk_usage", "getloadavg", "net_io_counters", "swap_memory", "virtual_memory"),
        "psutil.Process": (
            *("as_dict", "io_counters", "memory_full_info", "memory_info", "memory_percent"),
            *("num_fds", "num_threads", "open_files"),
        ),
    },
    PROCESS_ID: {"os": ("getpid",)},
}
_CPU_CLOCKS = {getattr(time, name, None) for name in ("CLOCK_PROCESS_CPUTIME_ID", "CLOCK_THREAD_CPUTIME_ID")}


@contextmanager
def reads_of_process_noticed(not_held: set[str]) -> Iterator[None]:
    """Add the names of what the agent's own code reads inside the block; libraries decide nothing by it."""
    with ExitStack() as stack:
        for place, function, source in list(_places_of_functions()):
            stack.enter_context(_noticed(place, function, partial(not_held.add, source)))
        yield


def _places_of_functions() -> Iterator[tuple[Any, str, str]]:
    """Yield each module or class that holds one of the functions, also a module that imported it by name: holder, name,
    source."""
    sources: dict[str, tuple[object, str]] = {}
    for source, modules in _READS.items():
        for module, names in modules.items():
            owner = _loaded(module)
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


def _loaded(place: str) -> Any:
    """Return a loaded module, or a class of one; None if it is not loaded."""
    module, _, name = place.partition(".")
    loaded = sys.modules.get(module)
    return getattr(loaded, name, None) if name else loaded


def _is_known(module: ModuleType) -> bool:
    """Return whether a module is Python's or our own."""
    package = module.__name__.partition(".")[0]
    return package == "replaykit" or (package in sys.stdlib_module_names and package != "__main__")


@contextmanager
def _noticed(holder: Any, name: str, note: Callable[[], None]) -> Iterator[None]:
    """Call `note` when the agent's own code calls a function of a module or class."""
    real = getattr(holder, name)

    def noticing(*args: Any, **options: Any) -> Any:
        frame = sys._getframe(1)
        is_other_clock = name.startswith("clock_") and args[:1] and args[0] not in _CPU_CLOCKS
        if not is_other_clock and not is_ours(frame) and not is_library(frame.f_code.co_filename) and not inside_call():
            note()
        return real(*args, **options)

    setattr(holder, name, noticing)
    try:
        yield
    finally:
        if getattr(holder, name, None) is noticing:
            setattr(holder, name, real)
