"""Sessions as cases: what a file says becomes a tape, in its order; what it does not say is a mistake with a line."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import replaykit as rk
from replaykit.candidates.worlds import with_consent, world_of
from replaykit.cases.case_shape import ModelMode
from replaykit.cases.find import CaseFile, SessionFile, Unusable, find_files
from replaykit.cases.run_session import session_of_run
from replaykit.cases.session import Session, case_of_session, load_session, read_session
from replaykit.cases.session_shape import looks_like_session
from replaykit.checks.assertions import parse_assertion
from replaykit.documents.document import parse_document
from replaykit.errors import InvalidFile, NothingSelected
from replaykit.model.isolation import Consent
from replaykit.model.matching import MatchMode, OnMiss
from replaykit.model.values import decode
from replaykit.seam.rebuild import rebuild_error

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def session_of(**said: Any) -> Session:
    value = {"id": "s", "input": "hello", "contract": "c", **said}
    return read_session(parse_document(json.dumps(value), "s.json"))


@given(JSON, JSON, st.lists(JSON, max_size=4))
def test_every_json_value_comes_back_as_it_was_written(given_: Any, context: Any, answers: list[Any]) -> None:
    session = session_of(
        input=given_, context=context, tool_responses=[{"tool": "t", "response": answer} for answer in answers]
    )

    assert decode(session.input_json) == given_
    assert (decode(session.context_json) if session.context_json else None) == context
    assert [call.result for call in session.calls] == answers


@given(st.integers(0, 999))
def test_a_status_decides_whether_the_tool_failed(status: int) -> None:
    (call,) = session_of(tool_responses=[{"tool": "t", "response": {"why": 1}, "status": status}]).calls

    assert (call.error is not None) == (status >= 400 or status == 0)
    assert (call.result == {"why": 1}) == (call.error is None)
    if call.error is not None:
        error = rebuild_error(call.error, {})
        assert isinstance(error, rk.ToolError)
        assert (error.status, error.response) == (status, {"why": 1})


def test_what_is_not_written_down_is_not_made_up() -> None:
    (call,) = session_of(tool_responses=[{"tool": "t"}]).calls

    assert (call.arguments, call.result, call.error, call.duration_s) == (None, None, None, 0.0)
    assert session_of().calls == ()


def test_a_session_becomes_a_case_with_a_tape_in_sequence() -> None:
    desired = (parse_assertion("status_is", "success"),)
    session = session_of(
        name="a name",
        expected_failure="it lied",
        tool_responses=[{"tool": "t", "latency_ms": 1500, "arguments": {"b": 1}}],
    )

    case = case_of_session(session, desired, models=ModelMode.LIVE, timeout_s=3)

    assert (case.id, case.title, case.notes, case.desired) == ("s", "a name", "it lied", desired)
    assert (case.scenario.match.mode, case.scenario.match.on_miss) == (MatchMode.SEQUENCE, OnMiss.ERROR)
    assert (case.scenario.models, case.scenario.timeout_s) == (ModelMode.LIVE, 3)
    (call,) = world_of(with_consent(case, Consent(live=("models",)))).calls
    assert (call.seq, call.name, call.duration_s, call.arguments) == (0, "t", 1.5, {"b": 1})  # type: ignore[union-attr]


@rk.tool
def lines(path: str) -> Iterator[str]:
    raise AssertionError("this is never done")
    yield ""


@rk.tool
async def alines(path: str) -> AsyncIterator[str]:
    raise AssertionError("this is never done")
    yield ""


@rk.tool
def whole(path: str) -> Any:
    raise AssertionError("this is never done")


def served(tool: str, take: Callable[[], Any], *answers: dict[str, Any]) -> Any:
    """What comes of calling a tool in the world of a session with these answers."""
    session = session_of(tool_responses=[{"tool": tool, **answer} for answer in answers])
    case = case_of_session(session, ())
    with rk.replaying(rk.Tape(case.tape), case.scenario.match) as replayer:
        taken = take()
    assert replayer.all_deviations() == []
    return taken


async def gathered(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


@given(JSON)
def test_a_tool_that_yields_is_given_the_items_of_a_list_or_the_one_value(response: Any) -> None:
    items = response if isinstance(response, list) else [] if response is None else [response]
    answer = {"response": response}

    assert served("lines", lambda: list(lines("a")), answer) == items
    assert served("alines", lambda: asyncio.run(gathered(alines("a"))), answer) == items
    assert served("whole", lambda: whole("a"), answer) == response


def test_each_stream_is_given_the_next_answer() -> None:
    answers = [{"response": ["a", "b"]}, {"response": "c"}]

    assert served("lines", lambda: [list(lines("x")), list(lines("x"))], *answers) == [["a", "b"], ["c"]]


def test_a_generator_that_was_served_returns_nothing_of_its_own() -> None:
    def returned() -> Any:
        return (yield from lines("a"))

    def take() -> Any:
        items = returned()
        assert [next(items), next(items)] == [1, 2]
        with pytest.raises(StopIteration) as ended:
            next(items)
        return ended.value.value

    assert served("lines", take, {"response": [1, 2]}) is None


@pytest.mark.parametrize("status", [0, 400, 503])
def test_a_stream_that_failed_raises_where_its_first_item_is_asked_for(status: int) -> None:
    def take() -> None:
        items = lines("a")
        with pytest.raises(rk.ToolError) as caught:
            next(items)
        assert (caught.value.status, caught.value.response) == (status, ["down"])

    async def atake() -> None:
        with pytest.raises(rk.ToolError):
            await anext(alines("a"))

    answer = {"response": ["down"], "status": status}
    served("lines", take, answer)
    served("alines", lambda: asyncio.run(atake()), answer)


def test_a_stream_in_a_session_can_be_exported_and_served_again(store: Any) -> None:
    @rk.tool
    def count() -> Iterator[int]:
        yield 1
        yield 2

    with rk.record("counting", store=store, input="x") as run:
        assert list(count()) == [1, 2]
    answer = session_of_run(store.load(run.id))["tool_responses"][0]

    assert served("count", lambda: list(count()), {key: answer[key] for key in answer if key != "tool"}) == [1, 2]


def test_context_reaches_the_world() -> None:
    case = case_of_session(session_of(context=[1]), (parse_assertion("status_is", "success"),))

    assert decode(world_of(case).context_json) == [1]


def test_tagged_forms_are_values_only_where_the_session_says_so() -> None:
    said = {"input": {"$tuple": [1]}, "context": {"$date": "2026-02-15"}}
    answer = {"tool": "t", "response": {"$bytes": "YWI="}, "arguments": {"b": {"$set": [1]}, "a": 1}}

    plain, tagged = (session_of(**said, tool_responses=[answer], tagged=flag) for flag in (False, True))

    assert (decode(plain.input_json), decode(plain.context_json)) == (said["input"], said["context"])
    assert (plain.calls[0].result, plain.calls[0].arguments) == (answer["response"], answer["arguments"])
    assert (decode(tagged.input_json), decode(tagged.context_json)) == ((1,), dt.date(2026, 2, 15))
    assert (tagged.calls[0].result, tagged.calls[0].arguments) == (b"ab", {"a": 1, "b": {1}})
    assert list(json.loads(bytes(tagged.calls[0].arguments_json))) == ["a", "b"], "in the order of a key"


@pytest.mark.parametrize(
    "value", [{"$bytes": "no base64"}, {"$obj": ["os.system", "x"]}, {"$no_tag": 1}, {"$datetime": 7}, {"$int": "x"}]
)
def test_what_is_no_tagged_form_is_plain_data_and_nothing_is_called(value: Any) -> None:
    (call,) = session_of(tagged=True, tool_responses=[{"tool": "t", "response": value}]).calls

    assert call.result == ("x" if "$obj" in value else value)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"tagged": "yes"}, "tagged: expected true or false"),
        ({"id": 7}, "id: expected a name"),
        ({"id": "\x1b[31m"}, "id: expected a name"),
        ({"id": "  "}, "id: expected a name"),
        ({"tool_responses": {}}, "tool_responses: expected a list"),
        ({"tool_responses": [{"response": 1}]}, "the key 'tool' is missing in tool_responses[0]"),
        ({"tool_responses": [{"tool": "t", "status": 1000}]}, "tool_responses[0].status"),
        ({"tool_responses": [{"tool": "t", "status": "504"}]}, "tool_responses[0].status"),
        ({"tool_responses": [{"tool": "t", "status": True}]}, "tool_responses[0].status"),
        ({"tool_responses": [{"tool": "t", "latency_ms": -1}]}, "tool_responses[0].latency_ms"),
        ({"tool_responses": [{"tool": "t", "arguments": [1]}]}, "tool_responses[0].arguments"),
        ({"contract": 3}, "contract: expected a name"),
        ({"when": 3}, "unknown key 'when'"),
    ],
)
def test_what_is_wrong_is_named(said: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidFile) as caught:
        session_of(**said)

    assert told in str(caught.value)
    assert caught.value.line == 1


def test_keys_beside_file_fill_in_what_the_file_leaves_out() -> None:
    Path("inner.yaml").write_text("id: a\ninput: x\n")
    Path("outer.yaml").write_text("file: inner.yaml\ncontract: c\n")

    session = load_session(Path("outer.yaml"))

    assert (session.id, session.contract, session.file) == ("a", "c", Path("inner.yaml"))


def test_keys_beside_file_may_not_contradict_it() -> None:
    Path("inner.yaml").write_text("id: a\ninput: x\n")
    Path("outer.yaml").write_text("file: inner.yaml\nid: b\n")

    with pytest.raises(InvalidFile, match=r"outer\.yaml:2: id: the file 'inner\.yaml' says something else"):
        load_session(Path("outer.yaml"))


@pytest.mark.parametrize("path", ["../outside.yaml", "/etc/passwd", "a/../../x.yaml"])
def test_a_session_leads_nowhere_outside_of_its_directory(path: str) -> None:
    Path("s.yaml").write_text(f"file: {path}\n")

    with pytest.raises(InvalidFile, match=r"s\.yaml:1: file: "):
        load_session(Path("s.yaml"))


def test_a_long_chain_of_files_ends() -> None:
    for number in range(40):
        Path(f"{number}.yaml").write_text(f"file: {number + 1}.yaml\n")

    with pytest.raises(InvalidFile, match="more than 16 files"):
        load_session(Path("0.yaml"))


@pytest.mark.parametrize(
    ("value", "is_one"),
    [
        ({"id": 1, "input": 2}, True),
        ({"file": "x"}, True),
        ({"tool_responses": []}, True),
        ({"contrat": 1, "input": 2, "id": 3}, True),
        ({"id": 1, "name": 2, "source": 3}, False),
        ({"file": "x", "image": "y"}, False),
        ({"input": 1}, False),
        ([{"id": 1, "input": 2}], False),
        (None, False),
    ],
)
def test_a_session_is_told_by_its_keys(value: Any, is_one: bool) -> None:
    assert looks_like_session(value) is is_one


def test_a_directory_is_searched_for_cases_and_sessions_and_fixtures_are_left_alone() -> None:
    for name, text in {
        "d/b.yaml": "id: b\ninput: x\n",
        "d/a/case.yaml": "replaykit: 1\nid: a\n",
        "d/a/source-trace.json": '{"id": 1, "input": 2}',
        "d/a/fixtures/t.json": '{"id": 1, "input": 2}',
        "d/.hidden/x.yaml": "id: x\ninput: x\n",
        "d/deep/er/c.json": '{"id": "c", "input": 1}',
        "d/deep/broken.yml": "a: [",
        "d/deep/other.yaml": "jobs: {}\n",
        "d/deep/notes.md": "# notes\n",
    }.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)

    found = find_files([Path("d"), Path("d/b.yaml")])

    assert [(type(file), getattr(file, "file", None) or Path(file.document.file)) for file in found.files] == [  # type: ignore[union-attr]
        (SessionFile, Path("d/b.yaml")),
        (CaseFile, Path("d/a/case.yaml")),
        (Unusable, Path("d/deep/broken.yml")),
        (SessionFile, Path("d/deep/er/c.json")),
    ]
    assert found.passed_over == (Path("d/deep/other.yaml"),)


def test_a_directory_without_any_is_nothing_selected() -> None:
    Path("d").mkdir()
    Path("d/x.yaml").write_text("some: thing\n")

    with pytest.raises(NothingSelected, match="d' contains no case and no session"):
        find_files([Path("d")])
