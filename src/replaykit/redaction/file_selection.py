"""The choice of files to look at: those that are named, those below a directory, those that git has staged.

Text in UTF-8 is looked at. Anything else is left alone, and said to be: nobody reads a secret out of an image here.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from replaykit.config import HOME
from replaykit.errors import StoreError, UsageError

MAX_BYTES = 16 * 1024 * 1024
"""Of one file; a larger one is passed over with a notice."""
_NOT_ENTERED = frozenset({".git", HOME})
_LOOKED_AT = 8192
_LINK, _MODULE = "120000", "160000"


class TreeText(Struct, frozen=True):
    """A file that can be looked at."""

    name: str
    data: bytes


class Passed(Struct, frozen=True):
    """A file that was not looked at, and why."""

    file: str
    """The file."""
    why: str
    """Why it was not looked at."""


def texts_of(files: Iterable[Path], max_bytes: int = MAX_BYTES) -> Iterator[TreeText | Passed]:
    """The files as texts, one after another."""
    for file in files:
        yield text_of(file, max_bytes)


def text_of(file: Path, max_bytes: int = MAX_BYTES) -> TreeText | Passed:
    """The file as a text, or why it is none."""
    try:
        if file.is_symlink():
            return Passed(str(file), "a link")
        if not file.is_file():
            return Passed(str(file), "not a file")
        size = file.stat().st_size
        if size > max_bytes:
            return too_large(str(file), size, max_bytes)
        return as_text(str(file), file.read_bytes())
    except OSError as error:
        return Passed(str(file), f"cannot be read: {error.strerror}")


def too_large(name: str, size: int, max_bytes: int) -> Passed:
    """A file that nobody looks at because of its size."""
    return Passed(name, f"{size:,} bytes; at most {max_bytes:,} are looked at")


def as_text(name: str, data: bytes) -> TreeText | Passed:
    """These bytes as a text, if they are one."""
    if b"\0" in data[:_LOOKED_AT]:
        return Passed(name, "binary")
    try:
        data.decode()
    except UnicodeDecodeError:
        return Passed(name, "no UTF-8 text")
    return TreeText(name, data)


def files_below(path: Path, *, ignored: bool) -> Iterator[Path]:
    """The files of a directory, or the file itself; `.git` and `.replaykit` inside of it are not entered.

    Without `ignored` what git ignores is left out, where the directory lies in a work tree and git is there.
    """
    if not path.is_dir():
        if not os.path.lexists(path):
            raise UsageError(f"{str(path)!r} does not exist")
        yield path
        return
    known = None if ignored else _known_to_git(path)
    if known is not None:
        yield from known
        return
    for directory, inner, names in os.walk(path):
        inner[:] = sorted(name for name in inner if name not in _NOT_ENTERED)
        yield from (Path(directory, name) for name in sorted(names))


def _known_to_git(directory: Path) -> Iterator[Path] | None:
    """Return what git has of the directory, or would take; None where git knows nothing of it."""
    try:
        listed = _git(directory, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    except (OSError, subprocess.CalledProcessError):
        return None
    names = sorted(set(filter(None, listed.split(b"\0"))))
    if not names and _is_ignored(directory):
        return None  # somebody named it, so it is looked at
    return (directory / os.fsdecode(name) for name in names if (directory / os.fsdecode(name)).exists())


def _is_ignored(directory: Path) -> bool:
    try:
        _git(directory, "check-ignore", "-q", ".")
    except subprocess.CalledProcessError:
        return False
    return True


def staged_texts(max_bytes: int = MAX_BYTES) -> Iterator[TreeText | Passed]:
    """Yield what git has staged here, as it is staged: the files that the next commit changes."""
    try:
        changes = _git(Path(), "diff", "--cached", "--raw", "-z", "--no-abbrev", "--no-renames", "--diff-filter=ACMRT")
    except FileNotFoundError:
        raise StoreError("git is not there, so nothing is known of what it has staged") from None
    except subprocess.CalledProcessError as error:
        error_lines = error.stderr.decode(errors="replace").strip().splitlines()
        raise StoreError(
            f"git does not say what is staged: {error_lines[0] if error_lines else error.returncode}"
        ) from None
    fields = changes.split(b"\0")
    found = []
    for mode_and_name, name in zip(fields[::2], fields[1::2], strict=False):
        _, mode, _, blob, _ = mode_and_name.decode().lstrip(":").split(" ")
        if mode not in (_LINK, _MODULE):
            found.append((os.fsdecode(name), blob))
    if found:
        yield from _blobs(found, max_bytes)


def _blobs(found: list[tuple[str, str]], max_bytes: int) -> Iterator[TreeText | Passed]:
    """The contents that git has under these hashes, by the names of their files."""
    words = ["git", "cat-file", "--batch"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as git:
        assert git.stdin is not None  # both were asked for
        assert git.stdout is not None
        for name, blob in found:
            git.stdin.write(f"{blob}\n".encode())
            git.stdin.flush()
            *_, size = git.stdout.readline().split()
            data = git.stdout.read(int(size) + 1)[:-1]
            yield too_large(name, len(data), max_bytes) if len(data) > max_bytes else as_text(name, data)


def _git(directory: Path, *words: str) -> bytes:
    done = subprocess.run(
        ["git", "-C", str(directory), *words], capture_output=True, check=True, stdin=subprocess.DEVNULL
    )
    return done.stdout
