"""Rights and ignore rules of files that hold recordings."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import subprocess
from enum import StrEnum
from pathlib import Path

_MAX_WAIT_S = 2.0
_OTHERS = 0o007
_NO_HOOKS = ("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
"""A repository's own configuration may name programs; none of them is started."""


def open_to_others(path: Path) -> bool:
    """Return True for a file that other users may read or write, and whose directory lets them get at it."""
    return os.name == "posix" and _has_rights_for_others(path) and lets_others_in(path.parent)


def lets_others_in(directory: Path) -> bool:
    """Return True for a directory that other users may list or enter."""
    return os.name == "posix" and _has_rights_for_others(directory)


def _has_rights_for_others(path: Path) -> bool:
    return bool(stat.S_IMODE(path.stat().st_mode) & _OTHERS)


def closing(path: Path) -> str:
    """Return the command that closes a file or directory to others."""
    return f"chmod {'700' if path.is_dir() else '600'} {shlex.quote(str(path))}"


class GitRule(StrEnum):
    """The way git treats a file."""

    IGNORED = "ignored"
    NOT_IGNORED = "not ignored"  # the next `git add .` takes it
    TRACKED = "tracked"  # it is in the index already
    NO_REPOSITORY = "no repository"
    UNKNOWN = "unknown"  # git is not there, or did not answer


def git_rule(path: Path) -> GitRule:
    """Ask git what it does with a file, which need not be there, without running any program of the repository."""
    directory = next((part for part in path.absolute().parents if part.is_dir()), None)
    if directory is None or not any((part / ".git").exists() for part in (directory, *directory.parents)):
        return GitRule.NO_REPOSITORY
    git = shutil.which("git")
    if git is None:
        return GitRule.UNKNOWN
    absolute = str(path.absolute())
    if _git_exit_code(git, directory, "--literal-pathspecs", "ls-files", "--error-unmatch", "--", absolute) == 0:
        return GitRule.TRACKED
    code = _git_exit_code(git, directory, "check-ignore", "--quiet", "--no-index", "--", absolute)
    return {0: GitRule.IGNORED, 1: GitRule.NOT_IGNORED}.get(code, GitRule.UNKNOWN)


def _git_exit_code(git: str, directory: Path, *question: str) -> int:
    """Return the exit code of a question to git; -1 where it did not answer."""
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    try:
        done = subprocess.run(
            [git, *_NO_HOOKS, "-C", str(directory), *question],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_MAX_WAIT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return -1
    return done.returncode
