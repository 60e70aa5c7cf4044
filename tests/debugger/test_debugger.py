"""A run as steps to stand at, and what each key does there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.debugger.lines import ScreenLine, rows_of
from replaykit.debugger.navigation import (
    AT_A_STEP,
    ON_A_PAGE,
    Action,
    DebuggerView,
    Page,
    StepList,
    find,
    find_row,
    place_of,
    press,
    step_list,
)
from replaykit.debugger.screen import body_height, keys, page_screen, prompt_screen, step_lines, step_screen
from replaykit.errors import UsageError
from replaykit.model.events import (
    AnyEvent,
    Change,
    Decision,
    ErrorEvent,
    ErrorInfo,
    LlmCall,
    Message,
    Note,
    State,
    ToolCall,
)
from replaykit.model.run import Origin, RunStatus, TraceRun
from replaykit.model.values import Json, Raw, canonical, raw
from replaykit.report.layout import width_of


def call(seq: int, name: str = "search", result: Json = "ok", step: str | None = None, **arguments: Json) -> ToolCall:
    text = Raw(canonical(arguments))
    return ToolCall(seq=seq, name=name, arguments_json=text, result_json=raw(result), step=step, at=100.0 + seq)


def run(*events: AnyEvent, **header: Any) -> TraceRun:
    given = {"id": "r1", "name": "shop", "status": RunStatus.SUCCESS, "input_json": raw("why?"), **header}
    return TraceRun(**{"output_json": raw("so"), "started_at": 99.0, **given}, events=events)


def stepped(count: int) -> StepList:
    return step_list(run(*(call(n, n=n) for n in range(count))))


def shown(here: StepList, at: int = 0, size: tuple[int, int] = (80, 24), **view: Any) -> list[str]:
    lines = list(step_lines(here, at))
    return [row.text for row in step_screen(here, DebuggerView(at=at, **view), lines, *size)]


def test_a_run_that_marks_no_steps_has_one_for_each_call() -> None:
    assert [stop.name for stop in stepped(3).stops] == ["step_1", "step_2", "step_3"]


def test_what_happened_outside_of_any_step_is_shown_with_the_step_before() -> None:
    events = [
        Message(seq=0, role="user", content_json=raw("hello")),
        call(1, step="plan"),
        Note(seq=2, name="between"),
        call(3, step="act"),
        call(4, "after"),
    ]

    here = step_list(run(*events))

    assert [[event.seq for event in stop.events] for stop in here.stops] == [[0, 1, 2], [3, 4]]
    assert [[event.seq for event in stop.own] for stop in here.stops] == [[1], [3]]


def test_no_state_is_put_together_to_stand_at_a_step() -> None:
    broken = State(seq=1, change=Change(cut={"gone": (0, 0, "x")}), step="plan")

    here = step_list(run(call(0, step="plan"), broken))

    assert here.stops[0].keeps_state
    assert "  state      stored: changed gone" in shown(here)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (State(seq=1, state_json=raw(1), step="a"), "state stored"),
        (State(seq=1, step="a"), "state not stored"),
        (Note(seq=1, step="a"), "no state of its own"),
    ],
)
def test_one_sees_whether_a_state_was_kept(state: AnyEvent, words: str) -> None:
    assert shown(step_list(run(call(0, step="a"), state)))[1].endswith(f"  {words}")


@pytest.mark.parametrize(("word", "at"), [("step_2", 1), ("3", 2), ("step_1", 0)])
def test_a_step_is_found_by_name_or_number(word: str, at: int) -> None:
    assert place_of(stepped(3), word) == at


def test_a_name_that_looks_like_a_number_is_a_name() -> None:
    assert place_of(step_list(run(call(0, step="2"), call(1, step="1"))), "2") == 0


@pytest.mark.parametrize(
    ("word", "advice"),
    [("stpe_3", "did you mean 'step_3'?"), ("zzz", "step_1, step_2"), ("4", "step_1"), ("", "steps")],
)
def test_a_step_that_is_not_there_is_an_error_with_the_nearest(word: str, advice: str) -> None:
    with pytest.raises(UsageError) as caught:
        place_of(stepped(3), word)

    assert "r1 has no step" in caught.value.message
    assert advice in str(caught.value)


@pytest.mark.parametrize(
    ("at", "key", "expected"),
    [
        *((0, key, 1) for key in ("n", " ", "right", "down")),
        *((2, key, 1) for key in ("b", "p", "left", "up")),
        *((1, key, 0) for key in ("home", "0")),
        *((1, key, 2) for key in ("end", "$")),
        *((2, "n", 2), (0, "b", 0)),
    ],
)
def test_keys_lead_from_step_to_step(at: int, key: str, expected: int) -> None:
    view, wanted = press(stepped(3), DebuggerView(at=at), key)

    assert (view.at, wanted) == (expected, None)
    assert (view.message is not None) == (at == expected)


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        *(("g", Action.GO), ("/", Action.FIND), ("N", Action.AGAIN), ("e", Action.FORK), ("r", Action.RELOAD)),
        *(("u", Action.RETURN), ("backspace", Action.RETURN), ("q", Action.QUIT), ("ctrl-d", Action.QUIT)),
    ],
)
def test_what_needs_more_than_a_look_is_handed_back(key: str, wanted: Action) -> None:
    assert press(stepped(2), DebuggerView(), key) == (DebuggerView(), wanted)


def test_a_page_is_closed_by_its_own_key_and_by_q() -> None:
    here = stepped(2)
    for key in ("s", "q", "esc"):
        assert press(here, DebuggerView(page=Page.STATE, top=3), key, rows=50, height=10)[0] == DebuggerView()


def test_a_page_about_a_step_comes_along_and_a_list_does_not() -> None:
    here = stepped(2)

    assert press(here, DebuggerView(page=Page.DIFF, top=5), "n")[0] == DebuggerView(at=1, page=Page.DIFF)
    assert press(here, DebuggerView(page=Page.LIST, top=5), "n")[0] == DebuggerView(at=1)


@pytest.mark.parametrize(
    ("top", "key", "expected"),
    [
        *((0, " ", 10), (10, " ", 15), (0, "pgdn", 10), (15, "b", 5), (5, "b", 0), (12, "pgup", 2)),
        *((0, "down", 1), (15, "j", 15), (3, "up", 2), (0, "k", 0), (9, "home", 0), (2, "end", 15)),
    ],
)
def test_on_a_page_keys_lead_through_it(top: int, key: str, expected: int) -> None:
    view, wanted = press(stepped(2), DebuggerView(page=Page.CALLS, top=top), key, rows=25, height=10)

    assert (view.top, view.page, wanted) == (expected, Page.CALLS, None)


def test_a_key_without_a_meaning_says_where_the_keys_are() -> None:
    view, wanted = press(stepped(2), DebuggerView(at=1), "x")

    assert view.message is not None
    assert "? shows the keys" in view.message.text
    assert (view.at, wanted) == (1, None)


def test_only_a_fork_can_be_compared_with_its_parent() -> None:
    fork = step_list(run(call(0), origin=Origin(kind="forked", run="r0", step="step_1")))

    assert press(fork, DebuggerView(), "c")[0].page is Page.COMPARE
    assert press(stepped(1), DebuggerView(), "c")[0].page is None


@given(st.integers(0, 4), st.lists(st.sampled_from([*AT_A_STEP, *ON_A_PAGE, "x", ""]), max_size=30), st.data())
def test_no_keys_lead_out_of_the_run_or_its_pages(count: int, pressed: list[str], data: st.DataObject) -> None:
    here, view = stepped(count), DebuggerView()
    for key in pressed:
        rows, height = data.draw(st.integers(0, 50)), data.draw(st.integers(1, 20))
        view, _ = press(here, view, key, rows=rows, height=height)
        assert 0 <= view.at < len(here.stops)
        assert 0 <= view.top <= max(rows, 50)


def test_a_step_says_what_happened_in_it() -> None:
    failed = ToolCall(seq=3, name="refund", error=ErrorInfo(type="TimeoutError", message="too slow"), parent=1)
    events = [
        Message(seq=0, role="user", content_json=raw("two\nlines"), at=100.0),
        LlmCall(seq=1, name="gpt", arguments_json=raw({"n": 1}), result_json=raw("call refund"), at=100.5),
        Decision(seq=2, content_json=raw({"next": "refund"})),
        failed,
        ToolCall(seq=4, name="stream", items_json=(raw(1), raw(2)), complete=False),
        ToolCall(seq=5, name="mute"),
        ErrorEvent(seq=6, error=ErrorInfo(type="OSError")),
        State(seq=7, state_json=raw({"a": 1})),
        State(seq=8, change=Change(drop=("a",))),
        State(seq=9, change=Change()),
        Note(seq=10, name="trace", content_json=raw(5)),
    ]
    here = step_list(
        run(*(type(e)(**{n: getattr(e, n) for n in e.__struct_fields__} | {"step": "act"}) for e in events))
    )

    rows = shown(here)

    assert rows[0] == "shop  r1  success"
    assert rows[1] == "step 1 of 1  act  00:01:40 UTC  +1.000 s  took 0.500 s  state stored"
    assert rows[2] == "─" * 80
    assert rows[3:21] == [
        "  asked      'why?'",
        r"  user       two\nlines",
        "  model      gpt(n=1)",
        "             → 'call refund'",
        "  decided    {'next': 'refund'}",
        "    tool     refund(None)",
        "               → TimeoutError: too slow",
        "  tool       stream(None)",
        "             → 2 items, left early: [1, 2]",
        "  tool       mute(None)",
        "             → no answer",
        "  error      OSError",
        "  state      stored as a whole",
        "  state      stored: dropped a",
        "  state      stored, unchanged",
        "  trace      5",
        "  success    'so'",
        "",
    ]


def test_errors_are_red() -> None:
    here = step_list(
        run(
            ToolCall(seq=0, name="refund", error=ErrorInfo(type="TimeoutError")),
            status=RunStatus.ERROR,
            error=ErrorInfo(type="RuntimeError", message="no luck"),
        )
    )

    rows = step_screen(here, DebuggerView(), list(step_lines(here, 0)), 80, 24)

    red = [row.text for row in rows if row.look == "red"]
    assert red == ["shop  r1  error", "             → TimeoutError", "  error      RuntimeError: no luck"]


def test_a_run_without_steps_still_says_what_was_asked_and_how_it_ended() -> None:
    rows = shown(step_list(run(status=RunStatus.RUNNING)))

    assert rows[1] == "no steps: the run made no calls"
    assert rows[3] == "  asked      'why?'"
    assert "has not ended" in rows[4]


def test_a_long_value_takes_the_room_that_is_there() -> None:
    here = step_list(run(call(0, result="x" * 3000)))

    small, large = shown(here, size=(80, 24)), shown(here, size=(200, 60))

    assert sum("xxx" in row for row in small) == 8
    assert small[12].endswith("x…")
    assert sum("xxx" in row for row in large) == 7
    assert "… 2 more rows: t shows everything" in shown(step_list(run(*(call(n, step="a") for n in range(9)))))


def test_a_fork_offers_the_comparison_and_the_way_back() -> None:
    fork = step_list(run(call(0), origin=Origin(kind="forked", run="r0", step="step_1")))
    lines = list(step_lines(fork, 0))

    rows = [row.text for row in step_screen(fork, DebuggerView(), lines, 120, 24, deep=True)]

    assert rows[0] == "↳ shop  r1  success  forked at step_1"
    assert "c compare  e fork  k keep  u return" in rows[-1]
    assert "compare" not in shown(stepped(1), size=(120, 24))[-1]


def test_a_narrow_terminal_keeps_help_and_the_end() -> None:
    words = ["n/b step", "g go", "s state", "? help", "q quit"]

    assert keys(words, 80) == "n/b step  g go  s state  ? help  q quit"
    assert keys(words, 30) == "n/b step  ? help  q quit"
    assert keys(words, 10) == "? help  q quit"


@given(st.integers(1, 120), st.integers(1, 40), st.sampled_from([1, 4, 30]), st.booleans(), st.text(max_size=300))
def test_a_screen_is_as_large_as_the_terminal(width: int, height: int, calls: int, paged: bool, said: str) -> None:
    here = step_list(run(*(call(n, result="日本 \x1b[2J" * 40, step="a") for n in range(calls))))
    view, lines = DebuggerView(message=ScreenLine(said)), list(step_lines(here, 0))
    if paged:
        rows = page_screen("title", rows_of(lines, width), view, width, height)
    else:
        rows = step_screen(here, view, lines, width, height)

    assert len(rows) == height or (height < 4 and len(rows) <= height)
    assert all(width_of(row.text) <= max(width, 2) for row in rows)
    assert height < 3 or any(row.text and not row.text.startswith("─") for row in rows[:-1])
    assert len(prompt_screen(rows, "To which step?", "x" * 500, width, height)) <= height


def test_a_page_says_which_part_of_it_is_shown() -> None:
    rows = [ScreenLine(str(number)) for number in range(100)]

    screen = page_screen("title", rows, DebuggerView(page=Page.CALLS, top=40), 80, 24)

    assert [row.text for row in screen[:3]] == ["title", "─" * 80, "40"]
    assert body_height(24) == 20
    assert screen[-1].text == "41–60 of 100  space/b page  n/p step  / find  ? help  q back"


def test_a_question_shows_the_end_of_a_long_answer() -> None:
    rows = prompt_screen([ScreenLine("a"), ScreenLine("b"), ScreenLine("keys")], "Where?", "0123456789", 14, 3)

    assert [row.text for row in rows] == ["a", "b", "Where? 456789"]


def test_a_text_is_found_in_calls_results_messages_and_errors() -> None:
    events = [
        call(0, "search", result={"text": 'Grüße\nan "alle"'}, step="one", query="x"),
        Message(seq=1, role="user", content_json=raw("Hello"), step="two"),
        ToolCall(seq=2, name="refund", error=ErrorInfo(type="OSError", message="no LUCK"), step="three"),
        ToolCall(seq=3, name="stream", items_json=(raw("drop"),), step="four"),
        Decision(seq=4, content_json=raw("go on"), step="five"),
    ]
    here = step_list(run(*events))

    for needle, place, where in [
        ("GRÜSSE", 0, "the result of search"),
        ('an "alle"', 0, "the result of search"),
        ("query='x'", 0, "the call of search"),
        ('"query":"x"', 0, "the arguments of search"),
        ("hello", 1, "a message of user"),
        ("luck", 2, "the error of refund"),
        ("drop", 3, "an item of stream"),
        ("go on", 4, "a decision"),
    ]:
        assert find(here, 4, needle) == (place, where)
    assert find(here, 0, "nowhere") is None


def test_the_search_goes_forward_and_around() -> None:
    here = step_list(run(call(0, "a"), call(1, "b"), call(2, "a")))

    assert [find(here, at, "a(") for at in (0, 1, 2)] == [
        (2, "the call of a"),
        (2, "the call of a"),
        (0, "the call of a"),
    ]
    assert find(here, 1, "b(") == (1, "the call of b")


def test_on_a_page_the_search_goes_down_and_around() -> None:
    rows = [ScreenLine(text) for text in ("one", "two \\x1b", "ONE")]

    assert [find_row(rows, start, "one") for start in (0, 1, 2, 3)] == [0, 2, 2, 0]
    assert find_row(rows, 0, "\x1b") == 1
    assert find_row(rows, 0, "three") is None
    assert find_row([], 0, "x") is None
