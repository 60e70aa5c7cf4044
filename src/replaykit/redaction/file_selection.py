"""Select the files to scan: named ones, those in a directory, or those staged in git.

Only text in UTF-8 is scanned. Everything else is reported as skipped: images and the like are not searched.
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
"""The size above which a file is skipped with a notice."""
_NOT_ENTERED = frozenset({".git", HOME})
_LOOKED_AT = 8192
_LINK, _MODULE = "120000", "160000"


class TreeText(Struct, frozen=True):
    """A file that can be scanned."""

    name: str
    data: bytes


class Passed(Struct, frozen=True):
    """A file that was skipped, and why."""

    file: str
    """The file."""
    why: str
    """Why it was skipped."""


def texts_of(files: Iterable[Path], max_bytes: int = MAX_BYTES) -> Iterator[TreeText | Passed]:
    """Yield the files as texts."""
    for file in files:
        yield text_of(file, max_bytes)


def text_of(file: Path, max_bytes: int = MAX_BYTES) -> TreeText | Passed:
    """Return the file as text, or why it is skipped."""
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
    """Return that a file is skipped because of its size."""
    return Passed(name, f"{size:,} bytes; at most {max_bytes:,} are looked at")


def as_text(name: str, data: bytes) -> TreeText | Passed:
    """Return the bytes as text, or why they are skipped."""
    if b"\0" in data[:_LOOKED_AT]:
        return Passed(name, "binary")
    try:
        data.decode()
    except UnicodeDecodeError:
        return Passed(name, "no UTF-8 text")
    return TreeText(name, data)


def files_below(path: Path, *, ignored: bool) -> Iterator[Path]:
    """Yield the files in a directory, or the file itself; `.git` and `.replaykit` are skipped.

    Without `ignored`, files that git ignores are skipped, too, if the directory is in a work tree and git is installed.
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
    """Return the files that git tracks or would add; None outside of git."""
    try:
        listed = _git(directory, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    except (OSError, subprocess.CalledProcessError):
        return None
    names = sorted(set(filter(None, listed.split(b"\0"))))
    if not names and _is_ignored(directory):
        return None  # the user named it, so scan it
    return (directory / os.fsdecode(name) for name in names if (directory / os.fsdecode(name)).exists())


def _is_ignored(directory: Path) -> bool:
    try:
        _git(directory, "check-ignore", "-q", ".")
    except subprocess.CalledProcessError:
        return False
    return True


def staged_texts(max_bytes: int) -> Iterator[TreeText | Passed]:
    """Yield the staged contents of the files that the next commit changes."""
    try:
        changes = _git(Path(), "diff", "--cached", "--raw", "-z", "--no-abbrev", "--no-renames", "--diff-filter=ACMRT")
    except FileNotFoundError:
        raise StoreError("git is not installed, so staged files cannot be listed") from None
    except subprocess.CalledProcessError as error:
        error_lines = error.stderr.decode(errors="replace").strip().splitlines()
        raise StoreError(
            f"git does not say what is staged: {error_lines[0] if error_lines else error.returncode}"
        ) from None
    fields = changes.split(b"\0")
    blobs = []
    for mode_and_name, name in zip(fields[::2], fields[1::2], strict=False):
        _, mode, _, blob, _ = mode_and_name.decode().lstrip(":").split(" ")
        if mode not in (_LINK, _MODULE):
            blobs.append((os.fsdecode(name), blob))
    if blobs:
        yield from _blobs(blobs, max_bytes)


def _blobs(blobs: list[tuple[str, str]], max_bytes: int) -> Iterator[TreeText | Passed]:
    """Yield the contents of git blobs, by file name."""
    words = ["git", "cat-file", "--batch"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as git:
        assert git.stdin is not None  # set, since both are pipes
        assert git.stdout is not None
        for name, blob in blobs:
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
