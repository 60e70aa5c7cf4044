"""Sampling: which states are written, and that nothing stands in for one that is not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.errors import UsageError
from replaykit.model.changes import StateFold
from replaykit.model.events import State
from replaykit.model.run import RunHeader, TraceRun, decode_run, encode_run
from replaykit.model.sampling import EVERY_STATE, Sampling, StateLog, sampling
from replaykit.model.values import Raw, decode, encode

LEAF = st.none() | st.integers(0, 2) | st.sampled_from(["a", "é" * 300]) | st.tuples(st.integers(0, 1))
STATE = st.dictionaries(st.sampled_from(["n", "log", "$x"]), LEAF | st.lists(LEAF, max_size=3), max_size=3) | LEAF
RULES = st.builds(Sampling, every=st.integers(1, 4), on_change=st.booleans())


def logged(log: StateLog, states: list[Any]) -> list[State | None]:
    """What the log says of each state."""
    written = [log.next(state) for state in states]
    return [None if w is None else State(seq=0, state_json=w[0], change=w[1]) for w in written]


@given(st.lists(STATE, max_size=10), RULES)
def test_what_is_kept_is_the_state_itself_and_the_rest_is_said_not_to_be(states: list[Any], rules: Sampling) -> None:
    log, fold, seen = StateLog(rules), StateFold(), 0
    events = logged(log, states)

    for position, (state, event) in enumerate(zip(states, events, strict=True)):
        same = position > 0 and encode(state) == encode(states[position - 1])
        assert (event is None) == (rules.on_change and same)
        if event is None:
            continue
        assert event.is_kept == (seen % rules.every == 0)
        seen += 1
        fold.apply(event)
        if event.is_kept:
            assert encode(decode(fold.text)) == encode(state)

    last = log.last()
    if last is not None:
        fold.apply(State(seq=0, state_json=last[0], change=last[1]))
    if states:
        assert encode(decode(fold.text)) == encode(states[-1])
    assert log.last() is None, "the last state is kept once"


@given(st.lists(STATE, min_size=1, max_size=6), STATE, RULES)
def test_a_run_that_goes_on_from_a_state_says_nothing_of_it_and_writes_the_next_whole(
    states: list[Any], start: Any, rules: Sampling
) -> None:
    log = StateLog(rules)
    log.go_on_from(start)

    assert log.next(start, only_on_change=True) is None
    events = [event for event in logged(log, states) if event is not None and event.is_kept]
    assert all(event.state_json for event in events[:1])
    fold = StateFold()
    for event in events:
        fold.apply(event)


def test_after_a_write_that_failed_the_next_state_is_whole() -> None:
    log = StateLog()
    first, _ = log.next({"n": 1}), log.next({"n": 2})
    log.lost()

    assert first is not None
    assert log.next({"n": 3}) == (Raw(b'{"n":3}'), None)


def test_a_null_state_is_a_state() -> None:
    assert StateLog(Sampling(on_change=True)).next(None) == (Raw(b"null"), None)


@pytest.mark.parametrize("every", [0, -1, 1.5, "2", True, None])
def test_a_rule_that_is_none_is_refused_by_its_name(every: Any) -> None:
    with pytest.raises(UsageError, match="checkpoint_every="):
        sampling(every, False, name="checkpoint_every")


def test_so_is_a_condition_that_is_none() -> None:
    with pytest.raises(UsageError, match="checkpoint_on_change='yes'"):
        sampling(1, "yes", name="checkpoint_every")  # type: ignore[arg-type]


def test_the_header_says_how_states_were_sampled_and_nothing_where_all_were_kept() -> None:
    plain, sampled = TraceRun(id="a"), TraceRun(id="b", sampling=Sampling(every=10, on_change=True))

    assert decode_run(encode_run(sampled)) == sampled
    assert b"sampling" not in encode_run(TraceRun.of(RunHeader(id="a", sampling=EVERY_STATE), ()))
    assert decode_run(encode_run(plain)).sampling == EVERY_STATE
