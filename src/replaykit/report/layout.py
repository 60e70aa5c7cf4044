"""Building blocks of reports: a box, a table, a short text, JSON, lines that fit the terminal.

Each block decides here between its two forms: laid out by rich on a terminal, and plain, stable text elsewhere.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import Struct

from replaykit.model.text_lines import cut, words_of
from replaykit.terminal import is_terminal, style, unstyle, visible, visible_styled

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


def room(used: int, plain: int) -> int:
    """Return how many columns a text gets in a line of which so many are used; `plain` where there is no terminal."""
    columns = _columns()
    if columns is None:
        return plain
    return max(LAST_COLUMN, min(MAX_WIDTH, columns) - used)


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


COLOURS = {
    **dict.fromkeys(words_of("success fixed passed held kept imported made ok identical"), "green"),
    **dict.fromkeys(("error", "timeout", "reproduced", "broken", "broke", "failed"), "red"),
    **dict.fromkeys(("cancelled", "diverged", "flaky", "untested", "warning", "updated"), "yellow"),
    **dict.fromkeys(("running",), "cyan"),
    **dict.fromkeys(("inconclusive", "unjudged"), "magenta"),
}
"""The colour of each status and verdict, wherever it is printed."""


def coloured(word: str, *, bold: bool = False) -> str:
    """Return a status or a verdict in its colour."""
    return style(word, fg=COLOURS.get(word), bold=bold)


def labelled(name: str, text: str, width: int) -> str:
    """Return a text behind its label, which takes so many columns."""
    return f"{style(f'{name:<{width}}', dim=True)} {text}"


def panel(title: str, lines: Sequence[str], *, colour: str | None) -> str:
    """Return lines in a box with a title, wrapped to its width."""
    if is_terminal():
        from replaykit.report import rich_layout  # noqa: PLC0415 (imports rich)

        return "\n".join(rich_layout.panel_lines(title, lines, min(screen_width(), 100), colour=colour))
    inner = min(screen_width(), 74) - 4
    head = f" {title} ".center(inner + 2, "─")
    body = []
    for line in lines:
        for part in textwrap.wrap(unstyle(line), inner) or [""]:
            body.append(f"│ {part}{' ' * (inner - width_of(part))} │")
    return "\n".join([f"┌{head}┐", *body, f"└{'─' * (inner + 2)}┘"])


LAST_COLUMN = 20
"""Columns that the last one of a table has at least."""
_RICH_ROWS = 300
"""Rows of a table that rich lays out at most: it takes half a millisecond for each."""


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    is_cut: bool = True,
    optional: Sequence[str] = (),
    numbers: Sequence[str] = (),
) -> str:
    """Return columns under a head; the last takes what is left of the line and is cut there, unless it is to be whole.

    On a terminal, columns in `optional` are left out, in that order, while the others do not fit: a program that reads
    the text gets all of them. Those in `numbers` are set flush right there.
    """
    shown = []
    for *cells, last in [head, *rows]:
        if is_cut:
            last = " ".join(last.split())
        shown.append(list(map(visible_styled, [*cells, last])))
    for name in optional:
        if _columns() is None or _room(shown) >= LAST_COLUMN:
            break
        place = shown[0].index(name)
        shown = [row[:place] + row[place + 1 :] for row in shown]
    if is_terminal() and len(rows) <= _RICH_ROWS:
        from replaykit.report import rich_layout  # noqa: PLC0415 (imports rich)

        width = min(screen_width(), sum(_widths(shown)) + 2 * (len(shown[0]) - 1))
        lines = rich_layout.table_lines(shown[0], shown[1:], width, is_cut=is_cut, numbers=numbers)
        return "\n".join(lines)
    return "\n".join(_plain_table(shown, is_cut=is_cut))


def _plain_table(rows: Sequence[Sequence[str]], *, is_cut: bool) -> Iterator[str]:
    widths = _widths(rows)
    room = max(LAST_COLUMN, _room(rows))
    for number, (*cells, last) in enumerate(rows):
        line = ""
        for cell, wide in zip(cells, widths, strict=False):
            line += cell + " " * (wide - width_of(unstyle(cell)) + 2)
        if is_cut and width_of(unstyle(last)) > room:
            last = cut(unstyle(last), room)
        line = (line + last).rstrip()
        if number == 0:
            line = style(line, dim=True)
        yield line


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(width_of(unstyle(cell)) for cell in column) for column in zip(*rows, strict=True)]


def _room(rows: Sequence[Sequence[str]]) -> int:
    """Return the columns that are left for the last cell of a row."""
    *widths, _last = _widths(rows)
    return screen_width() - sum(widths) - 2 * len(widths)


_SIDE_MARGIN = 2
"""Columns that whoever puts the texts into a paragraph may indent them by."""
_WIDE = 120
"""Columns from which on two texts stand beside each other."""


def has_room_for_two() -> bool:
    """Return True for a terminal so wide that two texts fit beside each other."""
    return is_terminal() and screen_width() >= _WIDE


def beside(heads: tuple[str, str], rows: Sequence[tuple[str, str]]) -> str:
    """Return two texts with their lines beside each other; ask `has_room_for_two` before."""
    from replaykit.report import rich_layout  # noqa: PLC0415 (imports rich)

    return "\n".join(rich_layout.side_by_side_lines(heads, rows, screen_width() - _SIDE_MARGIN))


def highlighted(json_text: str) -> str:
    """Return JSON text in colours on a terminal; elsewhere, and where it is very long, as it is."""
    if not is_terminal() or len(json_text) > _MOST_HIGHLIGHTED:
        return json_text
    from replaykit.report import rich_layout  # noqa: PLC0415 (imports rich)

    return "\n".join(rich_layout.json_lines(json_text.split("\n")))


_MOST_HIGHLIGHTED = 100_000
"""Characters of a JSON text that is coloured at most: this many take half a second."""


def value_text(value: object) -> str:
    """Return a value for people: as JSON on a terminal, on one line as Python writes it elsewhere."""
    is_text = isinstance(value, str)
    if not is_terminal():
        return str(value) if is_text else repr(value)
    if isinstance(value, str):
        if value[:1] not in ("{", "["):
            return value
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):  # a text like any other
            return str(value)
    on_one_line = msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
    if len(on_one_line) <= screen_width() - _VALUE_MARGIN:
        return highlighted(on_one_line)
    return highlighted(to_json(value))


_VALUE_MARGIN = 14
"""Columns in front of a value: its label."""


def with_hint(text: str, hint: str) -> str:
    """Return a text that says at its end how to see all of what is cut in it; where nobody sees it, the text."""
    if is_terminal() and "…" in text:
        return f"{text}\n\n{style(hint, dim=True)}"
    return text


def fit(text: str) -> str:
    """Return a text whose lines fit the terminal; where there is none, the text as it is.

    A line that is too long goes on below the column that its last part began in. A command is broken with a backslash,
    so that it can be pasted.
    """
    columns = _columns()
    if columns is None:
        return text
    lines: list[str] = []
    for line in text.split("\n"):
        if width_of(unstyle(line)) <= columns:
            lines.append(line)
            continue
        command = _COMMAND.search(line)
        if command is None:
            lines += _wrapped(line, columns)
        else:
            lines += _with_command(line[: command.start()], unstyle(line[command.start() :]), columns)
    return "\n".join(lines)


_COMMAND = re.compile(r"(?<![`\w])(?:replaykit|python|pip|git) \w")
_SHELL_WORD = re.compile(r"""(?:[^\s'"\\]|\\.|'[^']*'|"(?:\\.|[^"\\])*")+""")
_CONTINUED = " \\"
_BULLET = re.compile(r"\s*[✓✗?-] ")
"""What a line may begin with; its next lines begin below the text behind it."""


def _with_command(prose: str, command: str, columns: int) -> list[str]:
    """Return a line that ends in a command: what comes before it, and the command behind or below that."""
    margin = " " * (len(prose) - len(prose.lstrip()))
    lines = _wrapped(prose.rstrip(), columns) if prose.strip() else []
    if lines and width_of(unstyle(f"{lines[-1]} {command}")) <= columns:
        return [*lines[:-1], f"{lines[-1]} {command}"]
    if lines:
        margin += "  "
    if width_of(margin + command) <= columns:
        return [*lines, margin + command]
    return [*lines, *_continued(command, margin, columns)]


def _continued(command: str, margin: str, columns: int) -> list[str]:
    """Return a command on several lines that a shell takes for one; as it is where its quotes are not closed."""
    words = _SHELL_WORD.findall(command)
    if " ".join(words) != " ".join(command.split(" ")):
        return [margin + command]
    lines = []
    current = margin + words[0]
    for word in words[1:]:
        if width_of(f"{current} {word}{_CONTINUED}") > columns:
            lines.append(current + _CONTINUED)
            current = f"{margin}    {word}"
        else:
            current += f" {word}"
    return [*lines, current]


def _wrapped(line: str, columns: int) -> list[str]:
    """Return a line as several that are no wider; its words may be coloured."""
    plain = unstyle(line)
    gap = plain.rfind("  ", 0, columns // 2)
    margin = 0 if gap < 0 else gap + 2
    bullet = _BULLET.match(plain)
    if bullet is not None:
        margin = max(margin, bullet.end())
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


class JsonResult(Struct, frozen=True, kw_only=True):
    """A result that a command prints with `--json`."""

    replaykit: int = 1
    """Version of this form."""


def to_json_line(value: object) -> str:
    """Return a value as JSON text on one line."""
    return msgspec.json.encode(value).decode()


def to_json(value: object) -> str:
    """Return a value as indented JSON text."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
