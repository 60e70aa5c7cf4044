"""The run log: one document, there and back."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.model.events import (
    Decision,
    ErrorEvent,
    ErrorInfo,
    Exchange,
    LlmCall,
    Message,
    Note,
    State,
    ToolCall,
    Usage,
)
from replaykit.model.run import Origin, RunStatus, TraceRun, decode_run, encode_run
from replaykit.model.values import ABSENT, Raw, canonical, raw

JSON = st.none() | st.integers(-(2**53), 2**53) | st.text() | st.lists(st.text(), max_size=3)
RAW = JSON.map(raw)
MAYBE = RAW | st.just(ABSENT)
ERROR = st.builds(ErrorInfo, type=st.text(min_size=1), message=st.text(), args_json=MAYBE, bases=st.tuples(st.text()))
PLACE: dict[str, Any] = {
    "seq": st.integers(0, 2**40),
    "at": st.floats(0, 2e9),
    "duration_s": st.floats(0, 1e6),
    "step": st.none() | st.text(),
    "parent": st.none() | st.integers(0, 2**40),
    "path": st.text(),
}
CALL: dict[str, Any] = {
    **PLACE,
    "name": st.text(),
    "arguments_json": JSON.map(canonical).map(Raw),
    "result_json": MAYBE,
    "error": st.none() | ERROR,
    "items_json": st.none() | st.lists(RAW, max_size=3).map(tuple),
    "complete": st.booleans(),
}
EVENT = st.one_of(
    st.builds(ToolCall, **CALL),
    st.builds(LlmCall, **CALL, usage=st.none() | st.builds(Usage, input_tokens=st.none() | st.integers(0, 9))),
    st.builds(Exchange, **CALL),
    st.builds(Message, **PLACE, role=st.text(), content_json=RAW),
    st.builds(State, **PLACE, state_json=MAYBE),
    st.builds(Decision, **PLACE, content_json=RAW),
    st.builds(ErrorEvent, **PLACE, error=ERROR),
    st.builds(Note, **PLACE, name=st.text(), content_json=RAW),
)
RUN = st.builds(
    TraceRun,
    id=st.text(min_size=1),
    name=st.text(),
    input_json=RAW,
    output_json=MAYBE,
    status=st.sampled_from(RunStatus),
    error=st.none() | ERROR,
    started_at=st.floats(0, 2e9),
    ended_at=st.none() | st.floats(0, 2e9),
    tags=st.lists(st.text(), max_size=2).map(tuple),
    origin=st.builds(Origin, kind=st.sampled_from(["recorded", "imported"]), run=st.none() | st.text()),
    events=st.lists(EVENT, max_size=6).map(tuple),
)


@given(RUN)
def test_a_run_survives_its_file(run: TraceRun) -> None:
    assert decode_run(encode_run(run)) == run


@given(st.binary(max_size=300))
def test_rubbish_is_refused_as_rubbish(text: bytes) -> None:
    with pytest.raises((msgspec.MsgspecError, UnicodeDecodeError)):
        decode_run(text)


def test_an_output_of_null_is_not_the_same_as_none() -> None:
    assert TraceRun(id="a", output_json=raw(None)) != TraceRun(id="a")


def test_calls_inside_a_tool_are_not_the_agents_own() -> None:
    outer, inner = ToolCall(seq=0, name="outer"), ToolCall(seq=1, name="inner", parent=0)

    assert TraceRun(id="a", events=(outer, inner)).tool_calls == [outer]
