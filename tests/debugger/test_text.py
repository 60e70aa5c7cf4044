"""Lines and rows: any text fits any width, and nothing in it is obeyed by a terminal."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.matrix import sampled

from replaykit.debugger.lines import ScreenLine, pretty, row_of, rows_of
from replaykit.model.values import encode
from replaykit.report.layout import short, width_of
from replaykit.terminal import visible

TEXTS = st.text(st.characters(), max_size=200) | st.text("ab \x1b日本é\u0301\u202e\t", max_size=60)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x9b2J\x07\x7f", r"\u009b2J\x07\u007f"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("\u202eevil\u2066\u200b", r"\u202eevil\u2066\u200b"),
        ("\ud800", r"\ud800"),
        ("日本語 café\u00a0x\u3000y 🙂", "日本語 café\u00a0x\u3000y 🙂"),
    ],
)
def test_what_a_terminal_would_obey_or_hide_is_spelled_out(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_short_text_is_safe_for_every_verb() -> None:
    assert short("\x1b]0;owned\x07 here", 40) == r"\x1b]0;owned\x07 here"


@given(TEXTS)
def test_nothing_that_is_shown_is_a_control_character(text: str) -> None:
    shown = visible(text)

    assert all(char.isprintable() or unicodedata.category(char) == "Zs" for char in shown)
    assert visible(shown) == shown


@given(TEXTS, st.integers(2, 40))
def test_a_row_fits_its_width(text: str, width: int) -> None:
    row = row_of(ScreenLine(text, "red"), width)

    assert width_of(row.text) <= width
    assert row.look == "red"
    assert row.text == visible(text) or row.text.endswith("…")


@given(st.lists(TEXTS, max_size=5), st.integers(4, 40))
def test_wrapping_loses_nothing(texts: list[str], width: int) -> None:
    rows = rows_of([ScreenLine(text, "", 0) for text in texts], width)

    assert all(width_of(row.text) <= width for row in rows)
    assert "".join(row.text for row in rows) == "".join(map(visible, texts))
    assert len(rows) >= len(texts)


@given(TEXTS, st.integers(4, 40), st.integers(1, 5), st.integers(0, 30))
def test_a_line_takes_no_more_rows_than_it_may(text: str, width: int, limit: int, hang: int) -> None:
    rows = rows_of([ScreenLine(text, "", hang)], width, limit=limit)

    assert 1 <= len(rows) <= limit
    assert all(width_of(row.text) <= width for row in rows)


def test_wide_characters_are_counted_as_wide() -> None:
    assert [row.text for row in rows_of([ScreenLine("日本語日本語")], 5)] == ["日本", "語日", "本語"]
    assert row_of(ScreenLine("日本語"), 5).text == "日本…"


def test_later_rows_stand_under_the_text() -> None:
    rows = rows_of([ScreenLine("  label  one two three four", "", 9)], 20)

    assert [row.text for row in rows] == ["  label  one two ", "         three four"]


def test_a_terminal_of_one_column_is_written_to_as_well() -> None:
    assert row_of(ScreenLine("abc"), 1).text == "…"
    assert [row.text for row in rows_of([ScreenLine("abc")], 1)] == ["a", "b", "c"]


def test_json_is_indented_and_its_long_texts_are_broken_where_they_break_lines() -> None:
    assert pretty(encode({"a": "one\ntwo\n", "b": "c:\\new", "c": "x\\\ny"})) == [
        "{",
        '  "a": "one\\n',
        '      two\\n",',
        '  "b": "c:\\\\new",',
        '  "c": "x\\\\\\n',
        '      y"',
        "}",
    ]


@sampled("text", ["x" * 5_000_000, "é日 " * 1_500_000, "a\nb" * 1_000_000], count=1, start=1)
def test_five_megabytes_are_laid_out_in_a_moment(text: str) -> None:
    started = time.process_time()
    rows = rows_of(map(ScreenLine, pretty(encode({"result": text}))), 80)

    assert len(rows) > 50_000
    assert time.process_time() - started < 10
