"""Settings of the whole process that a tool may change, and that the agent may read afterwards.

A replay serves the call without running the tool, so the setting stays as it was. A setting is compared only if the
agent's code mentions a function that reads it: most agents read none, and pay nothing.
"""

from __future__ import annotations

import io
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any, NamedTuple

from replaykit.seam.agent_code import AgentCode


class ProcessSetting(NamedTuple):
    """A setting: how to read it, and by which names code reads and changes it."""

    label: str
    readers: tuple[str, ...]
    changers: frozenset[str]
    value: Callable[[], object]


def _signal_handlers() -> object:
    return [signal.getsignal(number) for number in signal.valid_signals()]


def _decimal_context() -> object:
    # Imported only by programs that use it: loading it takes 2 ms.
    decimal: Any = sys.modules.get("decimal")
    return None if decimal is None else repr(decimal.getcontext())


def _locale() -> object:
    locale: Any = sys.modules.get("locale")
    return None if locale is None else locale.setlocale(locale.LC_ALL)


def _default_timeout() -> object:
    socket: Any = sys.modules.get("socket")
    return None if socket is None else socket.getdefaulttimeout()


def _captured_output() -> object:
    """Return how much was printed into streams that the agent put in the place of the standard ones."""
    streams = (sys.stdout, sys.stderr)
    return [stream.tell() for stream in streams if isinstance(stream, io.StringIO) and not stream.closed]


def _log_levels() -> object:
    logging: Any = sys.modules.get("logging")
    if logging is None:
        return None
    loggers = [logging.root, *list(logging.root.manager.loggerDict.values())]
    levels = {logger.name: (logger.level, logger.disabled) for logger in loggers if hasattr(logger, "disabled")}
    return logging.root.manager.disable, levels


def _numpy_errors() -> object:
    numpy: Any = sys.modules.get("numpy")
    return None if numpy is None else numpy.geterr()


def _numpy_generator() -> object:
    numpy_random: Any = sys.modules.get("numpy.random")
    if numpy_random is None:
        return None
    _, numbers, *position = numpy_random.get_state()
    return numbers.tobytes(), position


def _running_tasks() -> object:
    asyncio: Any = sys.modules.get("asyncio")
    if asyncio is None or asyncio.events._get_running_loop() is None:
        return None
    return len(asyncio.all_tasks())


_NUMPY_DRAWS = ("rand", "randn", "randint", "choice", "normal", "uniform", "shuffle", "permutation", "random_sample")
_SETTINGS = (
    ProcessSetting(
        "sys.getrecursionlimit()", ("getrecursionlimit",), frozenset({"setrecursionlimit"}), sys.getrecursionlimit
    ),
    ProcessSetting("signal.getsignal()", ("getsignal",), frozenset({"signal", "sigaction"}), _signal_handlers),
    ProcessSetting(
        "decimal.getcontext()", ("Decimal", "getcontext"), frozenset({"getcontext", "setcontext"}), _decimal_context
    ),
    ProcessSetting(
        "locale.getlocale()",
        ("getlocale", "setlocale", "localeconv", "format_string", "currency", "strcoll", "strxfrm"),
        frozenset({"setlocale"}),
        _locale,
    ),
    ProcessSetting(
        "socket.getdefaulttimeout()", ("getdefaulttimeout",), frozenset({"setdefaulttimeout"}), _default_timeout
    ),
    ProcessSetting(
        "threading.active_count()", ("active_count",), frozenset({"Thread", "start"}), threading.active_count
    ),
    ProcessSetting("asyncio.all_tasks()", ("all_tasks",), frozenset({"create_task", "ensure_future"}), _running_tasks),
    ProcessSetting(
        "logging.getLogger().level",
        ("isEnabledFor", "getEffectiveLevel", "level", "disabled"),
        frozenset({"setLevel", "disable", "disabled", "basicConfig", "dictConfig", "fileConfig"}),
        _log_levels,
    ),
    ProcessSetting(
        "warnings.filters",
        ("warn", "catch_warnings", "filterwarnings", "filters"),
        frozenset({"simplefilter", "filterwarnings", "resetwarnings"}),
        lambda: list(warnings.filters),
    ),
    ProcessSetting("numpy.geterr()", ("geterr", "seterr", "FloatingPointError"), frozenset({"seterr"}), _numpy_errors),
    ProcessSetting(
        "numpy.random.get_state()", _NUMPY_DRAWS, frozenset({*_NUMPY_DRAWS, "seed", "set_state"}), _numpy_generator
    ),
    ProcessSetting(
        "sys.stdout",
        ("redirect_stdout", "redirect_stderr", "StringIO"),
        frozenset({"print", "write", "writelines"}),
        _captured_output,
    ),
)


def settings_read_by(agent: AgentCode) -> list[ProcessSetting]:
    """Return the settings that the agent's code mentions."""
    return [setting for setting in _SETTINGS if any(map(agent.mentions, setting.readers))]


def may_change_settings(functions: Iterable[CodeType]) -> bool:
    """Return whether functions mention anything that changes a setting."""
    return any(may_change(setting, functions) for setting in _SETTINGS)


def may_change(setting: ProcessSetting, functions: Iterable[CodeType]) -> bool:
    """Return whether functions mention anything that changes this setting."""
    return any(not setting.changers.isdisjoint(code.co_names) for code in functions)
