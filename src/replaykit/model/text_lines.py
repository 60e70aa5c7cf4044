"""Texts that are shown: cut where they get long, and the first few of many names."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice


def cut(text: str, width: int) -> str:
    """Return the text, or its beginning and `…` where it is longer than the width."""
    if len(text) <= width:
        return text
    return f"{text[: width - 1]}…"


def one_line(text: str, width: int) -> str:
    """Return the text on one line, cut to the width."""
    # A text may have megabytes; four times the width is enough for a line, whatever blanks are in it.
    return cut(" ".join(text[: 4 * width].split()), width)


def first_few(names: Collection[str], most: int) -> str:
    """Return the names as a list for people: `a, b and 3 more`."""
    shown = ", ".join(islice(names, most))
    if len(names) > most:
        shown += f" and {len(names) - most} more"
    return shown


def words_of(text: str) -> list[str]:
    """Return the words of a text: a hundred of them fit on ten lines."""
    return text.split()
