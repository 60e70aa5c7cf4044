"""In development mode: collect what processes that tests start leave open.

A `.pth` file in the virtual environment makes each of its processes log the warnings of its development mode: unclosed
files, sockets and databases, programs that nobody waited for, and coroutines that were never awaited.
"""

from __future__ import annotations

import os
import sysconfig
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_START_UP_FILE = Path(sysconfig.get_path("purelib")) / f"tests_left_open_{os.getpid()}.pth"
_SEAM = [str(Path(__file__).parents[1] / "src/replaykit/seam" / name) for name in ("emissions.py", "hooks.py")]

AT_THE_END = "at the end or by the garbage collector"

_LOG_WARNINGS = """
def log_warnings_to(path):
    import os, sys, warnings

    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    library = os.path.dirname(os.__file__)
    show = warnings.showwarning

    # The seam wraps functions of the library, those that show warnings among them.
    between = (library, "<frozen", *SEAM)

    def who_left_it(frame):
        while frame and frame.f_code.co_filename.startswith(between):
            frame = frame.f_back
        return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else AT_THE_END

    def log(message, category, *place, open=os.open, write=os.write, close=os.close):
        if issubclass(category, ResourceWarning) or str(message).endswith("was never awaited"):
            test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
            fields = test, who_left_it(sys._getframe(1)), str(message)
            try:
                descriptor = open(path, flags, 0o600)
            except OSError:  # a sandbox
                pass
            else:
                write(descriptor, ("\\t".join(" ".join(field.split()) for field in fields) + "\\n").encode())
                close(descriptor)
        show(message, category, *place)

    log.path = path
    is_logged = getattr(show, "path", "") == path  # a process may read start-up files twice
    if sys.flags.dev_mode and os.path.isdir(os.path.dirname(path)) and not is_logged:
        warnings.showwarning = log
"""


class LeftOpen(NamedTuple):
    """One warning of a process: the test that started it, the line that was running, and what was left open."""

    test: str
    line: str
    text: str

    @property
    def is_of_a_written_program(self) -> bool:
        """Whether a program did it that a test wrote: those are short and take the liberty."""
        return self.line.startswith(("<string>", "<stdin>", tempfile.gettempdir()))


def collect_warnings(path: Path) -> None:
    """Let every process of this environment that starts from now on log to this file."""
    code = f"SEAM = {_SEAM}\nAT_THE_END = {AT_THE_END!r}\n{_LOG_WARNINGS}\nlog_warnings_to({str(path)!r})"
    _START_UP_FILE.write_text(f"import sys; exec({code!r}, {{}})\n")


def stop_collecting() -> None:
    """Let processes start as usual again."""
    _START_UP_FILE.unlink(missing_ok=True)


def logged(path: Path) -> list[LeftOpen]:
    """Return what processes logged to this file, but for programs that tests write."""
    if not path.exists():
        return []
    warnings = [LeftOpen(*line.split("\t")) for line in path.read_text().splitlines()]
    return [warning for warning in warnings if not warning.is_of_a_written_program]


def summary(warnings: Iterable[LeftOpen]) -> list[str]:
    """Describe each line that left something open once, with the first test that showed it."""
    places: dict[str, list[LeftOpen]] = {}
    for warning in warnings:
        place = warning.line if warning.line != AT_THE_END else f"{AT_THE_END}, {warning.test}"
        places.setdefault(place, []).append(warning)
    return [
        f"{place}: {found[0].text}, {len(found)} times, first in {found[0].test}" for place, found in places.items()
    ]
