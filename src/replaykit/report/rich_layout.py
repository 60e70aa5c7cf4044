"""Layout by rich, for a terminal. Imported by `layout` alone, and only where standard output is a terminal.

rich decides where text goes, and prints nothing: text comes in with marks of `replaykit.terminal`, and what rich makes
of it goes out with such marks. So the door of that module stays the only one, and it decides about colours.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from io import StringIO
from typing import Literal

from rich.box import ROUNDED, Box
from rich.console import Console, RenderableType
from rich.highlighter import JSONHighlighter
from rich.panel import Panel
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from replaykit.terminal import pieces, style, visible

_HEAD_RULE = Box("    \n    \n ── \n    \n    \n    \n    \n    \n")
"""A line below the head of a table, and no other: what stands between cells would be copied along with them."""
_LEAST_WIDTH = 12
"""Columns that a column may have, however narrow the terminal is."""
_THEME = Theme(
    {
        "json.key": "cyan",
        "json.str": "green",
        "json.number": "yellow",
        "json.bool_true": "magenta",
        "json.bool_false": "magenta",
        "json.null": "dim",
        "json.brace": "bold",
    }
)
_STYLES: dict[tuple[str | None, bool, bool], Style] = {}


def marked_lines(renderable: RenderableType, width: int) -> list[str]:
    """Return the lines that rich lays out, in marks of our own."""
    console = Console(
        file=StringIO(),
        width=width,
        force_terminal=True,
        color_system="standard",
        no_color=bool(os.environ.get("NO_COLOR")),  # a bar shows what is left in another colour, or not at all
        legacy_windows=False,
        theme=_THEME,
        _environ={},
    )
    return list(map(_marked_line, console.render_lines(renderable, pad=False)))


def table_lines(
    head: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, is_cut: bool, numbers: Collection[str]
) -> list[str]:
    """Return a table; the last column takes what is left of the line. Cells are cut, or continue below themselves."""
    table = _plain_table()
    *_, last = head
    overflow: Literal["ellipsis", "fold"] = "ellipsis" if is_cut else "fold"
    for name in head[:-1]:
        table.add_column(
            Text(name, _style(dim=True)),
            justify="right" if name in numbers else "left",
            no_wrap=is_cut,
            overflow=overflow,
            max_width=max(width // 3, _LEAST_WIDTH) if is_cut else None,
        )
    table.add_column(Text(last, _style(dim=True)), no_wrap=is_cut, overflow=overflow, ratio=1)
    for row in rows:
        table.add_row(*map(text_of, row))
    table.expand = True
    return marked_lines(table, width)


def panel_lines(title: str, lines: Sequence[str], width: int, *, colour: str | None) -> list[str]:
    """Return lines in a box with a title."""
    border = _style(colour) if colour else _style(dim=True)
    body = Text("\n").join(map(text_of, lines))
    return marked_lines(
        Panel(body, title=Text(title, style=_style(bold=True)), box=ROUNDED, border_style=border, width=width), width
    )


def side_by_side_lines(heads: tuple[str, str], rows: Sequence[tuple[str, str]], width: int) -> list[str]:
    """Return two texts beside each other, line by line, each in a half of the width."""
    table = _plain_table()
    table.expand = True
    for name in heads:
        table.add_column(text_of(name), ratio=1, overflow="fold")
    for row in rows:
        table.add_row(*map(text_of, row))
    return marked_lines(table, width)


def json_lines(lines: Sequence[str]) -> list[str]:
    """Return lines of JSON text with its keys, texts and numbers in their colours; no line is wrapped."""
    highlight = JSONHighlighter()
    text = Text("\n").join(highlight(Text(line)) for line in map(visible, lines))
    text.no_wrap, text.overflow = True, "ignore"
    return marked_lines(text, 1_000_000)


def text_of(marked: str) -> Text:
    """Return a text with marks as rich has it."""
    text = Text()
    for piece in pieces(marked):
        text.append(piece.text, _style(piece.fg, bold=piece.bold, dim=piece.dim))
    return text


def _style(fg: str | None = None, *, bold: bool = False, dim: bool = False) -> Style:
    key = (fg, bold, dim)
    if key not in _STYLES:
        _STYLES[key] = Style(color=fg, bold=bold or None, dim=dim or None)
    return _STYLES[key]


def _plain_table() -> Table:
    """Return a table whose head is set off by a line, and whose cells by blanks."""
    return Table(
        box=_HEAD_RULE,
        show_edge=False,
        pad_edge=False,
        collapse_padding=True,
        padding=(0, 1, 0, 0),  # and one blank from the box
        header_style=_style(),
        border_style=_style(dim=True),
    )


def _marked_line(segments: Sequence[Segment]) -> str:
    """Return a line without the blanks that rich fills it up with."""
    line = ""
    blanks = ""
    for segment in segments:
        text = segment.text.rstrip(" ")
        if text:
            line += blanks + _marked(text, segment.style)
            blanks = ""
        blanks += segment.text[len(text) :]
    return line


def _marked(text: str, found: Style | None) -> str:
    if found is None:
        return text
    fg = found.color.name if found.color else None
    if fg or found.bold or found.dim:
        return style(text, fg=fg, bold=bool(found.bold), dim=bool(found.dim))
    return text


_LEAST_BAR = 2
"""A bar for one step would only ever be empty."""
_MOST_WIDTH = 100


class ProgressLine:
    """A spinner, what is done, a bar, the count, the rate and the time left."""

    def __init__(self, label: str) -> None:
        self._spinner = SpinnerColumn(style=_CYAN)
        self._label = _LabelColumn(label)
        self._bar = BarColumn(None, style=_DIM, complete_style=_CYAN, finished_style=_CYAN)
        self._figures = _FiguresColumn()
        self._progress = Progress(auto_refresh=False)
        self._task = self._progress.add_task("", total=None)

    def text(self, done: int, total: int | None, width: int) -> str:
        """Return the line, with marks; its estimate rests on the times at which this was called."""
        self._progress.update(self._task, completed=done, total=total)
        self._progress.expand = total is not None and total >= _LEAST_BAR
        bar = (self._bar,) if self._progress.expand else ()
        self._progress.columns = (self._spinner, self._label, *bar, self._figures)
        return marked_lines(self._progress.get_renderable(), min(width, _MOST_WIDTH))[0]


_CYAN, _DIM = Style(color="cyan"), Style(dim=True)


class _LabelColumn(ProgressColumn):
    """The words of the job."""

    def __init__(self, label: str) -> None:
        self._text = Text(label)
        super().__init__()

    def render(self, task: Task) -> Text:
        return self._text


class _FiguresColumn(ProgressColumn):
    """`1,234/10,000  512/s  0:17 left`; without a total, the time that has passed."""

    def render(self, task: Task) -> Text:
        figures = []
        if task.total is not None:
            figures.append(f"{int(task.completed):,}/{int(task.total):,}")
        elif task.completed:
            figures.append(f"{int(task.completed):,}")
        if task.completed and task.elapsed:
            figures.append(_rate(task.completed / task.elapsed))
        if task.time_remaining:
            figures.append(f"{_clock(task.time_remaining)} left")
        else:
            figures.append(_clock(task.elapsed or 0))
        return Text("  ".join(figures))


def _rate(per_second: float) -> str:
    if per_second < 1:
        return f"{per_second * 60:.1f}/min"
    return f"{per_second:,.0f}/s"


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{seconds:02}"
    return f"{minutes}:{seconds:02}"
