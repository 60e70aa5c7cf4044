"""The agent's state: after a step, at the end, and what changed between."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from replaykit.checks.assertions import parse_assertion
from replaykit.checks.rule import CannotTell
from replaykit.model.changes import StateFold
from replaykit.model.events import Change, State
from replaykit.model.result import Finding, Side
from replaykit.model.run import TraceRun
from replaykit.model.values import canonical

STATES = [
    {"paid": False, "tries": 1, "log": ["asked"], "user": {"name": "ana"}},
    {"paid": False, "tries": 2, "log": ["asked", "waited"], "user": {"name": "ana"}},
    {"paid": True, "tries": 2, "log": ["asked", "waited", "paid"], "user": {"name": "ana"}},
]


def recorded(states: list[Any]) -> TraceRun:
    """A run with these states, written as recordings are: the first whole, the others as changes."""
    fold = StateFold()
    events = []
    for seq, state in enumerate(states):
        text, change = fold.advance(state)
        events.append(State(seq=seq, step=f"step_{seq + 1}", state_json=text, change=change))
    return TraceRun(id="r", events=tuple(events))


def found(kind: str, value: Any, run: TraceRun | None = None) -> Finding:
    return parse_assertion(kind, value).check(run or recorded(STATES), Side.DESIRED)


def test_the_recorded_states_are_changes():
    assert any(event.change is not None for event in recorded(STATES).events)


@pytest.mark.parametrize("step", [None, "step_1", "step_2", "step_3"])
def test_the_state_after_a_step_is_folded_from_the_log(step):
    value = STATES[-1] if step is None else STATES[int(step[-1]) - 1]

    finding = found("state.equals", {"value": value, "step": step} if step else {"value": value})

    assert finding.holds
    assert finding.seq == STATES.index(value)
    assert not found("state.equals", {"value": {**value, "tries": 9}, **({"step": step} if step else {})}).holds


def test_a_state_that_differs_says_where():
    finding = found("state.equals", {"value": {**STATES[2], "user": {"name": "bo"}}})

    assert "$.user.name: 'bo' → 'ana'" in finding.actual


@pytest.mark.parametrize(
    ("value", "holds"),
    [
        ("$.paid", True),
        ({"path": "$.paid", "equals": True}, True),
        ({"path": "$.paid", "equals": 1}, False),
        ({"path": "$.log[2]", "equals": "paid"}, True),
        ({"path": "$.log[2]", "step": "step_2"}, False),
        ({"path": "$.tries", "max": 1, "step": "step_1"}, True),
        ({"path": "$..name", "contains": "an"}, True),
    ],
)
def test_a_member_of_the_state_is_as_expected(value, holds):
    assert found("state.path", value).holds is holds


@pytest.mark.parametrize(
    ("value", "holds", "text"),
    [
        ({"changed": ["$.paid", "$.log"]}, True, "State changed as expected"),
        ({"changed": ["$.user"]}, False, "$.user did not change"),
        ({"unchanged": ["$.user"]}, True, "State changed as expected"),
        ({"unchanged": ["$.tries"]}, False, "$.tries changed"),
        ({"only": ["$.paid", "$.log", "$.tries"]}, True, "State changed as expected"),
        ({"only": ["$.paid", "$.tries"]}, False, "$.log[1] changed"),
        ({"from": "step_2", "only": ["$.paid", "$.log"]}, True, "State changed as expected"),
        ({"from": "step_1", "to": "step_2", "unchanged": ["$.paid"]}, True, "State changed as expected"),
        ({"from": "step_9", "changed": ["$.paid"]}, False, "No states to compare"),
        ({"only": []}, False, "$.paid changed"),
    ],
)
def test_what_changed_between_two_steps(value, holds, text):
    finding = found("state.diff", value)

    assert (finding.holds, finding.text) == (holds, text)


def test_a_state_is_known_by_its_hash():
    digest = hashlib.sha256(canonical(STATES[2])).hexdigest()
    without = hashlib.sha256(canonical({key: STATES[2][key] for key in ("paid", "user")})).hexdigest()

    assert found("state.hash", digest.upper()).holds
    assert not found("state.hash", {"sha256": digest, "step": "step_1"}).holds
    assert found("state.hash", {"sha256": without, "ignore": ["$.tries", "$.log"]}).holds


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("state.equals", {"value": None}),
        ("state.path", "$"),
        ("state.diff", {"only": ["$"]}),
        ("state.hash", "0" * 64),
    ],
)
@pytest.mark.parametrize("events", [(), (State(seq=0, step="step_1"),)], ids=["none", "not kept"])
def test_without_a_state_nothing_holds(kind, value, events):
    finding = found(kind, value, TraceRun(id="r", events=events))

    assert not finding.holds
    assert finding.actual == "no state in the log"


def test_the_last_state_counts_only_when_it_was_kept():
    run = recorded(STATES[:1])
    run = TraceRun(id="r", events=(*run.events, State(seq=5, step="step_2")))

    assert not found("state.path", "$.paid", run).holds
    assert found("state.path", {"path": "$.paid", "step": "step_1"}, run).holds


def test_states_that_do_not_fit_together_are_told():
    run = TraceRun(id="r", events=(State(seq=4, change=Change(drop=("x",))),))

    with pytest.raises(CannotTell, match="do not fit together at event 4"):
        found("state.path", "$.x", run)
