"""Accepting a new truth: the run as it happened, and nothing in the file changes that the agent did not change."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import replaykit as rk
from replaykit.candidates.golden import accepted, as_happened, replay_golden
from replaykit.cases.golden import Golden, encode_golden, golden_of
from replaykit.model.events import Call, LlmCall, Message, State, ToolCall, Usage
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Raw, canonical, raw

WORLD = itertools.count()


@rk.tool
def ask(key: str) -> list[Any]:
    answer = next(WORLD)
    if key == "fails":
        raise LookupError(f"no {key} {answer}")
    return [key, answer]


@rk.tool
def nested(parts: list[Any]) -> list[Any]:
    with rk.record("inside") as run:
        run.checkpoint({"inside": next(WORLD)})
        run.note("inside")
    return [perform(part) for part in parts]


LIVE = ("ask", "nested")
KEY = st.sampled_from(["a", "b", "fails"])
PROGRAM = st.recursive(
    st.tuples(st.just("ask"), KEY),
    lambda inner: st.one_of(
        st.tuples(st.just("sequence"), st.lists(inner, max_size=4)),
        st.tuples(st.just("threads"), st.lists(inner, max_size=3)),
        st.tuples(st.just("tool"), st.lists(inner, max_size=3)),
        st.tuples(st.just("state"), inner),
    ),
    max_leaves=8,
)


def perform(program: Any) -> Any:
    kind, detail = program
    if kind == "ask":
        try:
            return ask(detail)
        except LookupError as error:
            return str(error)
    if kind == "sequence":
        return [perform(part) for part in detail]
    if kind == "threads":
        with ThreadPoolExecutor(3) as pool:
            return list(pool.map(perform, detail))
    if kind == "tool":
        return nested(detail)
    with rk.record("law") as run, run.step() as step:
        value = perform(detail)
        run.message("assistant", str(value))
        step.done({"value": value, "log": ["x"] * len(str(value))})
    return value


def recorded(agent: Any, store: rk.Store) -> Golden:
    with rk.record("law", input="go", store=store, tags=["t"], metadata={"k": 1}) as run:
        run.output = agent("go")
    return golden_of(store.load(run.id))


@given(PROGRAM, PROGRAM)
def test_what_was_accepted_comes_out_again(store: rk.Store, before: Any, after: Any) -> None:
    golden = recorded(lambda _: perform(before), store)

    def agent(_: Any) -> Any:
        return perform(after)

    result = replay_golden(golden, agent, live=LIVE)
    new = accepted(result)

    again = rk.check_golden(new, agent)
    assert again.passed, again.text
    assert again.run.output == result.run.output
    assert [event.seq for event in new.run.events] == list(range(len(new.run.events)))
    assert new.run.event_count == len(new.run.events)


@given(PROGRAM)
def test_an_agent_that_does_the_same_is_accepted_as_it_was(store: rk.Store, program: Any) -> None:
    golden = recorded(lambda _: perform(program), store)
    calls = list(golden.run.calls)

    result = rk.check_golden(golden, lambda _: perform(program))
    found = as_happened(result)

    assert result.passed, result.text
    assert sorted(map(repr_of, found.calls)) == sorted(map(repr_of, calls))
    assert (found.started_at, found.ended_at, found.tags) == (golden.run.started_at, golden.run.ended_at, ("t",))
    assert found.metadata == {"k": 1}
    assert found.origin.run == golden.run.id


def repr_of(call: Call) -> tuple[Any, ...]:
    """A call without its number: those made in parallel are numbered as they come."""
    return (call.path, call.name, call.at, call.duration_s, bytes(call.arguments_json), bytes(call.result_json))


def sequential(*keys: str) -> Any:
    def agent(_: str) -> list[Any]:
        with rk.record("law") as run:
            found = []
            for key in keys:
                with run.step() as step:
                    run.message("assistant", key)
                    found.append(ask(key))
                    step.done({"found": found})
            return found

    return agent


def test_the_file_changes_only_where_the_agent_did(store: rk.Store) -> None:
    golden = recorded(sequential("a", "b", "b"), store)
    result = replay_golden(golden, sequential("a", "b", "a", "b"), live=["ask"])

    old, new = (encode_golden(one).decode().splitlines() for one in (golden, accepted(result)))

    assert result.failed
    first = next(n for n, line in enumerate(old) if '"key": "b"' in line)
    head = [line for line in old[:first] if '"id"' not in line and "event_count" not in line and '"output"' not in line]
    assert set(head) <= set(new), "everything before the first change stays as it was"
    assert [call.arguments["key"] for call in accepted(result).run.tool_calls] == ["a", "b", "a", "b"]


def test_a_second_update_still_goes_back_to_the_recording(store: rk.Store) -> None:
    golden = recorded(sequential("a"), store)

    once = accepted(replay_golden(golden, sequential("b"), live=["ask"]))
    twice = accepted(replay_golden(once, sequential("a"), live=["ask"]))

    assert (twice.run.id, twice.run.origin.run) == ("replay-law", golden.run.id)


def test_what_the_recording_knows_of_a_call_is_kept() -> None:
    known = LlmCall(
        seq=0,
        at=5.0,
        duration_s=2.5,
        name="gpt",
        arguments_json=Raw(canonical({"id": 1, "q": "why?"})),
        result_json=raw("so"),
        finish_reason="stop",
        usage=Usage(input_tokens=7),
    )
    now = msgspec.structs.replace(known, at=9.0, duration_s=0.0, finish_reason=None, usage=None, step="plan")
    golden = golden_of(TraceRun(id="r", name="law", status=RunStatus.SUCCESS, started_at=4.0, events=(known,)))
    result = rk.check_golden(golden, lambda _: None)
    run = msgspec.structs.replace(result.run, events=(Message(seq=3, role="user"), msgspec.structs.replace(now, seq=4)))

    message, call = as_happened(msgspec.structs.replace(result, run=run, served={4: known})).events

    assert call == msgspec.structs.replace(known, seq=1, step="plan")
    assert (message.seq, message.at) == (0, 4.0)


def test_a_call_without_an_answer_cannot_be_accepted(store: rk.Store) -> None:
    result = rk.check_golden(recorded(sequential("a"), store), sequential("b"))

    with pytest.raises(rk.Divergence, match="there is no answer to record for `ask`") as caught:
        accepted(result)

    assert "now       ask(key='b')" in str(caught.value)


def test_only_the_tools_that_are_named_are_called_for_real(store: rk.Store) -> None:
    golden = recorded(sequential("a"), store)
    before = next(WORLD)

    result = replay_golden(golden, sequential("b"), live=["other"])

    assert [call.name for call in result.stopped] == ["ask"]
    assert next(WORLD) == before + 1


def test_what_happened_inside_a_tool_stays_in_the_file(store: rk.Store) -> None:
    golden = recorded(lambda _: nested([["ask", "a"]]), store)

    events = as_happened(rk.check_golden(golden, lambda _: (nested([["ask", "a"]]), 1)[1])).events

    assert (type(events[0]), events[0].parent) == (ToolCall, None)
    assert [event.parent for event in events[1:]] == [0, 0]
    assert not any(isinstance(event, State) for event in events), "a state in a tool leads nowhere"
