"""Recorded and current values, side by side where the terminal has room, else one below the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from replaykit.report.layout import beside, has_room_for_two
from replaykit.terminal import is_terminal, style, visible

RECORDED, NOW = "recorded", "now"
_COLOURS = {RECORDED: "red", NOW: "green", "changed": "yellow", "added": "green", "removed": "red"}
_WIDTH = len(RECORDED) + 2
"""Columns of the word in front of a line that the explanation of a divergence holds."""
_OPENING, _CLOSING, _QUOTES = "([{", ")]}", "'\""


def with_sides(lines: Sequence[str]) -> list[str]:
    """Return the lines of an explanation in colours; what was recorded and what is now stand beside each other.

    Where there is no terminal the lines stay as they are.
    """
    if not is_terminal():
        return list(lines)
    parted = list(map(_parted, lines))
    texts = dict(pair for pair in parted if pair[0] in (RECORDED, NOW))
    is_beside = has_room_for_two() and len(texts) == 2
    shown: list[str] = []
    for (word, _), line in zip(parted, lines, strict=True):
        if not is_beside or word not in (RECORDED, NOW):
            shown.append(_coloured(word, visible(line)))
        elif texts:
            shown += ["", *sides((RECORDED, NOW), texts[RECORDED], texts[NOW]), ""]
            texts = {}
    return shown


def sides(names: tuple[str, str], old: str, new: str) -> list[str]:
    """Return two calls beside each other, an argument on each line, what differs in colour."""
    rows = []
    for before, after in zip_longest(_call_lines(old), _call_lines(new), fillvalue=""):
        if before == after:
            rows.append((style(before, dim=True), style(after, dim=True)))
        else:
            rows.append((style(before, fg="red"), style(after, fg="green")))
    return beside((style(names[0], fg="red"), style(names[1], fg="green")), rows).split("\n")


def _parted(line: str) -> tuple[str, str]:
    """Return the word in front of a line, if it is one of ours, and the rest of the line."""
    text = line.strip()
    word = text[:_WIDTH].strip()
    if word in _COLOURS and line.startswith("  "):
        return word, text[_WIDTH:]
    return "", text


def _coloured(word: str, line: str) -> str:
    if word:
        return style(line, fg=_COLOURS[word])
    return line


def _call_lines(text: str) -> Iterator[str]:
    """Yield a call as `name(`, its arguments, and `)`; any other text as it is."""
    name, bracket, rest = text.partition("(")
    if not (bracket and name.isidentifier() and rest.endswith(")")) or rest == ")":
        yield text
        return
    yield f"{name}("
    for argument in _arguments(rest[:-1]):
        yield f"    {argument}"
    yield ")"


def _arguments(text: str) -> Iterator[str]:
    """Yield what commas part, but for commas inside of brackets and quotes."""
    depth, quote, start = 0, "", 0
    is_escaped = False
    for place, char in enumerate(text):
        if is_escaped:
            is_escaped = False
        elif char == "\\":
            is_escaped = True
        elif quote:
            if char == quote:
                quote = ""
        elif char in _QUOTES:
            quote = char
        elif char in _OPENING:
            depth += 1
        elif char in _CLOSING:
            depth -= 1
        elif char == "," and depth <= 0:
            yield text[start : place + 1].strip()
            start = place + 1
    yield text[start:].strip()
