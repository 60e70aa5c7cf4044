"""Check the files of a project: store, key, redaction rules, and MCP configurations."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import subprocess
from collections.abc import Iterator
from enum import StrEnum
from functools import partial
from pathlib import Path

from replaykit.config import HOME
from replaykit.doctor.results import DoctorItem, ItemState, item
from replaykit.errors import ReplayKitError
from replaykit.programs.launch_options import ORIGINAL
from replaykit.programs.mcp.config import checked_config
from replaykit.redaction.keys import FILE, VARIABLE, check_key
from replaykit.redaction.project import RULES_FILE, SWITCH, is_on, rules_file
from replaykit.redaction.rule_files import load_rules
from replaykit.retention.policy import shown_bytes
from replaykit.store.event_log import log_directory
from replaykit.store.image import store_format
from replaykit.store.schema import STORE_FORMAT

_item = partial(item, "project")
_BESIDE = ("-wal", "-shm", "-live")
MCP_FILES = (".mcp.json", "mcp.json", ".cursor/mcp.json", ".vscode/mcp.json", ".gemini/settings.json")


def examine_files(store: Path) -> Iterator[DoctorItem]:
    """Check the store, its key and its rules."""
    yield from _store(store)
    yield from _key(store.parent / FILE)
    yield _redaction(store)


def _store(store: Path) -> Iterator[DoctorItem]:
    name = shlex.quote(str(store))
    try:
        found = store_format(store)
        size = sum(part.stat().st_size for part in _files_of(store))
    except FileNotFoundError:
        detail = f"none yet at {store}; the first recording creates it"
        yield _item("store", ItemState.OK, detail)
        return
    except OSError as error:
        advice = f"chmod u+rw {name}" if isinstance(error, PermissionError) else "Name another: --store FILE"
        yield _item("store", ItemState.PROBLEM, f"{store} cannot be read: {error.strerror}", advice)
        return
    except ReplayKitError as error:
        yield wrong_file("store", error)
        return
    if found > STORE_FORMAT:
        detail = f"{store} has format {found}; this version reads up to {STORE_FORMAT}"
        yield _item("store", ItemState.PROBLEM, detail, "Update ReplayKit: pull its repository, then: pip install .")
        return
    detail = f"{store}, {shown_bytes(size)}, " + (f"format {found}" if found else "empty")
    if not os.access(store, os.W_OK):
        yield _item("store", ItemState.NOTE, f"{detail}: it can be read but not written", f"chmod u+w {name}")
    else:
        yield _item("store", ItemState.OK, detail)
    yield _rights("store rights", _files_of(store))
    yield _out_of_git("store in git", store)


def _files_of(store: Path) -> list[Path]:
    files = [store]
    for suffix in _BESIDE:
        beside = store.with_name(store.name + suffix)
        if beside.exists():
            files.append(beside)
    logs = log_directory(store)
    if logs.is_dir():
        files += sorted(logs.iterdir())
    return files


def _rights(name: str, paths: list[Path]) -> DoctorItem:
    """Report files that others can read, and a directory that they can list."""
    readable = [path for path in paths if open_to_others(path)]
    if readable:
        detail = f"other users of this machine may read or write {', '.join(map(str, readable))}"
        return _item(name, ItemState.PROBLEM, detail, *map(closing, readable))
    directory = paths[0].parent
    if directory.name == HOME and lets_others_in(directory):
        return _item(name, ItemState.NOTE, f"other users of this machine may list {directory}", closing(directory))
    return _item(name, ItemState.OK, "private to its owner" if os.name == "posix" else "as set by Windows")


def _out_of_git(name: str, path: Path) -> DoctorItem:
    rule = git_rule(path)
    quoted = shlex.quote(str(path))
    if rule is GitRule.TRACKED:
        advice = (f"git rm --cached {quoted}", f"echo '*' > {shlex.quote(str(path.parent / '.gitignore'))}")
        detail = (
            f"{path} is in git: everyone with the repository has the recordings. What you pushed stays in its history"
        )
        return _item(name, ItemState.PROBLEM, detail, *advice)
    if rule is GitRule.NOT_IGNORED:
        pattern = shlex.quote("*" if path.parent.name == HOME else f"/{path.name}*")
        command = f"echo {pattern} >> {shlex.quote(str(path.parent / '.gitignore'))}"
        return _item(name, ItemState.PROBLEM, f"{path} is not ignored: the next `git add .` adds it", command)
    if rule is GitRule.UNKNOWN:
        return _item(name, ItemState.NOTE, f"whether git ignores {path} could not be determined")
    detail = "ignored" if rule is GitRule.IGNORED else "not in a git repository"
    return _item(name, ItemState.OK, detail)


def _key(path: Path) -> Iterator[DoctorItem]:
    """Check the key without revealing any of it."""
    is_named = VARIABLE in os.environ
    try:
        has_key = check_key(path.parent)
    except ReplayKitError as error:
        yield wrong_file("redaction key", error)
        return
    if is_named:
        yield _item("redaction key", ItemState.OK, f"from {VARIABLE}")
    elif has_key:
        yield _item("redaction key", ItemState.OK, f"{path}; {VARIABLE} is not set")
    else:
        yield _item("redaction key", ItemState.OK, f"none yet; the first secret creates {path}")
    if path.exists():
        yield _rights("key rights", [path])
        yield _out_of_git("key in git", path)


def _redaction(store: Path) -> DoctorItem:
    if not is_on():
        detail = f"switched off by {SWITCH}={os.environ[SWITCH]}: secrets and personal data are written as they are"
        return _item("redaction", ItemState.PROBLEM, detail, f"unset {SWITCH}")
    file = rules_file(store)
    if not file.is_file():
        return _item("redaction", ItemState.OK, f"on, with the built-in rules; no {RULES_FILE}")
    try:
        rules = load_rules(file)
    except ReplayKitError as error:
        return wrong_file("redaction", error)
    if rules.notices:
        return _item("redaction", ItemState.NOTE, f"on, with the rules in {file}; {'; '.join(rules.notices)}")
    return _item("redaction", ItemState.OK, f"on, with the rules in {file}")


def examine_mcp() -> Iterator[DoctorItem]:
    """Check the files that configure MCP servers."""
    for name in MCP_FILES:
        file = Path(name)
        original = file.with_name(file.name + ORIGINAL)
        if original.exists():
            detail = f"{original} was left by a recording that was killed, or one is under way"
            yield _item("mcp", ItemState.NOTE, detail, "If none is under way: replaykit record --recover")
        if not file.is_file():
            continue
        try:
            checked_config(file)
        except ReplayKitError as error:
            yield _item("mcp", ItemState.NOTE, error.message)
        else:
            advice = f"Record its servers: replaykit record --mcp-config {file} -- CMD"
            yield _item("mcp", ItemState.OK, f"{file} names servers", advice)


_MAX_WAIT_S = 2.0
_OTHERS = 0o007
# Keep git from starting programs that a repository's configuration names.
_NO_HOOKS = ("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")


def open_to_others(path: Path) -> bool:
    """Return whether other users can access a file, considering its directory as well."""
    return os.name == "posix" and _has_rights_for_others(path) and lets_others_in(path.parent)


def lets_others_in(directory: Path) -> bool:
    """Return whether other users can list or enter a directory."""
    return os.name == "posix" and _has_rights_for_others(directory)


def _has_rights_for_others(path: Path) -> bool:
    return bool(stat.S_IMODE(path.stat().st_mode) & _OTHERS)


def closing(path: Path) -> str:
    """Return the command that closes a file or directory to others."""
    return f"chmod {'700' if path.is_dir() else '600'} {shlex.quote(str(path))}"


class GitRule(StrEnum):
    """How git treats a file."""

    IGNORED = "ignored"
    NOT_IGNORED = "not ignored"  # the next `git add .` adds it
    TRACKED = "tracked"  # already in the index
    NO_REPOSITORY = "no repository"
    UNKNOWN = "unknown"  # git is missing or did not answer


def git_rule(path: Path) -> GitRule:
    """Ask git about a file, existing or not, without running any program of the repository."""
    directory = next((part for part in path.absolute().parents if part.is_dir()), None)
    # Outside of a repository, git need not be started at all.
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
    """Run git and return its exit code; -1 if it did not answer."""
    # Git must neither refresh its index nor ask for credentials.
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


def wrong_file(name: str, error: ReplayKitError) -> DoctorItem:
    """Return the item for an unusable file."""
    return _item(name, ItemState.PROBLEM, error.message, *filter(None, [error.hint]))
