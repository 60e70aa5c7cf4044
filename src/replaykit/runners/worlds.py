"""The world of a case: what a candidate in Python meets."""

from __future__ import annotations

from collections.abc import Iterable

from replaykit.cases.case import ReplayCase
from replaykit.cases.fixtures import read_fixtures
from replaykit.model.events import Call
from replaykit.model.matching import ToolMode
from replaykit.runners.calling import World


def world_of(case: ReplayCase, calls: Iterable[Call] | None = None) -> World:
    """The case's input, fixtures and rules; other calls than the fixtures where they are given."""
    return World(
        case_id=case.id,
        input_json=case.scenario.input_json,
        calls=tuple(read_fixtures(case.directory) if calls is None else calls),  # type: ignore[arg-type]
        rules=case.scenario.match,
        tools=dict(case.scenario.tools),
        models=ToolMode(case.scenario.models),
        run_id=case.source.run,
    )
