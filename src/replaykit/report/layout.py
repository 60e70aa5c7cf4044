"""Plain building blocks: a box, a table, a short text, lines that fit the terminal."""

from __future__ import annotations

import os
import re
import sys
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from replaykit.model.text_lines import cut
from replaykit.terminal import style, unstyle, visible

MAX_WIDTH = 160


def width_of(text: str) -> int:
    """Return how many columns a text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(map(_char_width, text))


def _char_width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    if unicodedata.east_asian_width(char) in "WF":
        return 2
    return 1


def screen_width() -> int:
    """The width to write for: the terminal's, within reason; 80 where there is none."""
    return max(40, min(MAX_WIDTH, _columns() or 80))


def line_width() -> int:
    """The width of a line of a list: the terminal's; a program or a log that reads it has room for the most."""
    return max(40, min(MAX_WIDTH, _columns() or MAX_WIDTH))


def _columns() -> int | None:
    """Return the terminal's columns; None where there is none.

    As `shutil` finds them, which takes longer to import than a replay takes to tell.
    """
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or None  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):
        return None


def panel(title: str, lines: Sequence[str], *, width: int | None = None) -> str:
    """Lines in a box with a title, wrapped to its width."""
    inner = (width or min(screen_width(), 74)) - 4
    head = f" {title} ".center(inner + 2, "─")
    body = []
    for line in lines:
        for part in textwrap.wrap(line, inner) or [""]:
            body.append(f"│ {part}{' ' * (inner - width_of(part))} │")
    return "\n".join([f"┌{head}┐", *body, f"└{'─' * (inner + 2)}┘"])


LAST_COLUMN = 20
"""Columns that the last one of a table has at least."""


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    is_cut: bool = True,
    optional: Sequence[str] = (),
    colours: Mapping[str, str] | None = None,
) -> str:
    """Columns under a head; the last one takes what is left of the line and is cut there, unless it is to be whole.

    On a terminal, columns in `optional` are left out, in that order, while the others do not fit: a program that reads
    the text gets all of them. Cells in `colours` are coloured.
    """
    shown = [[*map(visible, row[:-1]), row[-1]] for row in [head, *rows]]
    for name in optional:
        if _columns() is None or _room(shown) >= LAST_COLUMN:
            break
        place = shown[0].index(name)
        shown = [row[:place] + row[place + 1 :] for row in shown]
    widths = _widths(shown)
    room = max(LAST_COLUMN, _room(shown))
    lines = []
    for number, (*cells, last) in enumerate(shown):
        padded = [cell + " " * (wide - width_of(cell)) for cell, wide in zip(cells, widths, strict=False)]
        padded.append(short(last, room) if is_cut else visible(last))
        if number == 0:
            lines.append(style("  ".join(padded).rstrip(), dim=True))
            continue
        for place, cell in enumerate(cells):
            if colours and cell in colours:
                padded[place] = padded[place].replace(cell, style(cell, fg=colours[cell]), 1)
        lines.append("  ".join(padded).rstrip())
    return "\n".join(lines)


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(width_of, column)) for column in zip(*rows, strict=True)]


def _room(rows: Sequence[Sequence[str]]) -> int:
    """Return the columns that are left for the last cell of a row."""
    *widths, _last = _widths(rows)
    return screen_width() - sum(widths) - 2 * len(widths)


def fit(text: str) -> str:
    """Return a text whose lines fit the terminal; where there is none, the text as it is.

    A line that is too long goes on below the column that its last part began in. A command is left whole, to be copied.
    """
    columns = _columns()
    if columns is None:
        return text
    lines: list[str] = []
    for line in text.split("\n"):
        if width_of(unstyle(line)) <= columns or _COMMAND.search(unstyle(line)):
            lines.append(line)
        else:
            lines += _wrapped(line, columns)
    return "\n".join(lines)


_COMMAND = re.compile(r"(?<![`\w])(?:replaykit|python|pip|git) \w")


def _wrapped(line: str, columns: int) -> list[str]:
    """Return a line as several that are no wider; its words may be coloured."""
    gap = unstyle(line).rfind("  ", 0, columns // 2)
    margin = 0 if gap < 0 else gap + 2
    lines, current = [], ""
    for blanks, word in re.findall(r"(\s*)(\S+)", line):
        if current and width_of(unstyle(current + blanks + word)) > columns:
            lines.append(current)
            current, blanks = "", " " * margin
        current += blanks + word
    return [*lines, current]


def indented(lines: Iterable[str], margin: str = "  ") -> list[str]:
    """Return the lines with a margin."""
    return [margin + line for line in lines]


def mark(is_right: bool) -> str:
    """Return a green tick or a red cross."""
    if is_right:
        return style("✓", fg="green")
    return style("✗", fg="red")


def tally(counts: Mapping[str, int]) -> str:
    """Return the counts that are not zero: `2 failed, 1 passed`."""
    return ", ".join(f"{count} {what}" for what, count in counts.items() if count)


def short(text: str, width: int) -> str:
    """A text on one line, cut to a width."""
    return cut(visible(" ".join(text.split())), width)


def counted(number: int, word: str) -> str:
    """A number with its word: `1 case`, `2 cases`."""
    if number == 1:
        return f"{number} {word}"
    return f"{number} {word}s"


def counts_text(names: Iterable[str]) -> str:
    """Return each name and how often it occurs; `nothing` where there is none."""
    counts = sorted(Counter(names).items())
    return ", ".join(f"{name} × {count}" for name, count in counts) or "nothing"


def to_json_line(value: object) -> str:
    """Return a value as JSON text on one line."""
    return msgspec.json.encode(value).decode()


def to_json(value: object) -> str:
    """Return a value as indented JSON text."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
