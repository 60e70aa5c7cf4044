"""The first place where two runs part.

"First" is in the order of the second run's events; what it lacks counts where it is missing. A call has two moments:
its arguments count as it begins, its outcome as it ends, after whatever was called inside it.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from replaykit.model.diff import Difference
from replaykit.model.events import AnyEvent, Call, Decision, ErrorEvent, Exchange, LlmCall, Message
from replaykit.travel.compare_result import EntryKind, FirstDivergence, Parting
from replaykit.travel.compare_rows import Log, Row, event_of, name_of
from replaykit.travel.compare_states import StateParting, steps_of_parting
from replaykit.travel.compare_values import whole_line_of

_Moment: TypeAlias = tuple[int, int, int, int]
"""Position; 0 as the event there begins, 1 after that; inner calls end before outer ones; what is missing, last."""

_ROLES = {"user": Parting.INPUT, "system": Parting.INPUT, "developer": Parting.INPUT, "tool": Parting.TOOL_RESULT}


class Parted:
    """Two runs side by side, and the moments at which they differ."""

    def __init__(self, a: Log, b: Log, rows: list[Row], lacking: list[int]) -> None:
        self._a = a
        self._b = b
        self._rows = rows
        self._lacking = lacking

    def first(self, states: list[StateParting]) -> FirstDivergence | None:
        """The earliest event or state that differs; None when there is none."""
        moments = [(self._moment(row), 0, n) for n, row in enumerate(self._rows) if row.kind is not EntryKind.SAME]
        moments += [(_moment_of(state), 1, n) for n, state in enumerate(states)]
        if not moments:
            return None
        _, is_state, n = min(moments)
        return self._of_state(states[n]) if is_state else self._of_row(n)

    def _moment(self, row: Row) -> _Moment:
        if row.kind is EntryKind.MOVED:  # it is missing here, or comes too early there
            return min(self._begins(row.a, None), self._begins(None, row.b))
        if row.kind is EntryKind.CHANGED and not row.arguments:
            assert row.b is not None  # what changed is in both
            return (self._b.ends[row.b], 1, -self._b.depths[row.b], 0)
        return self._begins(row.a, row.b)

    def _begins(self, a: int | None, b: int | None) -> _Moment:
        """When the second run has the event, or would have it."""
        if b is not None:
            return (b, 0, 0, 0)
        assert a is not None
        return (self._lacking[a], 1, -self._a.depths[a], 1 + a)

    def _of_row(self, n: int) -> FirstDivergence:
        row = self._rows[n]
        event = event_of(self._a, self._b, row)
        kind, text = _parting(row, event)
        a, b = row.a, row.b
        instead = next((other for other in self._rows[n:] if other.kind is not EntryKind.DELETED), row)
        if row.kind is EntryKind.DELETED and instead.kind is EntryKind.INSERTED:
            text, b = f"{text}, {_called(event_of(self._a, self._b, instead))} instead", instead.b
        return self._made(kind, text, a, b, row.arguments or row.outcome)

    def _of_state(self, state: StateParting) -> FirstDivergence:
        found = self._made(Parting.STATE, _state_text(state.differences), state.a, state.b, state.differences)
        a_step, b_step = steps_of_parting(self._a, self._b, state)
        return msgspec.structs.replace(found, a_step=a_step, b_step=b_step)

    def _made(
        self, kind: Parting, text: str, a: int | None, b: int | None, found: tuple[Difference, ...]
    ) -> FirstDivergence:
        (a_seq, a_step), (b_seq, b_step) = self._a.where(a), self._b.where(b)
        old, new = (log.events[place] if place is not None else None for log, place in ((self._a, a), (self._b, b)))
        event = old if old is not None else new
        return FirstDivergence(
            kind=kind,
            text=text,
            event=str(event.__struct_config__.tag) if event is not None else "",
            name=name_of(event) if event is not None else "",
            a_seq=a_seq,
            b_seq=b_seq,
            a_step=a_step,
            b_step=b_step,
            a_text=whole_line_of(old) if old is not None else "",
            b_text=whole_line_of(new) if new is not None else "",
            differences=found,
        )


def _moment_of(state: StateParting) -> _Moment:
    """When the second run came to have another state; after what it did on its own, where that was before."""
    point = state.point
    if point.late:
        return (point.b - 1, 1, 1, 0)
    return (state.b, 0, 0, 0) if state.b > point.b_from else (point.b_from, 1, 1, 0)


def _state_text(found: tuple[Difference, ...]) -> str:
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return f"state ({found[0].path}{more})"


def _parting(row: Row, event: AnyEvent) -> tuple[Parting, str]:
    """What a row that differs is called."""
    if row.kind is EntryKind.MOVED:
        return Parting.ORDER, f"order of {_called(event)}"
    if row.kind is not EntryKind.CHANGED:
        kind = Parting.EXTRA if row.kind is EntryKind.INSERTED else Parting.MISSING
        return kind, f"{kind} {'call of ' if isinstance(event, Call) else ''}{_called(event)}"
    if isinstance(event, LlmCall):
        if row.arguments:
            return Parting.INPUT, f"input of {event.name}"
        return Parting.MODEL_ANSWER, f"answer of {event.name}"
    if isinstance(event, Call):
        if row.arguments:
            return Parting.TOOL_ARGUMENTS, f"arguments of {event.name}"
        return Parting.TOOL_RESULT, f"{'answer' if isinstance(event, Exchange) else 'tool result'} of {event.name}"
    if isinstance(event, ErrorEvent):
        return Parting.OUTCOME, "error"
    role = event.role if isinstance(event, Message) else "assistant"
    return _ROLES.get(role, Parting.MODEL_ANSWER), _called(event)


def _called(event: AnyEvent) -> str:
    if isinstance(event, Message):
        return f"{event.role} message"
    return "decision" if isinstance(event, Decision) else name_of(event)
