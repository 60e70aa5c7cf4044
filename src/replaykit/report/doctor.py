"""The findings of `doctor` as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from replaykit.doctor.results import DoctorItem, Examination, IsolationSupport, ItemState
from replaykit.report.layout import JsonResult, counted, indented, to_json
from replaykit.terminal import style, visible


class DoctorReport(JsonResult, frozen=True, kw_only=True):
    """The state of a machine and a project."""

    ok: bool
    """True when nothing would make a command fail or leak data."""
    problems: Sequence[str]
    """The names of the items that are problems."""
    isolation: IsolationSupport
    """How well this machine can keep a candidate from the outside."""
    items: Sequence[DoctorItem]
    """Everything that was looked at."""


_COLOURS = {ItemState.OK: "green", ItemState.NOTE: "yellow", ItemState.PROBLEM: "red"}
_STATE_WIDTH = max(map(len, ItemState))


def doctor_json(found: Examination) -> str:
    """Everything, for programs."""
    return to_json(
        DoctorReport(
            ok=not found.problems,
            problems=[item.name for item in found.problems],
            isolation=found.isolation,
            items=found.items,
        )
    )


def doctor_text(found: Examination) -> str:
    """Everything, for people: a line for each thing, and below it what to type."""
    width = max(len(item.name) for item in found.items)
    lines: list[str] = []
    for group, items in groupby(found.items, key=lambda item: item.group):
        lines += ["", group.capitalize()]
        for item in items:
            lines += _lines(item, width)
    return "\n".join([*lines[1:], "", _last_line(found)])


def _lines(item: DoctorItem, width: int) -> list[str]:
    state = style(f"{item.state:<{_STATE_WIDTH}}", fg=_COLOURS[item.state])
    indent = " " * (2 + _STATE_WIDTH + 2 + width + 2)
    first = f"  {state}  {item.name:<{width}}  {visible(item.detail)}"
    return [first, *indented(map(visible, item.advice), indent)]


def _last_line(found: Examination) -> str:
    if found.problems:
        names = ", ".join(item.name for item in found.problems)
        return f"{counted(len(found.problems), 'problem')}: {names}"
    notes = sum(item.state is ItemState.NOTE for item in found.items)
    if notes:
        return f"nothing is wrong; {counted(notes, 'note')}"
    return "nothing is wrong"
