"""`--config-from` and `--untrusted`: configuration of a revision, and not of the working tree."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from replaykit.cases.config_files import WORKING_TREE, AtRevision
from replaykit.cli import options
from replaykit.config import HOME, default_store_path
from replaykit.errors import UsageError

MAX_RULES_BYTES = 4 * 1024 * 1024
MAX_RULE_FILES = 64


config_from = options.combined(
    options.flag(
        "--untrusted",
        help="For pull requests from strangers: read the configuration from the base branch.",
    ),
    click.option(
        "--config-from",
        metavar="REV",
        help="Read everything that acts as configuration from this git revision, not from the working tree.",
    ),
)
"""Whose configuration is trusted."""


def config_files(revision: str | None, *, untrusted: bool) -> Any:
    """Return the files that configuration and redaction rules are read from in this command."""
    if revision is None and not untrusted:
        return WORKING_TREE
    from replaykit.revisions import Revision

    name = _base_branch() if revision is None else revision
    if untrusted:
        _import_nothing_from_here()
    files = AtRevision(Revision(name, Path()))
    options.note(f"the configuration is read from {files.revision_text}")
    _refuse_links_of_others()
    _use_rules_of(files)
    _use_no_key_of_others(files)
    return files


def _refuse_links_of_others() -> None:
    """Stop where a link would lead evidence or a store out of the project: git holds links, so a pull request can."""
    home = Path(HOME)
    for place in (home, *sorted(home.glob("*"))):
        if place.is_symlink():
            raise UsageError(
                f"{place} is a symbolic link, and may have come with the pull request: nothing is written through it",
                hint="Remove it, and run the command again.",
            )


def _base_branch() -> str:
    from replaykit.revisions import base_of_pull_request

    name = base_of_pull_request(os.environ)
    if not name:
        raise UsageError(
            "--untrusted: which revision's configuration is trusted? GITHUB_BASE_REF names no base branch",
            hint="Name it: --untrusted --config-from origin/main",
        )
    return name


def _import_nothing_from_here() -> None:
    """`python -m` puts the working directory before everything else; modules and plugins there are a stranger's."""
    here, before = os.path.realpath(os.getcwd()), list(sys.path)
    sys.path[:] = [place for place in before if place and os.path.realpath(place) != here]
    click.get_current_context().call_on_close(lambda: sys.path.__setitem__(slice(None), before))


def _use_rules_of(files: Any) -> None:
    """Let this process, and those that it starts, redact by the rules of the revision."""
    from tempfile import TemporaryDirectory

    from replaykit.redaction.project import RULES_VARIABLE, rules_file

    own = Path(os.path.normpath(rules_file(default_store_path()).absolute()))
    if os.environ.get(RULES_VARIABLE) or not files.revision.holds(own):
        return  # named by the person, or outside of the repository
    context = click.get_current_context()
    directory = Path(context.with_resource(TemporaryDirectory(prefix="replaykit-config-")))
    copies = _copy_rules(files, own, directory)
    os.environ[RULES_VARIABLE] = str(copies[0])
    context.call_on_close(lambda: os.environ.pop(RULES_VARIABLE, None))


def _use_no_key_of_others(files: Any) -> None:
    """A key that came with the working tree is known to whoever wrote it, who could then guess what placeholders hide.

    One that git knows nothing of was made on this machine, and stays.
    """
    from replaykit.redaction.keys import FILE, VARIABLE
    from replaykit.revisions import Revision

    key = default_store_path().parent / FILE
    if os.environ.get(VARIABLE) is not None or not files.revision.holds(key) or not Revision("HEAD", Path()).has(key):
        return
    import secrets

    if files.has(key):
        os.environ[VARIABLE] = files.read(key, limit_bytes=MAX_RULES_BYTES).decode("utf-8", "replace").strip()
    else:
        os.environ[VARIABLE] = secrets.token_hex(32)
    click.get_current_context().call_on_close(lambda: os.environ.pop(VARIABLE, None))


def _copy_rules(files: Any, own: Path, directory: Path) -> list[Path]:
    """Copy the rules, and the rule files that they name, to the same places below the directory; the first is the
    project's own, which is empty where the revision has none."""
    top: Path = files.revision.top
    pending, copies = [own], list[Path]()
    while pending and len(copies) < MAX_RULE_FILES:
        file = pending.pop(0)
        copy = directory / file.relative_to(top)
        if copy in copies or (file != own and not files.has(_shown(file))):
            continue
        data = b""
        if files.has(_shown(file)):
            data = files.read(_shown(file), limit_bytes=MAX_RULES_BYTES)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(data)
        copies.append(copy)
        others = (Path(os.path.normpath(file.parent / name)) for name in _named_in(data))
        pending += [other for other in others if files.revision.holds(other)]
    return copies


def _shown(file: Path) -> Path:
    """A path as a person would type it."""
    return Path(os.path.relpath(file))


def _named_in(data: bytes) -> list[str]:
    """The rule files that a rule file names; none in one that cannot be read, of which whoever loads it says why."""
    import tomllib

    try:
        named = tomllib.loads(data.decode()).get("rule_files", [])
    except (ValueError, RecursionError):
        return []
    if isinstance(named, list):
        return [name for name in named if isinstance(name, str)]
    return []
