"""Selecting: names by pattern, and calls by which of them is meant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from replaykit.model.events import ToolCall
from replaykit.model.jsonpath import JsonPath, parse_path

Occurrence: TypeAlias = int | Literal["any", "all", "first", "last"]
"""The call that is meant among several: any one, every one, or the one at that place, counted from 1."""


def glob(pattern: str, text: str) -> bool:
    """True when the text is the pattern, with `*` for any stretch of it; in linear time."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == first
    if not text.startswith(first):
        return False
    position = len(first)
    *middle, last = rest
    for piece in middle:
        found = text.find(piece, position)
        if found < 0:
            return False
        position = found + len(piece)
    return len(text) - len(last) >= position and text.endswith(last)


def any_glob(patterns: Sequence[str], text: str) -> bool:
    """True when one of the patterns is the text's."""
    return any(glob(pattern, text) for pattern in patterns)


def toolless_path(text: str) -> JsonPath:
    """A path that is limited to no tool; a `ValueError` says what is wrong with it."""
    path = parse_path(text)
    if path.tool is not None:
        raise ValueError(f"expected a JSON path without a tool, such as $.total, got {text!r}")
    return path


def pick_call(
    calls: Sequence[ToolCall], which: Occurrence, fits: Callable[[ToolCall], bool]
) -> tuple[bool, ToolCall | None]:
    """Whether the calls that are meant fit, and the one that tells: the first that decides it.

    Of no calls none fits: nothing holds by silence.
    """
    if not calls:
        return False, None
    if which == "any":
        found = next((call for call in calls if fits(call)), None)
        return found is not None, found if found is not None else calls[-1]
    if which == "all":
        bad = next((call for call in calls if not fits(call)), None)
        return bad is None, bad if bad is not None else calls[-1]
    if isinstance(which, int):
        place = which - 1
    elif which == "first":
        place = 0
    else:
        place = len(calls) - 1
    if place < len(calls):
        return (fits(calls[place]), calls[place])
    return (False, None)


def check_occurrence(which: Occurrence) -> None:
    """Refuse a number that counts no call."""
    if isinstance(which, int) and which < 1:
        raise ValueError(f"expected an occurrence of 1 or more, got {which}")


def occurrence_text(which: Occurrence) -> str:
    """`call 2 of`, `every call of`, `a call of`."""
    words = {"any": "a call of", "all": "every call of", "first": "the first call of", "last": "the last call of"}
    if isinstance(which, str):
        return words[which]
    return f"call {which} of"
