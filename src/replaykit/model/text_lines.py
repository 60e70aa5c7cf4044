"""Shorten texts and lists of names for display."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice


def cut(text: str, width: int) -> str:
    """Return the text, cut to the width with `…` if it is longer."""
    if len(text) <= width:
        return text
    return f"{text[: width - 1]}…"


def one_line(text: str, width: int) -> str:
    """Return the text on one line, cut to the width."""
    # A text may have megabytes; four times the width is enough for one line, whatever blanks are in it.
    return cut(" ".join(text[: 4 * width].split()), width)


def first_few(names: Collection[str], most: int) -> str:
    """List the first names for people: `a, b and 3 more`."""
    shown = ", ".join(islice(names, most))
    if len(names) > most:
        shown += f" and {len(names) - most} more"
    return shown


def words_of(text: str) -> list[str]:
    """Return the words of a text, so that a hundred of them fit on ten lines of source."""
    return text.split()
