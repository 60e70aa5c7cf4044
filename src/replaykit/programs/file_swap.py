"""Swap a file for another one while a program runs that expects it in its place.

    config                        a link to the other file
    config.replaykit-original     the file itself, held by a lock

Both steps are renames, so the name always leads to a whole file. A killed run leaves the original beside it, without
the lock, and the next run restores it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from replaykit.errors import UsageError
from replaykit.private_files import locked
from replaykit.programs.launch_options import ORIGINAL
from replaykit.terminal import visible_lines

_ENDING = ("SIGTERM", "SIGHUP")


def to_stderr(text: str) -> None:
    """Print a message of ReplayKit on standard error."""
    sys.stderr.write(visible_lines(f"replaykit: {text}\n"))


@contextlib.contextmanager
def swapped_file(file: Path, other: Path) -> Iterator[None]:
    """Replace a file by a link to another one for the length of the block, however it ends."""
    with _ending_by_exception(), file.open("rb") as original:
        if not locked(original.fileno()):  # a lock on the inode, which holds under the other name too
            raise _in_use(file)
        backup = _create_backup(file)
        try:
            beside = file.with_name(f"{file.name}.replaykit-link")
            beside.unlink(missing_ok=True)
            beside.symlink_to(other.absolute())
            beside.replace(file)
            yield
        finally:
            _restore(backup, file)


def restore_swapped_file(file: Path, report: Callable[[str], None] = to_stderr) -> None:
    """Restore a file that a killed run has left swapped, and report it."""
    backup = _backup_path(file)
    try:
        with backup.open("rb") as original:
            if not locked(original.fileno()):
                raise _in_use(file)
            if file.exists() and not file.is_symlink() and not file.samefile(backup):
                raise UsageError(
                    f"{file}: a run that was killed has left the original as {backup.name}, and {file.name} was changed"
                    " since",
                    hint=f"Keep one of the two as {file.name}, and delete {backup.name}.",
                )
            _restore(backup, file)
    except FileNotFoundError:
        return
    report(f"{file}: put back as it was before a run that was killed")


def _backup_path(file: Path) -> Path:
    return file.with_name(file.name + ORIGINAL)


def _create_backup(file: Path) -> Path:
    backup = _backup_path(file)
    try:
        os.link(file, backup, follow_symlinks=False)
    except FileExistsError:
        raise _in_use(file) from None
    except (OSError, NotImplementedError) as error:  # not every file system has hard links
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"{file} cannot be swapped: {why}", hint="Name it in the command, and swap nothing.") from None
    return backup


def _restore(backup: Path, file: Path) -> None:
    backup.replace(file)
    backup.unlink(missing_ok=True)  # renaming a file over a hard link to itself does nothing


def _in_use(file: Path) -> UsageError:
    return UsageError(f"{file} is swapped by another run that is under way", hint="Wait until it has ended.")


@contextlib.contextmanager
def _ending_by_exception() -> Iterator[None]:
    """Turn signals that would end this process at once into an exception, so that the file is restored."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    changed: list[int] = []
    if threading.current_thread() is threading.main_thread():
        for name in _ENDING:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, leave)
                changed.append(number)
    try:
        yield
    finally:
        for number in changed:
            signal.signal(number, signal.SIG_DFL)
