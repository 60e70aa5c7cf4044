"""Files that are private to their owner and ignored by git, because recordings and the redaction key are sensitive.

New files and directories are closed to everyone else, whatever the umask. Existing ones that are open to everyone are
closed when they are written. Permissions that exclude others but include a group are deliberate and stay, as does the
group access in a directory that passes its group on to its files (setgid).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

IGNORE = ".gitignore"
EVERYTHING = "*\n"
_NOBODY_ELSE = 0o700
_OTHERS, _GROUP_AND_OTHERS = 0o007, 0o077
_COMMENT = "# ReplayKit: recordings, and the key of their placeholders"


def make_directories(directory: Path, *, private_from: Path) -> bool:
    """Create a directory and its missing parents, private from `private_from` down; return whether it was missing."""
    missing = [part for part in (directory, *directory.parents) if not part.exists()]
    for part in reversed(missing):
        part.mkdir(exist_ok=True)
        if part == private_from or private_from in part.parents:
            part.chmod(_NOBODY_ELSE)
    directory.mkdir(exist_ok=True)  # raises if a file has that name
    return directory in missing


def make_file(path: Path) -> None:
    """Create an empty private file, or close an existing one to others."""
    shares = _shares_with_group(path.parent)
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        close_to_others(path)
        return
    try:
        if os.name == "posix":
            # os.open() applies the umask, which could take the group's access away.
            os.fchmod(handle, 0o660 if shares else 0o600)
    finally:
        os.close(handle)


def close_to_others(path: Path) -> None:
    """Remove the permissions of others, and those of the group unless it was granted access deliberately."""
    if os.name != "posix":
        return
    with suppress(OSError):  # missing, or not owned by this user
        found = path.stat()
        rights = stat.S_IMODE(found.st_mode)
        if rights & _OTHERS and found.st_uid == os.geteuid():
            if path.is_dir():
                is_shared = rights & stat.S_ISGID
            else:
                is_shared = _shares_with_group(path.parent)
            path.chmod(rights & ~(_OTHERS if is_shared else _GROUP_AND_OTHERS))


def close_all(directory: Path) -> None:
    """Close the files of a directory to everyone but their owner, without following links."""
    if os.name != "posix":
        return
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                os.chmod(entry.path, 0o600)


def ignore_all(directory: Path) -> None:
    """Make git ignore a directory, unless it already has ignore rules."""
    with suppress(FileExistsError), (directory / IGNORE).open("x", encoding="utf-8") as rules:
        rules.write(EVERYTHING)


def ignore_files(directory: Path, names: Iterable[str]) -> None:
    """Make git ignore these files of a directory if it is in a repository. `*` matches anything."""
    if not any((part / ".git").exists() for part in (directory.absolute(), *directory.absolute().parents)):
        return
    file = directory / IGNORE
    if file.exists():
        before = file.read_text(encoding="utf-8", errors="surrogateescape")
    else:
        before = ""
    present = {line.strip() for line in before.splitlines()}
    if "*" in present:
        lacking = []
    else:
        lacking = [line for line in map(_rule, names) if line not in present]
    if lacking:
        end = "" if not before or before.endswith("\n") else "\n"
        with file.open("a", encoding="utf-8") as rules:
            rules.write("\n".join([end + _COMMENT, *lacking, ""]))


def _rule(name: str) -> str:
    return "/" + re.sub(r"[\\?\[\]]", r"\\\g<0>", name)


def _shares_with_group(directory: Path) -> bool:
    with suppress(OSError):
        return bool(directory.stat().st_mode & stat.S_ISGID)
    return False
