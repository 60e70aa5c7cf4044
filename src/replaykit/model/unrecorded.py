"""Actions of a program that could not be recorded, as noted in its log. A replay cannot serve them."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec
from msgspec import Struct

from replaykit.model.events import AnyEvent, Note
from replaykit.model.values import Raw, raw

UNRECORDED = "replaykit.unrecorded"
"""The name of the notes about unrecorded actions."""
PYTHON = "python"
SHOWN = 20
"""The number of lines to show; the rest is counted."""


class UnrecordedKind(StrEnum):
    """The kinds of unrecorded actions."""

    CONNECTION = "connection"
    DATAGRAM = "datagram"
    WEBSOCKET = "websocket"
    CALL = "call"  # of a tool, without a known run
    FURTHER = "further"  # places beyond those that are noted one by one


class UnrecordedEffect(StrEnum):
    """The effect on a replay."""

    STOPS = "stops"  # the replay stops the program there
    UNSERVED = "unserved"  # the replay neither serves nor stops it
    REFUSED = "refused"  # the recording refused it as well


_WHAT = {
    UnrecordedKind.CONNECTION: "a connection to {}",
    UnrecordedKind.DATAGRAM: "a datagram to {}",
    UnrecordedKind.WEBSOCKET: "a websocket to {}",
    UnrecordedKind.CALL: "a call of `{}`",
}
_EFFECTS = {
    UnrecordedEffect.STOPS: "the replay will stop there",
    UnrecordedEffect.UNSERVED: "a replay will not serve it",
    UnrecordedEffect.REFUSED: "the proxy refused it",
}


class Unrecorded(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An unrecorded action, and how often it happened."""

    kind: UnrecordedKind
    place: str = ""
    """The host and port, or the path of a socket; for a call, the tool."""
    address: str = ""
    """The place as an IP address and port, if `place` is a name."""
    program: str = PYTHON
    where: str = ""
    """The line of the program that did it, or else who did it."""
    count: int = 1
    effect: UnrecordedEffect = UnrecordedEffect.STOPS

    @property
    def key(self) -> tuple[str, str, str]:
        """The members that all actions reported in one line share."""
        return self.kind, self.place, self.program

    @property
    def text(self) -> str:
        """The sentence about it."""
        if self.kind is UnrecordedKind.FURTHER:
            return f"not recorded: connections to {self.count} more places; {_EFFECTS[self.effect]}"
        times = "" if self.count == 1 else f"{self.count} times"
        if self.program == PYTHON and self.where:
            actor = self.where
        else:
            actor = " ".join(filter(None, (self.program, self.where)))
        details = ", ".join(filter(None, (actor, times)))
        return f"not recorded: {_WHAT[self.kind].format(self.place)} ({details}); {_EFFECTS[self.effect]}"

    @property
    def content(self) -> Raw:
        """The content of the note about it."""
        return raw({**msgspec.to_builtins(self), "text": self.text})


def unrecorded_in(event: AnyEvent) -> Unrecorded | None:
    """Return the unrecorded action of a note; None for any other event."""
    if not isinstance(event, Note) or event.name != UNRECORDED:
        return None
    try:
        return msgspec.convert(event.content, Unrecorded)
    except msgspec.ValidationError:
        return None  # written by a newer version, or by hand


def all_unrecorded(events: Iterable[AnyEvent]) -> list[Unrecorded]:
    """Return the unrecorded actions, each once with its total count."""
    actions: dict[tuple[str, str, str], Unrecorded] = {}
    for event in events:
        action = unrecorded_in(event)
        if action is None:
            continue
        before = actions.get(action.key)
        actions[action.key] = action if before is None else with_count_added(before, action.count)
    return list(actions.values())


def with_count_added(action: Unrecorded, count: int) -> Unrecorded:
    """Return the action with a higher count."""
    return msgspec.structs.replace(action, count=action.count + count)


def unrecorded_lines(actions: Iterable[Unrecorded]) -> list[str]:
    """Return one sentence for each of the first actions, and one that counts the rest."""
    lines: list[str] = []
    left_off = 0
    for action in actions:
        if action.kind is UnrecordedKind.FURTHER:
            left_off += action.count
        elif len(lines) < SHOWN:
            lines.append(action.text)
        else:
            left_off += 1
    if left_off:
        lines.append(f"and {left_off} more")
    return lines
