"""What is edited before a fork, and the edits that come of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from replaykit.debugger.edits import EditablePart, EditChoice, choices, document, edits_of, parsed, template, with_error
from replaykit.debugger.navigation import step_list
from replaykit.errors import UsageError
from replaykit.model.events import AnyEvent, ErrorInfo, LlmCall, State, ToolCall
from replaykit.model.matching import ErrorSpec
from replaykit.model.run import TraceRun
from replaykit.model.values import Json, Raw, canonical, raw
from replaykit.travel.edits import Edits

SEARCH = ToolCall(seq=0, name="search", arguments_json=raw({"q": "x"}), result_json=raw({"docs": []}), step="s")
STREAM = ToolCall(seq=1, name="stream", items_json=(raw(1), raw(2)), step="s")
FAILED = ToolCall(seq=2, name="refund", error=ErrorInfo(type="OSError", message="no"), step="s")
STATE = EditChoice(part=EditablePart.STATE, step="s")
ANSWER = EditChoice(part=EditablePart.ANSWER, step="s", call=SEARCH)
ARGUMENTS = EditChoice(part=EditablePart.ARGUMENTS, step="s", call=SEARCH)

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.text("ab/~.$", max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)
STATES = st.dictionaries(st.text("ab/~.$", max_size=3), VALUES, max_size=4) | VALUES


def offered(*events: AnyEvent, state: bool = True) -> list[str]:
    return [choice.text for choice in choices(step_list(TraceRun(id="r", events=events)).stops[0], state=state)]


def test_the_state_and_each_call_can_be_changed() -> None:
    assert offered(SEARCH, FAILED) == [
        "the state after s",
        "what search(q='x') answers",
        "what search(q='x') is called with",
        "what refund(None) answers",
        "what refund(None) is called with",
    ]
    assert offered(SEARCH, state=False)[0] == "what search(q='x') answers"
    assert offered(State(seq=0, state_json=raw(1), step="s"), state=False) == []


def test_of_several_calls_of_one_tool_the_last_is_meant_as_in_a_fork() -> None:
    again = ToolCall(seq=5, name="search", arguments_json=raw({"q": "y"}), step="s")

    assert offered(SEARCH, again, state=False) == ["what search(q='y') answers", "what search(q='y') is called with"]


def test_what_a_fork_cannot_change_is_not_offered() -> None:
    inner = ToolCall(seq=6, name="inner", parent=0, step="s")
    model = LlmCall(seq=7, name="gpt", result_json=raw("hello"), step="s")

    assert offered(SEARCH, inner, model, state=False)[2:] == ["what gpt(None) answers"]


@pytest.mark.parametrize(
    ("choice", "value"),
    [
        (STATE, {"a": 1}),
        (ARGUMENTS, {"q": "x"}),
        (ANSWER, {"result": {"docs": []}}),
        (EditChoice(part=EditablePart.ANSWER, step="s", call=STREAM), {"result": [1, 2]}),
        (EditChoice(part=EditablePart.ANSWER, step="s", call=FAILED), {"error": {"type": "OSError", "message": "no"}}),
    ],
)
def test_what_is_edited_is_what_was_recorded_and_unchanged_it_is_no_edit(choice: EditChoice, value: Json) -> None:
    assert document(choice, {"a": 1}) == value
    assert parsed(template(choice, value)) == value
    assert edits_of(choice, value, parsed(template(choice, value))) is None


@given(STATES)
def test_every_value_survives_the_editor(value: Json) -> None:
    assert canonical(parsed(template(STATE, value))) == canonical(value)
    assert edits_of(STATE, value, parsed(template(STATE, value))) is None


@given(STATES, STATES)
def test_an_edited_state_is_what_the_agent_goes_on_with(old: Json, new: Json) -> None:
    edits = edits_of(STATE, old, new)

    if edits is None:
        assert canonical(old) == canonical(new)
    else:
        assert edits.of_state
        assert canonical(edits.amended(old)) == canonical(new)


def test_only_what_changed_is_changed() -> None:
    old = {"a": 1, "b": {"c": [1], "d": True, "e/~": 0}, "gone": 0}
    new = {"a": 1, "b": {"c": [1, 2], "d": 1, "e/~": 0.0}, "x.y": None}

    assert edits_of(STATE, old, new) == Edits(
        patch=(
            {"op": "replace", "path": "/b/c", "value": [1, 2]},
            {"op": "replace", "path": "/b/d", "value": 1},
            {"op": "replace", "path": "/b/e~1~0", "value": 0.0},
            {"op": "remove", "path": "/gone"},
            {"op": "add", "path": "/x.y", "value": None},
        )
    )


@pytest.mark.parametrize(("old", "new"), [(1, True), (1, 1.0), (0, False), ([1], [True])])
def test_what_python_calls_equal_is_still_a_change(old: Json, new: Json) -> None:
    assert edits_of(STATE, {"a": old}, {"a": new}) == Edits(patch=({"op": "replace", "path": "/a", "value": new},))


@pytest.mark.parametrize(
    ("choice", "new", "edits"),
    [
        (ANSWER, {"result": None}, Edits(result=None, tool="search")),
        (ANSWER, {"error": {"type": "TimeoutError"}}, Edits(error=ErrorSpec(type="TimeoutError"), tool="search")),
        (ARGUMENTS, {"q": "y", "n": 1}, Edits(arguments={"q": "y", "n": 1}, tool="search")),
        (EditChoice(part=EditablePart.ANSWER, step="s", call=STREAM), {"result": []}, Edits(result=[], tool="stream")),
        (EditChoice(part=EditablePart.ANSWER, step="s", call=FAILED), {"result": 1}, Edits(result=1, tool="refund")),
    ],
)
def test_a_changed_call_becomes_edits(choice: EditChoice, new: Json, edits: Edits) -> None:
    assert edits_of(choice, document(choice), new) == edits


def test_an_answer_that_fails_instead_has_no_result() -> None:
    edits = edits_of(ANSWER, document(ANSWER), {"error": {"type": "OSError", "message": "x"}})

    assert edits is not None
    assert edits.result is UNSET


@pytest.mark.parametrize(
    ("choice", "new", "words"),
    [
        (ANSWER, {"reslt": 1}, "an answer is"),
        (ANSWER, {"result": 1, "error": {"type": "E"}}, "an answer is"),
        (ANSWER, [1], "an answer is"),
        (ANSWER, {"error": "OSError"}, "an error is"),
        (ANSWER, {"error": {"message": "no type"}}, "an error is"),
        (ANSWER, {"error": {"type": 1}}, "an error is"),
        (ANSWER, {"error": {"type": "E", "code": 1}}, "an error is"),
        (ARGUMENTS, ["x"], "arguments are an object"),
        (EditChoice(part=EditablePart.ANSWER, step="s", call=STREAM), {"result": 1}, "list of items"),
    ],
)
def test_what_cannot_be_changed_so_is_said(choice: EditChoice, new: Json, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        edits_of(choice, document(choice), new)


@pytest.mark.parametrize("text", ["", "// only a word", "{", '{"a": }', "[1]]", "nan", "[" * 5000])
def test_a_text_that_is_no_json_is_an_error_that_says_so(text: str) -> None:
    with pytest.raises(UsageError, match="not JSON"):
        parsed(text)


def test_the_error_stands_on_the_first_line_and_names_a_line_of_the_text() -> None:
    broken = '// a word\n{\n  "a": 1\n  "b": 2\n}\n'

    first = with_error(broken, UsageError("this is not JSON: line 4"))
    second = with_error(first.replace('"a": 1', '"a": 1,').replace('"b": 2', '"b": '), UsageError("again"))

    assert first.split("\n")[0].startswith("// Not yet: this is not JSON: ")
    assert "line 5" in first.split("\n")[0]
    assert first.split("\n")[4] == '  "b": 2'
    assert first.partition("\n")[2] == broken
    assert second.count("Not yet") == 1
    assert "line 6" in second.split("\n")[0]


def test_a_hostile_value_or_name_cannot_leave_the_comment_or_steer_the_editor() -> None:
    call = ToolCall(seq=0, name="x\n{", arguments_json=Raw(b'{"a":"\xc2\x9b\xe2\x80\xae"}'), step="s\n1")

    text = template(EditChoice(part=EditablePart.ARGUMENTS, step="s\n1", call=call), call.arguments)

    words, _, rest = text.partition("\n{\n")
    assert all(line.startswith("// ") for line in words.split("\n"))
    assert json.loads("{" + rest) == {"a": "\x9b\u202e"}
    assert "\\u009b\\u202e" in rest
