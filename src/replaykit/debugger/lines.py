"""Lines and rows: any text, made to fit a terminal of any width.

A line is as long as it is; a row is a line that fits. Both hold plain text and the name of a look, never escape codes:
`terminal.visible` spells out those in recorded values, and colour is added when rows are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct

from replaykit.model.values import Raw
from replaykit.report.layout import width_of
from replaykit.terminal import visible

_BREAK = re.compile(r"(?<!\\)(?:\\\\)*\\n")  # a line break in a JSON string


class ScreenLine(Struct, frozen=True, gc=False):
    """A text and its look: `red`, `green`, `yellow`, `cyan`, `dim`, `bold`, or nothing."""

    text: str
    look: str = ""
    hang: int | None = None
    """Indentation of the rows after the first; default: that of the text."""


def row_of(line: ScreenLine, width: int) -> ScreenLine:
    """Return the line as one row, cut off if it is too long."""
    head = line.text[: 4 * width + 16]  # enough for a row: the text may be megabytes long
    text = visible(head)
    columns = _Columns(text)
    if columns.reach(0, width) < len(text) or len(head) < len(line.text):
        text = columns.cut(0, width)
    return ScreenLine(text, line.look)


def rows_of(lines: Iterable[ScreenLine], width: int, *, limit: int | None = None) -> list[ScreenLine]:
    """Wrap the lines into rows, up to `limit` for each line."""
    rows: list[ScreenLine] = []
    for line in lines:
        if len(line.text) <= width and line.text.isascii() and line.text.isprintable():  # the fast path for most lines
            rows.append(line)
        else:
            rows += [ScreenLine(text, line.look) for text in _wrapped(line, max(width, 1), limit)]
    return rows


def pretty(json: bytes | Raw) -> list[str]:
    """Format JSON for reading: indented, with long strings broken at their own line breaks."""
    text = msgspec.json.format(bytes(json), indent=2).decode()
    if "\\n" not in text:
        return text.split("\n")
    return [part for line in text.split("\n") for part in (_broken(line) if "\\n" in line else (line,))]


def _broken(line: str) -> list[str]:
    # After an escaped backslash, `\n` may not be a line break, and only the slower expression can tell.
    marked = _BREAK.sub(r"\g<0>\n", line) if "\\\\" in line else line.replace("\\n", "\\n\n")
    parts = marked.split("\n")
    if parts[-1] in ('"', '",'):  # the string ended with a line break
        parts[-2:] = [parts[-2] + parts[-1]]
    margin = " " * (len(line) - len(line.lstrip()) + 4)
    return [parts[0], *(margin + part for part in parts[1:])]


def _wrapped(line: ScreenLine, width: int, limit: int | None) -> Iterator[str]:
    """Yield pieces of the text that fit, broken at a space if one is near."""
    text = visible(line.text)
    columns = _Columns(text)
    margin = len(text) - len(text.lstrip(" ")) if line.hang is None else line.hang
    margin = margin if margin <= width // 2 else 0
    start, count = 0, 0
    while True:
        lead = " " * margin if start else ""
        end = columns.reach(start, width - len(lead))
        count += 1
        if end >= len(text):
            yield lead + text[start:]
            return
        if count == limit:
            yield lead + columns.cut(start, width - len(lead))
            return
        space = text.rfind(" ", start + 3 * (end - start) // 4, end)
        end = space + 1 if space > 0 else end
        yield lead + text[start:end]
        start = end


class _Columns:
    """The terminal columns of a text, with wide and combining characters."""

    def __init__(self, text: str) -> None:
        self._size = len(text)
        self._text = text
        widths = {} if text.isascii() else {char: width_of(char) for char in set(text)}
        self._widths = widths if any(width != 1 for width in widths.values()) else None

    def cut(self, start: int, columns: int) -> str:
        """Return as much of the text as fits with an ellipsis."""
        text = self._text[start : self.reach(start, columns - 1)]
        if width_of(text) < columns:
            return f"{text}…"
        return "…"

    def reach(self, start: int, columns: int) -> int:
        """Return the end of a row that begins at `start`, at least one character later."""
        if self._widths is None:
            return min(start + max(columns, 1), self._size)
        used, end = 0, start
        while end < self._size:
            used += self._widths[self._text[end]]
            if used > columns and end > start:
                break
            end += 1
        return end
