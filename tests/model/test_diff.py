"""Differences, as people read them."""

from __future__ import annotations

from hypothesis import assume, example, given
from hypothesis import strategies as st

from replaykit.model.diff import Difference, differences

PROMPT = "You are a careful clerk. " * 2000


def said(old: str, new: str) -> str:
    (found,) = differences({"prompt": old}, {"prompt": new})
    return str(found)


def test_what_differs_in_the_middle_of_a_long_text_is_shown() -> None:
    changed = PROMPT[:30_000] + "Never refund. " + PROMPT[30_000:]

    assert said(PROMPT, changed) == (
        "changed   $.prompt from character 30001 on: "
        "'…re a careful clerk. You are a careful clerk. You are a ca… → "
        "'…re a careful clerk. Never refund. You are a careful clerk…"
    )


def test_what_was_put_at_the_end_of_a_long_text_is_shown() -> None:
    assert said(PROMPT, PROMPT + "Hurry.") == (
        "changed   $.prompt from character 50001 on: '…re a careful clerk. ' → '…re a careful clerk. Hurry.'"
    )


def test_short_texts_are_shown_whole() -> None:
    assert said("Bern", "Rome") == "changed   $.prompt: 'Bern' → 'Rome'"


def test_characters_that_look_alike_are_told_apart() -> None:
    assert said("caf\u00e9", "cafe\u0301") == r"changed   $.prompt: 'caf\xe9' → 'cafe\u0301'"


TEXT = st.text(st.characters(exclude_characters="→", exclude_categories=["Cs"]), max_size=200)


@given(TEXT, TEXT, TEXT)
@example("\U000e0001" * 100, "a", "b")
@example("a" * 57, "", "b")
@example("a" * 58, "", "b")
@example("a" * 59, "b", "")
def test_the_two_sides_of_a_change_never_read_the_same(shared: str, old: str, new: str) -> None:
    assume(old != new)

    text = str(Difference("changed", "$", old=shared + old, new=shared + new))

    before, after = text.partition(": ")[2].split(" → ")
    assert before != after
