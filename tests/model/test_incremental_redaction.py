"""Rows: what of a long text is new is looked at, and what comes of it is what a look at the whole gives."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replaykit.model.incremental_redaction import IncrementalRedaction
from replaykit.model.values import decode, encode

FILLER = "so it goes on " * 100
WORDS = st.sampled_from(["hidden", "plain", "hid", "is hidden here", "é", '"', "", 7, True, 1.5, None])
LONG = WORDS.map(lambda word: f"{word} {FILLER}")
VALUES = st.recursive(
    WORDS | LONG,
    lambda v: st.lists(v, max_size=5) | st.dictionaries(st.sampled_from(["a", "hidden", "é", "log"]), v, max_size=4),
    max_leaves=12,
)
MANY = st.dictionaries(st.integers(0, 40).map(str), WORDS | LONG, min_size=20)
STATES = st.lists(VALUES | MANY | st.lists(VALUES, min_size=3), min_size=1, max_size=4)


def starred(text: bytes, name: str) -> bytes:
    shown = text.replace(b"hidden", b"***")
    return text if shown == text else shown


@given(STATES, st.lists(st.tuples(st.integers(0, 9), VALUES), max_size=6))
@example([["hidden" + FILLER] * 5], [(0, "hidden"), (5, {"a": FILLER})])
@example([{"a": [FILLER] * 4}, {"a": [FILLER] * 4, "hidden": [FILLER] * 4}, {"hidden": [FILLER] * 4, "a": 1}], [])
def test_what_comes_of_the_rows_is_what_comes_of_the_whole(states: list[Any], more: list[tuple[int, Any]]) -> None:
    rows, log = IncrementalRedaction(), list(states)
    for at, value in [(0, FILLER), (0, FILLER), (0, FILLER), *more, (0, "hidden"), (9, "the end")]:
        log.insert(at, value)
        for text in (encode(log), encode({"step": at, "inner": {"log": log, "at": at}}), encode(log)):
            shown = rows.cleaned(text, "log", starred)

            assert shown == starred(text, "log")
            assert (shown is text) == (b"hidden" not in text)


class Teller:
    """Stars for the word after `secret is`, wherever it stands in the text that is looked at."""

    def __init__(self) -> None:
        self.looked_at = 0

    def __call__(self, text: bytes, name: str) -> bytes:
        self.looked_at += len(text)
        shown = text
        for word in set(re.findall(rb"secret is (\w+)", text)):
            shown = shown.replace(word, b"***")
        return text if shown == text else shown


SAID = st.sampled_from(["secret is rose", "a rose", "secret is ivy", "ivy and rose", "nothing", FILLER])


@given(st.lists(st.tuples(st.integers(0, 9), SAID), max_size=12))
def test_a_value_that_is_secret_in_one_row_is_secret_in_all(said: list[tuple[int, str]]) -> None:
    rows, log, clean = IncrementalRedaction(), [FILLER] * 4, Teller()
    for at, text in said:
        log.insert(at, text)
        shown = rows.cleaned(encode({"inner": {"log": log}}), "agent", clean)

        assert decode(shown) == decode(clean(encode({"inner": {"log": log}}), "agent"))


def test_a_name_that_may_not_be_written_is_not_written_later() -> None:
    rows = IncrementalRedaction()
    for step in range(4):
        text = encode({"log": [FILLER] * 4, "hidden" if step else "open": {"n": [FILLER] * 4, "step": step}})

        assert rows.cleaned(text, "", starred) == starred(text, "")


@pytest.mark.parametrize(
    "text",
    [
        b'{"a": ["%b", 1], "b":"hidden"}',
        b'{"a":["%b"],"b":"hidden","b":"plain"}',
        b'{"\\u0061":["%b"],"b":"hidden"}',
        b'["%b" ,"hidden"]',
    ],
    ids=["blanks", "the same name twice", "escapes", "blanks in a list"],
)
def test_a_text_that_somebody_else_wrote_is_looked_at_as_a_whole(text: bytes) -> None:
    rows, long = IncrementalRedaction(), FILLER.encode() * 4
    for end in (b"", b"hidden", b"more"):
        written = text.replace(b"%b", long + end)

        assert rows.cleaned(written, "", starred) == starred(written, "")


STEPS = 60


def appended(log: list[Any], step: int) -> Any:
    log.append({"n": step, "said": FILLER})
    return {"step": step, "agent": {"name": "a", "log": log}}


def by_name(log: list[Any], step: int) -> Any:
    log.append(FILLER)
    return {f"note {n}": f"{n} {text}" for n, text in enumerate(log)}


def edited(log: list[Any], step: int) -> Any:
    log[:] = log or [{"n": 0, "said": f"{n} {FILLER}"} for n in range(STEPS)]
    log[step] = {"n": step, "said": FILLER}
    return log


def trimmed(log: list[Any], step: int) -> Any:
    log[:] = [*log[-20:], {"n": step, "said": f"{step} {FILLER}"}]
    return log


def with_a_secret(log: list[Any], step: int) -> Any:
    log.append(f"secret is rose {FILLER}" if not step else FILLER)
    return {"log": log}


@pytest.mark.parametrize("change", [appended, by_name, edited, trimmed, with_a_secret])
def test_what_has_not_changed_is_not_looked_at_again(change: Any) -> None:
    rows, clean, log, written = IncrementalRedaction(), Teller(), [], 0
    for step in range(STEPS):
        text = encode(change(log, step))
        rows.cleaned(text, "state", clean)
        written += len(text)

    assert clean.looked_at < written / 6
