"""Chaos in a configuration: the faults of `chaos`, the worlds of `chaos_matrix`, and files with faults."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from replaykit.arguments import checked
from replaykit.cases.chaos_shape import CHAOS, CHAOS_MATRIX, plan_of
from replaykit.cases.config_files import WORKING_TREE, ConfigFiles, load_config
from replaykit.contracts.contract import ChaosScenario
from replaykit.documents.document import FilePath
from replaykit.documents.shape import find_flaws, refuse_flaws
from replaykit.errors import InvalidFile, UsageError, nearest
from replaykit.handlers.chaos.profiles import PROFILES, profile
from replaykit.model.faults import ChaosPlan
from replaykit.model.values import Json
from replaykit.wire.json_fields import without

MAX_PLAN_BYTES = 1024 * 1024


@checked('rk.chaos_plan("api_outage", seed=7)')
def chaos_plan(faults: str | Mapping[str, Json], *, seed: int = 0) -> ChaosPlan:
    """Build the plan of a profile, or of faults in the spelling of files.

    >>> plan = rk.chaos_plan({"tool_faults": [{"tool": "search_docs", "mode": "timeout"}]}, seed=7)
    >>> plan.tool_faults[0].name
    'tool.timeout'
    """
    spelled = faults if isinstance(faults, str) else dict(faults)
    for flaw in find_flaws(CHAOS, spelled):
        raise UsageError(flaw.message, hint=flaw.hint)
    return plan_of(spelled, seed=seed)


def matrix_of(worlds: Iterable[Json], *, seed: int = 0) -> tuple[ChaosScenario, ...]:
    """Build the worlds of a matrix; raise `UsageError` for a malformed one."""
    listed = list(worlds)
    for flaw in find_flaws(CHAOS_MATRIX, listed, ("chaos_matrix",)):
        raise UsageError(flaw.message, hint=flaw.hint)
    return tuple(ChaosScenario(name=world["name"], plan=plan_of(without(world, "name"), seed=seed)) for world in listed)


def named_plan(name: str, *, seed: int | None = None, files: ConfigFiles = WORKING_TREE) -> ChaosPlan:
    """Return the plan of a profile or in a file; `seed` takes precedence over the file's own."""
    if name in PROFILES:
        return profile(name, seed=seed or 0)
    if not os.path.exists(name) and not files.has(Path(name)):
        raise UsageError(
            f"no chaos profile and no file {name!r}; {nearest(name, PROFILES)}", hint="replaykit chaos profiles"
        )
    plan = load_plan(name, files)
    if seed is None:
        return plan
    return msgspec.structs.replace(plan, seed=seed)


def load_plan(path: FilePath, files: ConfigFiles = WORKING_TREE) -> ChaosPlan:
    """Load the plan in a file: its `chaos`, or the whole file."""
    document = load_config(Path(path), limit_bytes=MAX_PLAN_BYTES, files=files)
    is_inside = isinstance(document.value, dict) and "chaos" in document.value
    value, place = (document.value["chaos"], ("chaos",)) if is_inside else (document.value, ())
    refuse_flaws(document, find_flaws(CHAOS, value, place))
    plan = plan_of(value)
    if plan.is_calm:
        raise InvalidFile(
            "no fault is in it", file=os.fspath(path), hint="Write tool_faults, llm_faults or context_attacks."
        )
    return plan
