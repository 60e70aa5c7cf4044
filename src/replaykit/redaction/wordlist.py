"""Lists of words, written as a text: a hundred of them on ten lines."""

from __future__ import annotations


def words_of(text: str) -> list[str]:
    """The words of the text."""
    return text.split()
