"""What of a run is compared: the law of ignored members, and that large states are not read for it."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.candidates import comparable as room
from replaykit.candidates.comparable import by_cause, comparable
from replaykit.cases.golden import Aspect, golden_of
from replaykit.model.changes import StateFold
from replaykit.model.events import Change, State, ToolCall
from replaykit.model.jsonpath import parse_path, remove_paths
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.text_splice import cut
from replaykit.model.values import Json, Raw, canonical, raw

LEAF = st.integers(0, 2) | st.sampled_from(["x", "y" * 300])
VALUE = st.recursive(
    LEAF,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "a", "b"]), inner, max_size=3),
    max_leaves=6,
)
PATHS = st.lists(
    st.sampled_from(
        ["$.id", "$..id", "$.log[*].id", "$.log[0]", "$.log[1].id", "$.*", "$.log", "$", "$..a[0]", "$.a.b", "$[*].id"]
    ),
    max_size=3,
)


@st.composite
def histories(draw: st.DrawFn) -> list[Json]:
    """States as agents have them: a log that grows, in an object or alone, and members that come, change and go."""
    log: list[Json] = []
    states: list[Json] = []
    for _ in range(draw(st.integers(1, 6))):
        log = [*log, *draw(st.lists(VALUE, max_size=2))]
        state: Json = {"log": log} if draw(st.booleans()) else {}
        state |= draw(st.dictionaries(st.sampled_from(["id", "a", "b", "text"]), VALUE, max_size=3))
        states.append(draw(st.sampled_from([state, state, log]) | VALUE))
    return states


def run_of(states: list[Json], inside: set[int] = frozenset()) -> TraceRun:  # type: ignore[assignment]
    """A run that keeps these states; those `inside` were kept in a tool."""
    fold, events = StateFold(), [ToolCall(seq=0, name="t", arguments_json=Raw(canonical({})), result_json=raw(1))]
    for seq, state in enumerate(states, 1):
        whole, change = fold.advance(state)
        parent = 0 if seq - 1 in inside else None
        events.append(State(seq=seq, state_json=whole, change=change, parent=parent))  # type: ignore[arg-type]
    return TraceRun(id="r", status=RunStatus.SUCCESS, events=tuple(events))


def states_in(run: TraceRun) -> list[Json]:
    fold, found = StateFold(), []
    for event in run.events:
        if isinstance(event, State):
            fold.apply(event)
            found.append(json.loads(fold.text))
    return found


def last_state_in(run: TraceRun) -> Json:
    fold = StateFold()
    for event in run.events:
        if isinstance(event, State):
            fold.apply(event)
    return json.loads(fold.text)


@given(histories(), PATHS, st.sets(st.integers(0, 5)))
def test_the_states_that_are_compared_are_the_states_without_what_is_ignored(
    states: list[Json], paths: list[str], inside: set[int]
) -> None:
    ignore = [parse_path(path) for path in paths]

    found = states_in(comparable(run_of(states, inside), list(Aspect), ignore))

    assert found == [remove_paths(state, ignore) for n, state in enumerate(states) if n not in inside]


LONG = "y" * 400


@pytest.mark.parametrize(
    ("states", "path"),
    [
        ([{"log": [{"id": 1}]}, {"log": [{"id": 1}, {"id": 2}]}], "$.log[1].id"),
        ([{"log": [{"id": 1}]}, {"log": [{"id": 1}, {"id": 2}]}], "$.log[0]"),
        ([{"log": [1]}, {"log": [1, 2]}, {"log": [1, 2, 3], "n": 1}], "$.log[*]"),
        ([{"a": {"id": 1, "text": LONG}}, {"a": {"id": 2, "text": LONG}}, {"a": {"text": LONG}}], "$..id"),
        ([{"a": 1, "b": 2}, {"b": 2}, {"b": 3}], "$.a"),
        ([[{"id": 1}], [{"id": 1}, {"id": 2}]], "$[*].id"),
        ([LONG + "a", LONG + "b"], "$.a"),
    ],
)
def test_a_change_that_only_the_whole_state_can_tell_is_told(states: list[Json], path: str) -> None:
    run, ignore = run_of(states), [parse_path(path)]
    assert any(isinstance(event, State) and event.change for event in run.events), "there is a change to tell"

    found = comparable(run, list(Aspect), ignore)

    assert states_in(found) == [remove_paths(state, ignore) for state in states]
    assert last_state_in(found) == remove_paths(states[-1], ignore), "also where nobody looked on the way"


def test_members_that_no_path_reaches_stay_the_bytes_that_later_changes_cut_into() -> None:
    """A file that was edited by hand spells numbers and letters in its own way."""
    own = rb'{"n":1e2,"city":"M\u00fcnchen","text":"%s"}' % LONG.encode()
    first, second = (rb'{"id":%d,"text":"%s"}' % (n, LONG.encode()) for n in (1, 2))
    steps = [
        State(seq=0, state_json=Raw(b'{"own":%s,"other":%s}' % (own, first))),
        State(seq=1, change=Change(cut={"other": cut(first, second)})),  # type: ignore[dict-item]
        State(seq=2, change=Change(cut={"own": cut(own, own.replace(b"1e2", b"2e2"))})),  # type: ignore[dict-item]
    ]
    run = TraceRun(id="r", status=RunStatus.SUCCESS, events=tuple(steps))

    found = states_in(comparable(run, list(Aspect), [parse_path("$.other.id")]))

    assert found[-1] == {"own": {"n": 200.0, "city": "München", "text": LONG}, "other": {"text": LONG}}


@given(histories())
def test_without_ignored_members_nothing_is_rewritten(states: list[Json]) -> None:
    run = run_of(states)

    assert comparable(run, list(Aspect), []).events == run.events


def test_what_is_not_asserted_is_not_there() -> None:
    run = run_of([{"a": 1}])

    assert [type(event) for event in comparable(run, [Aspect.CALLS], []).events] == [ToolCall]
    assert [type(event) for event in comparable(run, [Aspect.STATES], []).events] == [State]
    assert comparable(run, [Aspect.OUTCOME], []).events == ()


@pytest.mark.parametrize("paths", [[], ["$..id", "$.trace"], ["$.log[*].id"]], ids=str)
def test_a_large_state_that_grows_is_not_read_at_every_step(paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    log = [{"id": n, "text": "x" * 1000} for n in range(200)]
    states: list[Json] = []
    for n in range(100):
        log = [*log, {"id": n, "text": "y"}]
        states.append({"log": log, "trace": n, "n": n})
    run = golden_of(run_of(states)).run
    read = 0

    def counting(text: bytes, loads: Any = room.orjson.loads) -> Json:
        nonlocal read
        read += len(text)
        return loads(text)

    monkeypatch.setattr(room.orjson, "loads", counting)

    comparable(run, list(Aspect), [parse_path(path) for path in paths])

    assert read < 3 * len(json.dumps(states[0])), f"read {read:,} bytes for a hundred steps"


@given(histories(), st.lists(st.sampled_from(["", "/~job#0", "/~job#10", "/~job#0/inner#1"]), min_size=6), PATHS)
def test_each_task_keeps_its_own_states_in_their_order(
    states: list[Json], paths: list[str], ignored: list[str]
) -> None:
    run = run_of(states)
    events = [
        msgspec.structs.replace(event, path=path)
        for event, path in zip(run.events[1:], paths, strict=False)  # fewer states than paths
    ]
    apart = comparable(
        msgspec.structs.replace(run, events=tuple(events)), list(Aspect), [parse_path(path) for path in ignored]
    )

    found = by_cause(apart)

    lane = {"": "", "/~job#0": "/~job#0", "/~job#10": "/~job#10", "/~job#0/inner#1": "/~job#0"}
    lanes = [lane[event.path] for event in apart.events]
    expected = [state for _, state in sorted(zip(lanes, states_in(apart), strict=True), key=lambda pair: pair[0])]
    assert states_in(found) == expected
    assert sorted(event.seq for event in found.events) == [event.seq for event in apart.events]
