"""What the stepper shows in full."""

from __future__ import annotations

from typing import Any

import pytest

from replaykit.debugger.forker import compare_page, fork_page, plain_lines, question_page
from replaykit.debugger.lines import ScreenLine, rows_of
from replaykit.debugger.navigation import StepList, step_list
from replaykit.debugger.pages import calls_page, diff_page, help_page, list_page, state_page
from replaykit.debugger.screen import step_lines
from replaykit.model.changes import StateFold
from replaykit.model.events import (
    AnyEvent,
    Decision,
    ErrorEvent,
    ErrorInfo,
    LlmCall,
    Message,
    State,
    ToolCall,
    Usage,
)
from replaykit.model.result import Deviation
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json, raw
from replaykit.travel.compare import compare
from replaykit.travel.fork import ForkResult


def kept(*states: Json) -> StepList:
    """A run whose steps each kept a state; None for a step that kept none."""
    fold, events = StateFold(), list[AnyEvent]()
    for number, state in enumerate(states):
        step = f"s{number}"
        events.append(ToolCall(seq=2 * number, name="tick", result_json=raw(number), step=step))
        if state is not None:
            whole, change = fold.advance(state)
            events.append(State(seq=2 * number + 1, state_json=whole, change=change, step=step))
    return step_list(made(*events))


def made(*events: AnyEvent, **header: Any) -> TraceRun:
    given = {"id": "r1", "status": RunStatus.SUCCESS, "output_json": raw("so"), "started_at": 1.0, **header}
    return TraceRun(**given, events=events)


def texts(lines: Any) -> list[str]:
    return [line.text for line in lines]


def test_the_state_is_shown_as_json() -> None:
    here = kept({"a": [1, (2,)]})

    assert texts(state_page(here, 0, {"a": [1, (2,)]})) == [
        "{", '  "a": [', "    1,", "    {", '      "$tuple": [', "        2", "      ]", "    }", "  ]", "}",
    ]  # fmt: skip


def test_a_step_that_kept_no_state_says_whose_state_it_is() -> None:
    here = kept({"a": 1}, None, None)

    assert texts(state_page(here, 2, {"a": 1}))[:2] == ["s2 has no state of its own: it is as s0 left it", "{"]
    assert texts(diff_page(here, 2, {"a": 1}, {"a": 1})) == ["s2 has no state of its own: it is as s0 left it"]
    assert texts(state_page(kept(None), 0, None)) == ["s0 has no state, and there was none before"]


def test_a_state_that_was_not_kept_is_told_from_one_that_was_not_there() -> None:
    first, last = kept({"a": 1}).run.events, State(seq=9, step="s1")
    here = step_list(made(*first, ToolCall(seq=8, name="tick", step="s1"), last))

    assert texts(list_page(here, 0)) == ["> 1  s0  state       tick", "  2  s1  not stored  tick"]
    note = "the state after s1 was not stored: the agent ran again to get there"
    assert texts(state_page(here, 1, {"a": 2})) == [note, "{", '  "a": 2', "}"]
    assert texts(diff_page(here, 1, {"a": 1}, {"a": 2})) == [note, "changed   $.a: 1 → 2"]


def test_a_change_of_state_is_shown_by_path() -> None:
    here = kept({"a": 1, "b": 2}, {"a": 2, "c": [1]})

    assert list(diff_page(here, 1, {"a": 1, "b": 2}, {"a": 2, "c": [1]})) == [
        ScreenLine("changed   $.a: 1 → 2", "yellow", 10),
        ScreenLine("removed   $.b: 2", "red", 10),
        ScreenLine("added     $.c: [1]", "green", 10),
    ]
    assert texts(diff_page(here, 0, None, {"a": 1, "b": 2})) == ["added     $.a: 1", "added     $.b: 2"]
    assert texts(diff_page(here, 1, {"a": 1}, {"a": 1})) == ["the state is as it was before the step"]


def test_a_long_change_is_shown_in_full() -> None:
    here, old, new = kept({}, {}), "x" * 100, "x" * 99 + "y"

    assert list(diff_page(here, 1, {"a": old}, {"a": new})) == [
        ScreenLine("changed   $.a", "yellow", 10),
        ScreenLine(f'  - "{old}"', "red", 4),
        ScreenLine(f'  + "{new}"', "green", 4),
    ]


def test_very_many_differences_are_cut() -> None:
    here = kept({}, {})

    lines = texts(diff_page(here, 1, {}, {str(n): n for n in range(2000)}))

    assert len(lines) == 1001
    assert lines[-1] == "… more than 1,000 differences"


def test_a_step_in_full_has_everything_its_events_hold() -> None:
    events = [
        Message(seq=0, role="user", content_json=raw("hello")),
        Decision(seq=1, content_json=raw({"next": "gpt"})),
        LlmCall(
            seq=2, name="gpt", at=1.25, duration_s=0.5, arguments_json=raw({"n": 1}), result_json=raw(["a"]),
            usage=Usage(input_tokens=3, output_tokens=4),
        ),
        ToolCall(seq=3, name="stream", items_json=(raw(1), raw("b")), complete=False, parent=2, path="/gpt#0"),
        ToolCall(seq=4, name="refund", error=ErrorInfo(type="OSError", message="no", traceback="line 1\nline 2\n")),
        ToolCall(seq=5, name="mute"),
        ErrorEvent(seq=6, error=ErrorInfo(type="ValueError", message="odd")),
    ]  # fmt: skip
    here = step_list(
        made(*(type(e)(**{n: getattr(e, n) for n in e.__struct_fields__} | {"step": "s"}) for e in events))
    )

    lines = texts(calls_page(here.run, here.stops[0]))

    assert lines[:4] == ["user", "  event 0    /", '    "hello"', ""]
    for expected in (
        ["llm_call gpt", "  event 2  +0.250 s  /  took 0.500 s", "  arguments", "    {", '      "n": 1', "    }"],
        ["  result", "    [", '      "a"', "    ]", "  tokens: 3 in, 4 out"],
        ["  event 3    /gpt#0  inside event 2"],
        ["  items", "    [", "      1,", '      "b"', "    ]", "  the stream was left before its end"],
        ["  error", "    line 1", "    line 2"],
        ["  no answer"],
        ["error", "  event 6    /", "    ValueError: odd"],
    ):
        assert any(lines[start : start + len(expected)] == expected for start in range(len(lines))), expected


def test_the_list_marks_where_one_stands_and_what_failed() -> None:
    failed = ToolCall(seq=3, name="refund", error=ErrorInfo(type="OSError", message="no"), step="日本")
    here = step_list(made(*kept({"a": 1}).run.events, failed))

    assert list(list_page(here, 0)) == [
        ScreenLine("> 1  s0    state  tick", "bold", 5),
        ScreenLine("  2  日本         refund  OSError: no", "red", 5),
    ]
    assert texts(list_page(step_list(made()), 0)) == ["no steps: the run made no calls"]


def test_the_help_fits_on_a_small_screen() -> None:
    assert len(rows_of(help_page(), 80)) <= 20


def test_a_comparison_brings_no_colours_of_its_own() -> None:
    a, b = kept({"a": 1}).run, kept({"a": 2}).run
    hostile = made(*b.events, ToolCall(seq=9, name="\x1b[31mred"), status=RunStatus.ERROR)

    lines = list(compare_page(compare(a, hostile)))

    assert not any("\x1b[" in line.text for line in lines)
    assert any(line.look == "green" for line in lines)
    assert list(plain_lines("\x1b[31m- gone\x1b[0m")) == [ScreenLine("- gone", "red")]


def test_a_fork_is_told_with_its_end_and_where_it_parts() -> None:
    a, b = kept({"a": 1}).run, kept({"a": 2}).run
    journey = ForkResult(run_id="f1", status=RunStatus.SUCCESS, output="done", way="state")

    lines = texts(fork_page(journey, compare(a, b)))

    assert lines[:3] == ["f1  success  by state", "  output   'done'", ""]
    assert lines[3].startswith("differs at s0")


@pytest.mark.parametrize("done", [(), ("send(text='x')",)])
def test_a_question_names_what_was_done_before(done: tuple[str, ...]) -> None:
    before = [Deviation(kind="live", text=f"done for real: {text}") for text in done]

    lines = texts(question_page(Deviation(kind="undecided", text="the fork wants to refund()"), before))

    assert lines[0] == "the fork wants to refund()"
    assert [line.strip() for line in lines[4:]] == list(done)
    assert ("not repeated" in " ".join(lines)) == bool(done)


def model_call(**fields: Any) -> LlmCall:
    messages = [{"role": "user", "content": "Where is my order?\nIt is late."}]
    arguments = raw({"model": "claude", "messages": messages})
    return LlmCall(seq=0, name="claude", step="s", arguments_json=arguments, **fields)


ANTHROPIC_ANSWER = {
    "role": "assistant",
    "content": [{"type": "text", "text": "Let me look."}, {"type": "tool_use", "name": "find", "input": {"order": 7}}],
}


def test_a_model_call_in_full_begins_with_its_conversation_and_has_its_json_below() -> None:
    here = step_list(made(model_call(result_json=raw(ANTHROPIC_ANSWER))))

    lines = texts(calls_page(here.run, here.stops[0]))

    assert lines[2:7] == [
        "  model      claude",
        "  user       Where is my order?",
        "             It is late.",
        "  answer     → find(order=7)",
        "  answer     Let me look.",
    ]
    assert "  arguments" in lines
    assert '      "role": "assistant",' in lines


def test_a_step_shows_a_model_call_as_the_model_its_messages_and_its_answer() -> None:
    usage = Usage(input_tokens=400, output_tokens=12)
    here = step_list(made(model_call(result_json=raw(ANTHROPIC_ANSWER), usage=usage)))

    rows = [row.text for row in step_lines(here, 0)]

    assert "  model      claude  1 message" in rows
    assert "             → find(order=7)  412 tok" in rows
