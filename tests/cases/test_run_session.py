"""A run as a session: what was seen is given again, and nothing is made up."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.model.test_values import VALUES, same

import replaykit as rk
from replaykit.cases.run_session import holds, session_of_run, session_text, write_session
from replaykit.cases.session import Session, read_session
from replaykit.documents.document import parse_document
from replaykit.documents.yaml_writer import emit_yaml
from replaykit.errors import StoreError, UsageError
from replaykit.model.events import ErrorInfo, ToolCall
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import ABSENT, canonical, decode, raw
from replaykit.redaction.project import SWITCH
from replaykit.seam.failures import describe
from replaykit.seam.rebuild import rebuild_error, value_of

HUGE = 2**64


def call(seq: int, name: str = "search", **more: Any) -> ToolCall:
    more.setdefault("result_json", raw(seq))
    return ToolCall(seq=seq, name=name, arguments_json=msgspec.Raw(canonical({"n": seq})), **more)


def run_of(*calls: ToolCall, **more: Any) -> TraceRun:
    given = {"id": "r1", "input_json": raw("question"), "status": RunStatus.SUCCESS, **more}
    return TraceRun(events=calls, **given)


@pytest.mark.parametrize(
    ("error", "status", "response"),
    [
        (ErrorInfo(type="TimeoutError", message="late"), 0, "TimeoutError: late"),
        (ErrorInfo(type="ReadTimeout", module="httpx", message="late"), 0, "ReadTimeout: late"),
        (ErrorInfo(type="ConnectionResetError", message=""), 0, "ConnectionResetError"),
        (ErrorInfo(type="Gone", bases=("builtins.ConnectionError", "builtins.OSError")), 0, "Gone"),
        (ErrorInfo(type="Busy", attributes_json=raw({"status": 503})), 503, "Busy"),
        (ErrorInfo(type="ValueError", message="no"), 500, "ValueError: no"),
        (ErrorInfo(type="ToolError", attributes_json=raw({"status": 504, "response": None})), 504, None),
        (ErrorInfo(type="ToolError", attributes_json=raw({"status": 0, "response": [1]})), 0, [1]),
        (ErrorInfo(type="ToolError", message="x", attributes_json=raw({"status": 200})), 500, "ToolError: x"),
        (ErrorInfo(type="ToolError", message="x", attributes_json=raw([3])), 500, "ToolError: x"),
    ],
)
def test_a_tool_that_failed_has_the_status_it_gave_or_one_that_says_how(
    error: ErrorInfo, status: int, response: Any
) -> None:
    (answer,) = session_of_run(run_of(call(0, error=error, result_json=ABSENT)))["tool_responses"]

    assert (answer["status"], answer["response"]) == (status, response)


def test_an_answer_that_never_came_is_left_out_where_none_follows_it() -> None:
    session = session_of_run(run_of(call(0), call(1, result_json=ABSENT), call(2, name="other")))

    assert [answer["tool"] for answer in session["tool_responses"]] == ["search", "other"]


def test_an_answer_that_never_came_before_others_makes_no_session() -> None:
    with pytest.raises(UsageError, match="an answer of 'search' is not known"):
        session_of_run(run_of(call(0, result_json=ABSENT), call(1)))


def test_a_run_whose_input_is_not_known_makes_no_session() -> None:
    with pytest.raises(UsageError, match="its input is not known"):
        session_of_run(run_of(input_json=msgspec.Raw(b"null")))


@pytest.mark.parametrize(
    "value",
    [b"bytes", {1: "a key that is no text"}, {1, 2}, (1, "b"), dt.date(2026, 2, 15), Decimal("1.10"), math.inf],
    ids=str,
)
def test_a_value_that_json_cannot_say_is_tagged_and_the_session_says_so(value: Any) -> None:
    session = session_of_run(run_of(call(0, result_json=raw([value]))))

    assert session["tagged"] is True
    assert reread(session).calls[0].result == [value]


class Colour(Enum):
    RED = "r"


def test_an_object_keeps_the_name_of_its_class_and_becomes_one_again_where_the_tool_says_so() -> None:
    session = session_of_run(run_of(call(0, result_json=raw(Colour.RED))))

    (answer,) = reread(session).calls
    assert value_of(answer.result_json, Colour) is Colour.RED
    assert answer.result == "r"


@pytest.mark.parametrize("value", [{"$date": "2026-02-15"}, {"a": {"$tuple": [1]}}, {"$x": 1}, HUGE, [{"$dict": []}]])
def test_what_only_looks_tagged_is_written_as_it_is(value: Any) -> None:
    session = session_of_run(run_of(call(0, result_json=raw(value)), input_json=raw([value])))

    assert "tagged" not in session
    assert (session["input"], session["tool_responses"][0]["response"]) == ([value], value)
    assert reread(session).calls[0].result == value


def test_the_answers_of_a_failure_and_of_a_stream_are_tagged_as_well() -> None:
    failed = describe(rk.ToolError("no", status=409, response={"at": dt.date(2026, 2, 15)}))
    items = (raw("a"), raw(b"b"))
    session = session_of_run(run_of(call(0, error=failed, result_json=ABSENT), call(1, items_json=items)))

    first, second = reread(session).calls
    error = rebuild_error(first.error, {})  # type: ignore[arg-type]
    assert (error.status, error.response) == (409, {"at": dt.date(2026, 2, 15)})  # type: ignore[attr-defined]
    assert second.result == ["a", b"b"]


@given(VALUES.filter(lambda value: value is not None), st.lists(VALUES, max_size=3))
def test_whatever_python_value_was_seen_is_read_again_as_the_same(asked: Any, answers: list[Any]) -> None:
    calls = [call(seq, result_json=raw(answer)) for seq, answer in enumerate(answers)]

    session = reread(session_of_run(run_of(*calls, input_json=raw(asked))))

    assert same(decode(session.input_json), decode(raw(asked)))
    assert all(same(one.result, other.result) for one, other in zip(session.calls, calls, strict=True))


def reread(session: dict[str, Any]) -> Session:
    """What comes back from the file."""
    return read_session(parse_document(emit_yaml(session), "s.yaml"))


def test_a_number_that_json_readers_do_not_keep_goes_into_yaml_only() -> None:
    session = session_of_run(run_of(call(0, result_json=raw(HUGE))))

    assert read_session(parse_document(session_text(session, Path("s.yaml")), "s.yaml")).calls[0].result == HUGE
    with pytest.raises(UsageError, match="would not say exactly that"):
        session_text(session, Path("s.json"))


def test_what_is_not_known_is_not_written() -> None:
    session = session_of_run(run_of())

    assert session.keys() == {"id", "name", "source", "captured_at", "input", "tool_responses"}


NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
SUFFIX = st.sampled_from(["yaml", "json"])


@given(JSON.filter(lambda value: value is not None), st.lists(JSON, max_size=4), st.text(), SUFFIX)
@example({"TOKEN": 1.0000000000123184e16}, [], "", "yaml")
def test_whatever_was_seen_is_read_again_as_it_was_or_refused(
    asked: Any, answers: list[Any], name: str, suffix: str
) -> None:
    calls = [call(seq, result_json=raw(answer)) for seq, answer in enumerate(answers)]
    run = run_of(*calls, name=name, input_json=raw(asked))

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(SWITCH, "off")  # any text is also one under which a number would be a secret
            text = session_text(session_of_run(run, "C"), Path(f"s.{suffix}"))
    except UsageError:
        assert suffix == "json" and is_huge([asked, answers])  # noqa: PT018
        return
    session = read_session(parse_document(text, f"s.{suffix}"))

    assert decode(session.input_json) == asked
    assert [bytes(one.arguments_json) for one in session.calls] == [bytes(one.arguments_json) for one in calls]
    assert [one.result for one in session.calls] == answers


def is_huge(value: Any) -> bool:
    """True where a number is in it that not every reader of JSON keeps."""
    if isinstance(value, dict | list):
        return any(map(is_huge, value.values() if isinstance(value, dict) else value))
    return type(value) is int and not -(2**63) <= value < 2**64


def test_a_file_is_written_whole_and_told_when_it_cannot_be(own_directory: Path) -> None:
    file = write_session(own_directory / "deep" / "s.yaml", "id: a\n")

    assert holds(file, "id: a\n")
    assert [one.name for one in file.parent.iterdir()] == ["s.yaml"]
    (own_directory / "taken").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        write_session(own_directory / "taken" / "s.yaml", "id: a\n")
