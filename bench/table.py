"""From the results of all repetitions to lines of a table, and those to text, Markdown and JSON.

Every value is the least of its repetitions, with their median beside it: what disturbs a CPU time only ever
adds to it. Every ratio is the peer's value divided by ours.
"""

from __future__ import annotations

import importlib
import statistics
from dataclasses import dataclass
from typing import Any

from rows import Cell, Job, Row

Results = dict[Job, list[dict[str, Any]]]

_RESOLUTION = {"ms": 5.0, "times": float("inf"), "part": float("inf")}
"""Up to here no ratio is given: start-up is a difference of two processes, and growths and parts are ratios already."""


@dataclass(frozen=True)
class Number:
    """The least of a cell's repetitions and their median, or why there is none."""

    value: float | None = None
    median: float = 0.0
    missing: str = ""


@dataclass(frozen=True)
class Entry:
    """One system in one line."""

    name: str
    number: Number
    note: str
    ratio: float | None
    """The peer's value divided by ours."""

    def __str__(self) -> str:
        return f"{self.name} ({self.note})" if self.note else self.name


@dataclass(frozen=True)
class Line:
    """One row, filled in."""

    row: Row
    ours: Entry
    peers: list[Entry]
    met: str
    """yes, missed by how much, why it cannot be told, or nothing where there is no aim"""


def fill(row: Row, results: Results) -> Line:
    """The row with its numbers."""
    ours = read(row.ours, results)
    peers = [(cell, read(cell, results)) for cell in row.peers]
    return Line(
        row,
        Entry(name_of(row.ours.job.system), ours, row.ours.note, None),
        [Entry(name_of(cell.job.system), n, cell.note, _ratio(n, ours, row.unit)) for cell, n in peers],
        _judge(row, ours, [number for _, number in peers]),
    )


def read(cell: Cell, results: Results) -> Number:
    """A cell's number out of the results."""
    values = []
    for job in (cell.job, cell.over):
        if job is None:
            continue
        outcomes = results.get(job) or [{"missing": "not run"}]
        reasons = [outcome["missing"] for outcome in outcomes if "missing" in outcome]
        if reasons:
            return Number(missing=reasons[0])
        values.append([outcome["numbers"][cell.metric] for outcome in outcomes])
    if cell.over is None:
        return Number(min(values[0]), statistics.median(values[0]))
    above, below = values
    return Number(min(above) / min(below), statistics.median(above) / statistics.median(below))


def name_of(system: str) -> str:
    return str(importlib.import_module(f"systems.{system}").NAME)


def _ratio(peer: Number, ours: Number, unit: str) -> float | None:
    if peer.value is None or ours.value is None or ours.value <= _RESOLUTION.get(unit, 0):
        return None
    return peer.value / ours.value


def _judge(row: Row, ours: Number, peers: list[Number]) -> str:
    if row.aim is None:
        return ""
    if ours.value is None:
        return "not measured"
    if row.aim.least is not None:
        return "yes" if ours.value >= row.aim.least else f"missed by {row.aim.least - ours.value:.3f}"
    limit = row.aim.limit
    if limit is None:
        if peers[0].value is None or row.aim.share is None:
            return "cannot tell"
        limit = peers[0].value * row.aim.share
    return "yes" if ours.value <= limit else f"missed by {ours.value / limit:.2f} ×"


_SCALES = {
    "bytes": ((1e6, "MB"), (1e3, "kB"), (1, "bytes")),
    "us": ((1e3, "ms"), (1, "µs")),
    "ms": ((1, "ms"),),
    "s": ((1, "s"), (1e-3, "ms")),
    "times": ((1, "×"),),
    "part": ((1, ""),),
}


def show(value: float, unit: str) -> str:
    """A value with three figures and the unit that fits its size."""
    scale, name = next(((s, n) for s, n in _SCALES[unit] if abs(value) >= s), _SCALES[unit][-1])
    return f"{figures(value / scale)} {name}".rstrip()


def figures(value: float) -> str:
    """Three figures: 0.512, 5.12, 51.2, 512, 5,120."""
    size = abs(value)
    return f"{value:,.{0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3}f}"


def _cell(entry: Entry, unit: str) -> str:
    return entry.number.missing if entry.number.value is None else show(entry.number.value, unit)


def text(lines: list[Line]) -> str:
    """The table for a terminal: a block a row, a line a system."""
    blocks = []
    for line in lines:
        block = [line.row.title]
        for entry in (line.ours, *line.peers):
            ratio = "" if entry.ratio is None else f"{figures(entry.ratio)} × ours"
            median = _median(entry.number, line.row.unit)
            block.append(f"  {entry!s:<50}{_cell(entry, line.row.unit):>14}{ratio:>18}   {median}".rstrip())
        if line.row.aim:
            block.append(f"  {'aim ' + line.row.aim.text:<50}{line.met:>14}")
        blocks.append("\n".join(block))
    return "\n\n".join(blocks)


def _median(number: Number, unit: str) -> str:
    """The median, where it looks different from the value."""
    if number.value is None or show(number.value, unit) == show(number.median, unit):
        return ""
    return f"(median {show(number.median, unit)})"


def markdown(lines: list[Line]) -> str:
    """The table for a file."""
    out = [
        "| work | ReplayKit | peers, and their multiple of ours | aim | met |",
        "|---|---|---|---|---|",
    ]
    for line in lines:
        unit = line.row.unit
        ours = f"{_cell(line.ours, unit)} {_median(line.ours.number, unit)}".rstrip()
        aim = line.row.aim.text if line.row.aim else "—"
        peers = "<br>".join(_markdown_peer(entry, unit) for entry in line.peers)
        out.append(f"| {line.row.title} | {ours} | {peers or '—'} | {aim} | {line.met or '—'} |")
    return "\n".join(out)


def _markdown_peer(entry: Entry, unit: str) -> str:
    ratio = "" if entry.ratio is None else f" · **{figures(entry.ratio)} ×**"
    return f"{entry}: {_cell(entry, unit)} {_median(entry.number, unit)}".rstrip() + ratio


def as_json(lines: list[Line]) -> list[dict[str, Any]]:
    """The table for a program: values in the row's unit."""

    def entry(e: Entry) -> dict[str, Any]:
        number = e.number
        if number.value is None:
            return {"system": e.name, "note": e.note, "missing": number.missing}
        return {"system": e.name, "note": e.note, "value": number.value, "median": number.median, "ratio": e.ratio}

    return [
        {
            "group": line.row.group,
            "work": line.row.title,
            "unit": line.row.unit,
            "ours": entry(line.ours),
            "peers": [entry(peer) for peer in line.peers],
            "aim": line.row.aim.text if line.row.aim else None,
            "met": line.met or None,
        }
        for line in lines
    ]
