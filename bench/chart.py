"""Draw the rows of the table that have a short title as an SVG: ReplayKit's bar above those of its peers.

Bars of one group share a logarithmic scale that ends at the group's largest value, so groups with different units can
stand in one picture. The file needs nothing else: no fonts, no scripts, no requests.
"""

from __future__ import annotations

import math
from html import escape

import table

WIDTH = 860
MARGIN = 20
LABELS = 290
"""Pixels for the names of systems."""
VALUES = 190
"""Pixels for values, right of the bars."""
BAR = 14
STEP = 20
TITLE = 26
GAP = 14
SHORTEST = 4
SPAN = 20_000
"""A bar this many times smaller than the longest one has no length left."""

STYLE = """
  text { font: 12px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600; font-size: 13px }
  .note { fill: #59636e }
  .ours { fill: #0969da }
  .peer { fill: #b1bac4 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .note { fill: #9198a1 }
    .ours { fill: #4493f8 }
    .peer { fill: #484f58 }
  }
"""


def svg(lines: list[table.Line]) -> str:
    """Return the picture of all lines that have a place in it."""
    parts: list[str] = []
    top = MARGIN + 4
    parts.append(_text(MARGIN, top + 10, "Shorter is better. Logarithmic bars, one scale for each group.", "note"))
    top += 2 * GAP
    for line in lines:
        if line.row.chart and line.ours.number.value is not None:
            top = _draw_group(parts, line, top)
    height = top + MARGIN - GAP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
        ' role="img" aria-label="ReplayKit beside other tools">'
    )
    return "\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>"]) + "\n"


def _draw_group(parts: list[str], line: table.Line, top: int) -> int:
    """Add the bars of one line, and return where the next group begins."""
    entries = [line.ours, *line.peers]
    longest = max(entry.number.value or 0.0 for entry in entries)
    parts.append(_text(MARGIN, top + 14, line.row.chart, "title"))
    top += TITLE
    for entry in entries:
        if entry.number.value is not None:
            kind = "ours" if entry is line.ours else "peer"
            _draw_bar(parts, entry, kind, line.row.unit, longest, top)
            top += STEP
    return top + GAP


def _draw_bar(parts: list[str], entry: table.Entry, kind: str, unit: str, longest: float, top: int) -> None:
    value = entry.number.value or 0.0
    length = bar_length(value, longest)
    label = table.show(value, unit)
    if entry.ratio is not None:
        label += f"  ({table.figures(entry.ratio)} ×)"
    left = MARGIN + LABELS
    parts.append(_text(MARGIN + 8, top + 11, str(entry), "name"))
    parts.append(f'<rect class="{kind}" x="{left}" y="{top}" width="{length}" height="{BAR}" rx="2"/>')
    parts.append(_text(left + length + 8, top + 11, label, "note"))


def bar_length(value: float, longest: float) -> int:
    """Return the length of a bar in pixels."""
    room = WIDTH - 2 * MARGIN - LABELS - VALUES
    if value <= 0 or longest <= 0:
        return SHORTEST
    share = 1 + math.log(value / longest) / math.log(SPAN)
    return max(SHORTEST, round(room * share))


def _text(x: int, y: int, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(text)}</text>'
