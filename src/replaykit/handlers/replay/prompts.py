"""Show how a prompt differs from the recorded one: which message, and which lines of it."""

from __future__ import annotations

import difflib
from itertools import zip_longest

from replaykit.terminal import visible
from replaykit.wire.conversation import Conversation, ConversationLine
from replaykit.wire.messages import ASSISTANT, SYSTEM, TOOL
from replaykit.wire.tools import Tool

_MOST_LINES = 12
# The number of lines compared, because a diff of more takes far longer.
_MOST_COMPARED = 400
_WIDTH = 120
# The number of characters shown before the first difference.
_AROUND = 30


def prompt_difference(recorded: Conversation, now: Conversation) -> list[str]:
    """Describe the first difference between two conversations in lines; empty if there is none."""
    pairs = zip_longest(recorded.lines, now.lines)
    for number, (before, after) in enumerate(pairs, 1):
        if before is None or after is None or before.json != after.json:
            return _of_message(number, before, after)
    return _of_tools(recorded.tools, now.tools)


def _of_message(number: int, before: ConversationLine | None, after: ConversationLine | None) -> list[str]:
    if after is None:
        assert before is not None  # the longer conversation has a line here
        return [f"  {_named(before, number)} was recorded and is not sent:", *_shown("-", _text(before))]
    if before is None:
        return [f"  {_named(after, number)} is new:", *_shown("+", _text(after))]
    if (before.role, before.call, before.name) != (after.role, after.call, after.name):
        first = f"  message {number} is {_article(after)}, and {_article(before)} was recorded:"
        return [first, *_shown("-", _text(before)), *_shown("+", _text(after))]
    return [f"  {_named(after, number)} is not the recorded one:", *_changed(_text(before), _text(after))]


def _of_tools(before: tuple[Tool, ...], after: tuple[Tool, ...]) -> list[str]:
    """Describe the difference between the offered tools."""
    if not before:
        return []
    old, new = ({tool.name: tool for tool in tools} for tools in (before, after))
    for name in sorted(old.keys() - new.keys()):
        return [f"  the tool `{visible(name)}` was on offer, and is not"]
    for name in sorted(new.keys() - old.keys()):
        return [f"  the tool `{visible(name)}` is on offer, and was not"]
    for name, tool in old.items():
        other = new[name]
        if tool.description is not None and tool.description != other.description:
            first = f"  the description of the tool `{visible(name)}` is not the recorded one:"
            return [first, *_changed(tool.description, other.description or "")]
        if tool.schema is not None and tool.schema != other.schema:
            return [f"  the parameters of the tool `{visible(name)}` are not the recorded ones"]
    return []


def _named(line: ConversationLine, number: int) -> str:
    if line.role == SYSTEM:
        return "the system prompt"
    return f"message {number}, {_article(line)},"


def _article(line: ConversationLine) -> str:
    if line.role == TOOL:
        if line.name:
            return f"the result of `{visible(line.name)}`"
        return "the result of a tool"
    if line.call is not None:
        return f"the model's call of `{visible(line.name)}`"
    if line.role == ASSISTANT:
        return "the model's own answer"
    return f"one of the {visible(line.role)}"


def _text(line: ConversationLine) -> str:
    return "\n".join(line.texts) or line.content.decode()


def _changed(before: str, after: str) -> list[str]:
    """Return the lines that differ, with one line of context."""
    old, new = before.splitlines()[:_MOST_COMPARED], after.splitlines()[:_MOST_COMPARED]
    if len(old) == len(new) == 1:
        return _one_line(old[0], new[0])
    found = list(difflib.unified_diff(old, new, lineterm="", n=1))[2:]
    rows = [row for row in found if not row.startswith("@@")]
    return _limited([f"    {row[0]} {visible(row[1:])[:_WIDTH]}".rstrip() for row in rows] or _shown("+", after))


def _one_line(before: str, after: str) -> list[str]:
    """Return two lines, starting shortly before their first difference."""
    pairs = zip(before, after, strict=False)
    same = next((place for place, (old, new) in enumerate(pairs) if old != new), min(len(before), len(after)))
    start = max(0, same - _AROUND) if max(len(before), len(after)) > _WIDTH else 0
    dots = "…" if start else ""
    return [*_shown("-", dots + before[start:]), *_shown("+", dots + after[start:])]


def _shown(sign: str, text: str) -> list[str]:
    rows = []
    for line in text.splitlines()[: _MOST_LINES + 1] or [""]:
        row = visible(line)
        if len(row) > _WIDTH:
            row = f"{row[:_WIDTH]}…"
        rows.append(f"    {sign} {row}".rstrip())
    return _limited(rows)


def _limited(rows: list[str]) -> list[str]:
    if len(rows) <= _MOST_LINES:
        return rows
    return [*rows[:_MOST_LINES], "    …"]
