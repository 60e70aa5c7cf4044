"""The world of a case: what a candidate in Python meets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from replaykit.cases.case import ReplayCase
from replaykit.cases.case_shape import parse_clock
from replaykit.cases.fixtures import read_fixtures
from replaykit.importers.files import import_trace
from replaykit.model.events import Call
from replaykit.model.matching import OnMiss, ToolMode
from replaykit.model.pins import Clock, Pins
from replaykit.replayer.world import World


def world_of(case: ReplayCase, calls: Iterable[Call] | None = None) -> World:
    """The case's input, fixtures and rules; other calls than the fixtures where they are given."""
    return World(
        case_id=case.id,
        input_json=case.scenario.input_json,
        calls=tuple(read_fixtures(case.directory) if calls is None else calls),  # type: ignore[arg-type]
        rules=case.scenario.match,
        tools=dict(case.scenario.tools),
        models=ToolMode(case.scenario.models),
        pins=_pins(case),
        run_id=case.source.run,
    )


def _pins(case: ReplayCase) -> Pins:
    """What the case holds still. A clock that names no moment starts where the source's run did."""
    seed = case.scenario.seed
    if case.scenario.clock is None:
        return Pins(clock=Clock.LIVE, seed=seed)
    moment, clock = parse_clock(case.scenario.clock)
    if moment is not None:
        return Pins(started_at=moment.timestamp(), clock=clock, seed=seed)
    if clock is Clock.LIVE or case.trace_path is None:
        return Pins(clock=Clock.LIVE, seed=seed)
    runs = import_trace(case.trace_path, case.source.format).runs
    started = next((run.started_at for run in runs if case.source.run in (None, run.id)), 0.0)
    return Pins(started_at=started, clock=clock, seed=seed)


def let_live(case: ReplayCase, names: Sequence[str]) -> ReplayCase:
    """The case, with calls of these names done for real where it does not hold them."""
    if not names:
        return case
    rules = case.scenario.match
    rules = msgspec.structs.replace(rules, on_miss=OnMiss.LIVE, live=(*rules.live, *names))
    return msgspec.structs.replace(case, scenario=msgspec.structs.replace(case.scenario, match=rules))
