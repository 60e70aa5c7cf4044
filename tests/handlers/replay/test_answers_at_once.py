"""Most replayed calls are answered without a call object of their own: exactly as all others are."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.matrix import examples

import replaykit as rk
from replaykit.model.events import AnyEvent
from replaykit.model.matching import MatchMode, MatchRules, OnMiss
from replaykit.model.result import Deviation
from replaykit.model.run import TraceRun
from replaykit.seam.scope import RunSession, Scope, current

DAY = dt.date(2026, 1, 2)
LONG = "a long text " * 2000
CHANCE = ("undecided", "unordered")
"""Deviations that a busy machine may cause."""


class Refused(Exception):
    """An error of the agent's own."""


@dataclass
class Parcel:
    order: int
    sent: dt.date


count = 0


@rk.tool
def fetch(key: Any) -> Any:
    return {"key": key, "rows": [None, True, 1.5, "text"]} if key else None


@rk.tool
def refuse(key: Any) -> None:
    raise Refused(type(key).__name__)


@rk.tool
def find(key: Any) -> Parcel:
    return Parcel(7, DAY)


@rk.tool
def counted(key: Any) -> int:
    global count
    count += 1
    return count


@rk.tool
def outer(key: Any) -> Any:
    return [fetch(key), fetch(key)]


@rk.tool
async def awaited(key: Any) -> Any:
    return {"key": key}


@rk.tool
def listed(key: Any) -> Iterator[Any]:
    yield key
    yield [key]


def in_pool(key: Any) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(fetch, key).result()


TOOLS: dict[str, Callable[[Any], Any]] = {
    "fetch": fetch,
    "refuse": refuse,
    "find": find,
    "counted": counted,
    "outer": outer,
    "awaited": lambda key: asyncio.run(awaited(key)),
    "listed": lambda key: list(listed(key)),
    "in_pool": in_pool,
}
Move = tuple[str, Any, bool]
"""A tool, its argument, and whether a step begins with it."""
keys = st.sampled_from(
    [0, 1, 2, "x", "<redacted:email:3f2a91>", None, 1.0, (1, 2), dt.date(2026, 1, 2), object(), LONG]
)
moves = st.lists(st.tuples(st.sampled_from([*TOOLS, *["fetch"] * 4]), keys, st.booleans()), min_size=2, max_size=8)
rule_sets = st.sampled_from(
    [
        MatchRules(),
        MatchRules(on_miss=OnMiss.REPEAT),
        MatchRules(ignore=("$.key",)),
        MatchRules(mode=MatchMode.STRICT),
        MatchRules(mode=MatchMode.ARGS),
        MatchRules(mode=MatchMode.SEQUENCE),
    ]
)


def agent(program: list[Move]) -> list[str]:
    """Make the calls, and return what came of each."""
    found: list[str] = []
    assert count >= 0  # the agent reads what a tool changes
    for number, (name, key, is_step) in enumerate(program):
        try:
            if is_step:
                with rk.record("part") as part, part.step(f"step {number}"):
                    found.append(repr(TOOLS[name](key)))
            else:
                found.append(repr(TOOLS[name](key)))
        except (rk.Divergence, rk.ReplayKitError, Refused) as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


class Replayed(NamedTuple):
    """All that a replay tells."""

    results: list[str]
    events: list[AnyEvent]
    deviations: list[Deviation]
    served: dict[int, int]
    answered_at_once: list[str]


def replayed(run: TraceRun, program: list[Move], rules: MatchRules, *, at_once: bool) -> Replayed:
    taken: list[str] = []
    with rk.replaying(run, rules) as replayer:
        session = session_here()
        answer_at_once = session.answer_at_once
        assert answer_at_once is not None

        def noting(scope: Scope, name: str, arguments: bytes) -> Any:
            answer = answer_at_once(scope, name, arguments)
            if answer is not None:
                taken.append(name)
            return answer

        session.answer_at_once = noting if at_once else None
        results = agent(program)
    events = [replace(event, at=0.0) for event in replayer.events()]
    deviations = [deviation for deviation in replayer.all_deviations() if deviation.kind not in CHANCE]
    served = {number: answer.seq for number, answer in replayer.served().items()}
    return Replayed(results, events, deviations, served, taken)


def session_here() -> RunSession:
    scope = current()
    assert scope is not None
    return scope.session


def recorded(store: rk.Store, program: list[Move]) -> TraceRun:
    with rk.record("calls", store=store) as run:
        agent(program)
    return store.load(run.id)


@pytest.mark.filterwarnings("ignore::replaykit.errors.RecordingWarning")
@settings(max_examples=examples(120))
@given(moves, moves, st.data(), rule_sets)
def test_a_call_that_is_answered_at_once_leaves_behind_what_any_other_would(
    store: rk.Store, program: list[Move], others: list[Move], data: st.DataObject, rules: MatchRules
) -> None:
    run = recorded(store, program)
    first, removed = data.draw(st.integers(0, len(program))), data.draw(st.integers(0, 2))
    edited = program[:first] + others[: data.draw(st.integers(0, 2))] + program[first + removed :]

    at_once = replayed(run, edited, rules, at_once=True)
    by_the_seam = replayed(run, edited, rules, at_once=False)

    assert at_once._replace(answered_at_once=[]) == by_the_seam


def test_all_calls_but_the_first_are_answered_at_once(store: rk.Store) -> None:
    program: list[Move] = [("fetch", 1, False), ("fetch", 2, True), ("fetch", 1, False), ("awaited", 1, False)]
    run = recorded(store, program)

    found = replayed(run, program, MatchRules(), at_once=True)

    assert found.answered_at_once == ["fetch", "fetch", "awaited"]
    assert found.deviations == []


@pytest.mark.parametrize("rules", [MatchRules(ignore=("$.request_id",)), MatchRules(mode=MatchMode.STRICT)])
def test_no_call_is_answered_at_once_where_calls_are_compared_in_another_way(
    store: rk.Store, rules: MatchRules
) -> None:
    program: list[Move] = [("fetch", 1, False), ("fetch", 2, False)]

    found = replayed(recorded(store, program), program, rules, at_once=True)

    assert found.answered_at_once == []
    assert found.deviations == []


@pytest.mark.filterwarnings("ignore::replaykit.errors.RecordingWarning")
def test_a_call_that_has_changed_something_is_not_answered_at_once(store: rk.Store) -> None:
    program: list[Move] = [("fetch", 1, False), ("counted", 1, False), ("fetch", 2, False)]

    found = replayed(recorded(store, program), program, MatchRules(), at_once=True)

    assert found.answered_at_once == ["fetch"]
