"""The text of a traceback inside of an argument is compared without its frames; the exception is compared."""

from __future__ import annotations

import json
import time
import traceback

import pytest

import replaykit as rk
from replaykit.errors import Divergence
from replaykit.handlers.replay.traceback_texts import FRAMES, without_frames


@rk.tool
def divide(number: int) -> float:
    return number / 0


@rk.tool
def ask(question: str) -> str:
    return "Do not divide by zero."


def explained(number: int, note: str = "") -> str:
    try:
        divide(number)
    except ZeroDivisionError as error:
        error.add_note(note)
        return ask(f"What is wrong here?\n{traceback.format_exc()}")
    return ""


def test_a_call_with_a_traceback_finds_its_answer(store: rk.Store) -> None:
    with rk.record("explained", store=store) as run:
        explained(1)

    with rk.replaying(rk.Tape.of(store.load(run.id))) as replayer:
        assert explained(1) == "Do not divide by zero."

    (deviation,) = replayer.all_deviations()
    assert (deviation.kind, deviation.text) == (
        "traceback",
        "`ask` was called with a traceback, whose frames were not compared",
    )


def test_another_exception_does_not(store: rk.Store) -> None:
    with rk.record("explained", store=store) as run:
        explained(1, "the first note")

    with rk.replaying(rk.Tape.of(store.load(run.id))), pytest.raises(Divergence):
        explained(1, "another note")


@pytest.mark.parametrize("in_json", [1, 2, 3])
def test_the_frames_are_taken_out(in_json: int) -> None:
    text = (
        "Failed:\nTraceback (most recent call last):\n"
        '  File "agent.py", line 7, in run\n    divide("1")\n    ^^^^^^\n'
        "ZeroDivisionError: division by zero\n  in detail\n"
    )
    expected = "Failed:\nTraceback (most recent call last):FRAMES\nZeroDivisionError: division by zero\n  in detail\n"
    for _ in range(in_json):
        text, expected = json.dumps(text), json.dumps(expected)

    assert without_frames(text.encode()) == expected.encode().replace(b"FRAMES", FRAMES)


def test_the_frames_of_a_group_are_taken_out() -> None:
    def text_of(group: BaseException) -> bytes:
        return without_frames(json.dumps("".join(traceback.format_exception(group))).encode())

    group = ExceptionGroup("two", [ValueError("a"), KeyError("b")])
    try:
        raise group
    except ExceptionGroup as raised:
        text = text_of(raised)

    assert b", line " not in text
    assert b"ValueError: a" in text
    assert b"KeyError: 'b'" in text


def test_the_place_of_a_syntax_error_stays() -> None:
    text = json.dumps(
        '  File "a.py", line 7, in run\n    load()\n  File "b.json", line 3\n    {,}\nSyntaxError: no'
    ).encode()

    assert without_frames(text) == b'"%b\\n  File \\"b.json\\", line 3\\n    {,}\\nSyntaxError: no"' % FRAMES


def test_a_text_about_tracebacks_stays() -> None:
    text = json.dumps("Traceback (most recent call last): what is that?\n\n  I wonder").encode()

    assert without_frames(text) == text


FRAME = '  File "agent.py", line 7, in run\n'


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('  File "a.py", line 7, in refund order 5', '  File "a.py", line 7, in refund order 6'),
        (FRAME + "    line\n" * 11 + "    amount: 5", FRAME + "    line\n" * 11 + "    amount: 6"),
        ([f"{FRAME}    run()", 5], [f"{FRAME}    run()", 6]),
        ([json.dumps([f"{FRAME}    run()", 5])], [json.dumps([f"{FRAME}    run()", 6])]),
    ],
)
def test_what_is_no_frame_is_compared(one: object, other: object) -> None:
    assert without_frames(json.dumps(one).encode()) != without_frames(json.dumps(other).encode())


def test_a_text_of_backslashes_takes_no_time() -> None:
    text = b'"  File ' + b"\\" * 1_000_000 + b'"'

    began = time.perf_counter()
    assert without_frames(text) == text
    assert time.perf_counter() - began < 2
