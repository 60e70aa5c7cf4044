"""The tree of errors, with the exit code each one ends the command with.

ReplayKitError
├── UsageError          the call, a file or a config is wrong          (exit 2)
│   ├── InvalidFile     a file is wrong, with the line                 (exit 2)
│   └── StateNotKept    a state that its run did not store             (exit 2)
├── NothingSelected     no case, no run matched                        (exit 5)
├── StoreError          the store cannot do what was requested         (exit 3)
│   ├── StoreFull       the disk is full, or a limit is reached
│   ├── RunNotFound
│   ├── RunExists       a run with this id is in the store already
│   └── CorruptStore    damaged bytes: never "empty, so record again"
├── FetchFailed         a network service did not answer as expected   (exit 3)
├── FormatTooNew        written by a newer version                     (exit 3)
├── Unreplayable        the recording cannot answer this call          (exit 3)
└── Divergence          the candidate left the recorded path           (exit 1)
    ├── LiveConnection  it opened a connection that was not recorded   (exit 1)
    └── Undecided       a fork needs permission for real effects       (exit 1)
"""

from __future__ import annotations

import errno
from enum import IntEnum

# Type checkers accept any constant of this name, and importing `typing` is slow.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class ExitCode(IntEnum):
    """The exit code of a command."""

    PASSED = 0
    FAILED = 1  # the agent failed: reproduced, an assertion failed, a divergence
    USAGE = 2  # the call or a config is wrong
    CANNOT = 3  # could not do it: runner crashed, store unreadable, newer format
    NOTHING = 5  # nothing selected
    INTERRUPTED = 130


def failed_if(condition: object) -> ExitCode:
    """Return the exit code of a check that fails under a condition."""
    if condition:
        return ExitCode.FAILED
    return ExitCode.PASSED


def install_hint(extra: str) -> str:
    """Return the command that installs an optional part of ReplayKit."""
    return f"In a clone of ReplayKit: pip install '.[{extra}]'"


_GRAVEST_FIRST = (ExitCode.USAGE, ExitCode.FAILED, ExitCode.CANNOT, ExitCode.NOTHING)


def gravest(codes: Iterable[ExitCode]) -> ExitCode:
    """Return the most severe exit code: an invalid file, then a failure, then an inconclusive result."""
    present = set(codes)
    return next((code for code in _GRAVEST_FIRST if code in present), ExitCode.PASSED)


class ReplayKitError(Exception):
    """Everything this package raises on purpose. `hint` is what to type or do next."""

    exit_code = ExitCode.CANNOT

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        if self.hint:
            return f"{self.message}\n{self.hint}"
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (type(self), self.args), self.__dict__  # lets errors of any signature cross process boundaries


def _again(kind: type[ReplayKitError], arguments: tuple[object, ...]) -> ReplayKitError:
    return kind.__new__(kind, *arguments)


class UsageError(ReplayKitError):
    """The call or a config is wrong."""

    exit_code = ExitCode.USAGE


def wrong_argument(call: str, value: object, example: str, *, name: str = "") -> UsageError:
    """Return the error for an argument of the wrong type. `example` is a correct call."""
    kind = type(value).__name__
    place = f" as `{name}`" if name else ""
    return UsageError(f"{call} cannot take {value!r:.60} ({kind}){place}", hint=f"Write: {example}")


class InvalidFile(UsageError):
    """A file is invalid at `file` and `line`."""

    def __init__(self, message: str, *, file: str, line: int | None = None, hint: str | None = None) -> None:
        # A name with line breaks could inject lines into the output, such as commands for a CI pipeline.
        name = file.replace("\n", "\\n")
        where = f"{name}:{line}" if line else name
        super().__init__(f"{where}: {message}", hint=hint)
        self.file = file
        self.line = line
        self.reason = message


class StateNotKept(UsageError):
    """The run had a state at this point but did not store it; the agent must run again to reach it."""


class NothingSelected(ReplayKitError):
    """No case or run matched what was asked for."""

    exit_code = ExitCode.NOTHING


class StoreError(ReplayKitError):
    """The store cannot be opened, read or written as requested."""


class StoreFull(StoreError):
    """The disk is full, or a size limit is reached."""


def is_full(error: OSError) -> bool:
    """Return whether a write failed for lack of space."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class RunNotFound(StoreError):
    """No run has this id, or several start with it."""


class RunExists(StoreError):
    """The store already holds a run with this id."""


class CorruptStore(StoreError):
    """Bytes in the store are damaged; `where` names the page, pack, event or blob."""

    def __init__(self, message: str, *, where: str, hint: str | None = None) -> None:
        super().__init__(f"{where}: {message}", hint=hint)
        self.where = where
        self.reason = message


class FetchFailed(ReplayKitError):
    """A network service did not answer, or not as expected."""


class FormatTooNew(ReplayKitError):
    """A file or store was written by a newer version than this one."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="Update ReplayKit: pull its repository, then run in it: pip install .")


class Unreplayable(ReplayKitError):
    """The recording holds this call, but no answer that can be served."""


class RecordingWarning(UserWarning):
    """A recording holds something that a replay cannot reproduce."""


class Divergence(ReplayKitError):
    """The candidate left the recorded path."""

    exit_code = ExitCode.FAILED

    def __init__(self, message: str, *, index: int, nearest: object = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.index = index
        self.nearest = nearest


class LiveConnection(Divergence):
    """A replay tried to open a connection that belongs to no recorded call."""

    def __init__(self, host: str, port: int, who: str, *, outside: bool = False) -> None:
        place = f"[{host}]" if port and ":" in host else host
        where = f"{place}:{port}" if port else host
        super().__init__(
            f"a live connection to {where} was stopped" + (f": {who}" if who else ""),
            index=0,
            hint=(
                "It comes from a thread that was there before the run: start that inside of it, or record the whole "
                "program (replaykit record -- CMD). Or let it through: "
                if outside
                else "Record it (a tool, or HTTP through a library that is watched), or let it through: "
            )
            + f"--allow-connect {where if port else f'{host}:PORT'} (allow_connect= in Python; in the rules of "
            "`rk.replaying`: network=).",
        )
        self.host = host
        self.port = port
        self.who = who


class Undecided(Divergence):
    """A fork reached a call with real effects that the user has neither allowed nor refused."""


def nearest(word: str, choices: Iterable[str]) -> str:
    """Return half a sentence that suggests the closest valid spelling, or lists all of them."""
    from difflib import get_close_matches  # noqa: PLC0415 (slow to import, needed only for mistakes)

    known = sorted(choices)
    close = get_close_matches(word, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    if known:
        return f"valid: {', '.join(known)}"
    return "nothing is valid here"
