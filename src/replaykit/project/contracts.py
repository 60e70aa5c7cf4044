"""Choose a contract: by its name, by its file, or because there is only one."""

from __future__ import annotations

from pathlib import Path

from replaykit.contracts.contract import Contract
from replaykit.contracts.find import find_contract
from replaykit.errors import UsageError
from replaykit.project.project import Project


def chosen_contract(project: Project | None, name: str | None) -> Contract:
    """The contract of that name or path, beside the project's file; without a name, the project's only one."""
    known = project.contracts if project is not None else {}
    if name is not None:
        if project is None:
            return find_contract(name, known, Path())
        return find_contract(name, known, project.directory, project.files)
    if len(known) == 1:
        return next(iter(known.values()))
    where = str(project.file) if project is not None else "no replaykit.yaml"
    if known:
        raise UsageError(f"which contract? {where} has {len(known)}", hint=f"Name one: {', '.join(sorted(known))}")
    raise UsageError(
        f"which contract? {where} holds none", hint="Write one under `contract:`, or name a file that holds one."
    )
