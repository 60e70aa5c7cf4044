"""The files of a project: its store, its key, its rules, its configuration, and what its MCP servers are named in."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from replaykit.config import HOME
from replaykit.doctor.permissions import GitRule, closing, git_rule, lets_others_in, open_to_others
from replaykit.doctor.results import DoctorItem, ItemState
from replaykit.errors import ReplayKitError
from replaykit.programs.launch_options import ORIGINAL
from replaykit.programs.mcp.config import checked_config
from replaykit.project.find import find_project
from replaykit.project.project import load_project
from replaykit.redaction.keys import FILE, VARIABLE, check_key
from replaykit.redaction.project import RULES_FILE, SWITCH, is_on, rules_file
from replaykit.redaction.rule_files import load_rules
from replaykit.retention.policy import shown_bytes
from replaykit.store.image import store_format
from replaykit.store.schema import STORE_FORMAT

_BESIDE = ("-wal", "-shm", "-live")
MCP_FILES = (".mcp.json", "mcp.json", ".cursor/mcp.json", ".vscode/mcp.json", ".gemini/settings.json")


def examine_files(store: Path, config: Path | None) -> Iterator[DoctorItem]:
    """Look at everything that commands in this directory would use."""
    yield from _store(store)
    yield from _key(store.parent / FILE)
    yield _redaction(store)
    yield _config(config)
    yield from _mcp()


def _store(store: Path) -> Iterator[DoctorItem]:
    name = shlex.quote(str(store))
    try:
        found = store_format(store)
        size = sum(part.stat().st_size for part in _files_of(store))
    except FileNotFoundError:
        detail = f"there is none at {store}; the first recording makes it"
        yield _item("store", ItemState.OK, detail)
        return
    except PermissionError as error:
        yield _item("store", ItemState.PROBLEM, f"{store} cannot be read: {error.strerror}", f"chmod u+rw {name}")
        return
    except OSError as error:
        yield _item(
            "store", ItemState.PROBLEM, f"{store} cannot be read: {error.strerror}", "Name another: --store FILE"
        )
        return
    except ReplayKitError as error:
        yield _item("store", ItemState.PROBLEM, error.message, *filter(None, [error.hint]))
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
    return [store, *(path for suffix in _BESIDE if (path := store.with_name(store.name + suffix)).exists())]


def _rights(name: str, paths: list[Path]) -> DoctorItem:
    """Tell of files that others may read, and of a directory that they may list."""
    readable = [path for path in paths if open_to_others(path)]
    if readable:
        detail = f"other users of this machine may read or write {', '.join(map(str, readable))}"
        return _item(name, ItemState.PROBLEM, detail, *map(closing, readable))
    directory = paths[0].parent
    if directory.name == HOME and lets_others_in(directory):
        return _item(name, ItemState.NOTE, f"other users of this machine may list {directory}", closing(directory))
    return _item(name, ItemState.OK, "for its owner alone" if os.name == "posix" else "as Windows gives them")


def _out_of_git(name: str, path: Path) -> DoctorItem:
    rule = git_rule(path)
    quoted = shlex.quote(str(path))
    if rule is GitRule.TRACKED:
        advice = (f"git rm --cached {quoted}", f"echo '*' > {shlex.quote(str(path.parent / '.gitignore'))}")
        detail = f"{path} is in git: whoever has the repository has the recordings. What was pushed stays there"
        return _item(name, ItemState.PROBLEM, detail, *advice)
    if rule is GitRule.NOT_IGNORED:
        pattern = shlex.quote("*" if path.parent.name == HOME else f"/{path.name}*")
        command = f"echo {pattern} >> {shlex.quote(str(path.parent / '.gitignore'))}"
        return _item(name, ItemState.PROBLEM, f"{path} is not ignored: the next `git add .` takes it", command)
    if rule is GitRule.UNKNOWN:
        return _item(name, ItemState.NOTE, f"whether git ignores {path} could not be found out")
    detail = "ignored" if rule is GitRule.IGNORED else "not in a git repository"
    return _item(name, ItemState.OK, detail)


def _key(path: Path) -> Iterator[DoctorItem]:
    """Look at the key, and tell nothing of what is in it."""
    is_named = VARIABLE in os.environ
    try:
        has_key = check_key(path.parent)
    except ReplayKitError as error:
        yield _item("redaction key", ItemState.PROBLEM, error.message, *filter(None, [error.hint]))
        return
    if is_named:
        yield _item("redaction key", ItemState.OK, f"from {VARIABLE}")
    elif has_key:
        yield _item("redaction key", ItemState.OK, f"{path}; {VARIABLE} is not set")
    else:
        yield _item("redaction key", ItemState.OK, f"there is none yet; the first secret makes {path}")
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
        return _item("redaction", ItemState.PROBLEM, error.message, *filter(None, [error.hint]))
    if rules.notices:
        return _item("redaction", ItemState.NOTE, f"on, with the rules in {file}; {'; '.join(rules.notices)}")
    return _item("redaction", ItemState.OK, f"on, with the rules in {file}")


def _config(named: Path | None) -> DoctorItem:
    file = named if named is not None else find_project()
    if file is None:
        return _item("configuration", ItemState.NOTE, "there is no replaykit.yaml here", "Make one: replaykit init")
    try:
        project = load_project(file)
    except ReplayKitError as error:
        return _item("configuration", ItemState.PROBLEM, error.message, *filter(None, [error.hint]))
    if project.notices:
        return _item("configuration", ItemState.NOTE, f"{file}: {'; '.join(project.notices)}")
    return _item("configuration", ItemState.OK, f"{file} is valid")


def _mcp() -> Iterator[DoctorItem]:
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


def _item(name: str, state: ItemState, detail: str, *advice: str) -> DoctorItem:
    return DoctorItem(group="project", name=name, state=state, detail=detail, advice=advice)
