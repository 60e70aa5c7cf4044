"""What a recorded program did past the recording: told by notes in its log, since a replay cannot serve it."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec
from msgspec import Struct

from replaykit.model.events import AnyEvent, Note
from replaykit.model.values import Raw, raw

UNRECORDED = "replaykit.unrecorded"
"""The name of notes that say what was done past the recording."""
PYTHON = "python"
SHOWN = 20
"""How many lines are shown; the rest is counted."""


class Kind(StrEnum):
    """What was not recorded."""

    CONNECTION = "connection"
    DATAGRAM = "datagram"
    WEBSOCKET = "websocket"
    CALL = "call"  # of a tool, by somebody whose run is not known
    FURTHER = "further"  # places beyond those that are noted one by one


class Effect(StrEnum):
    """What a replay does about it."""

    STOPS = "stops"  # it stops the program there
    UNSERVED = "unserved"  # it neither serves nor stops it
    REFUSED = "refused"  # the recording refused it as well


_WHAT = {
    Kind.CONNECTION: "a connection to {}",
    Kind.DATAGRAM: "a datagram to {}",
    Kind.WEBSOCKET: "a websocket to {}",
    Kind.CALL: "a call of `{}`",
}
_EFFECTS = {
    Effect.STOPS: "the replay will stop there",
    Effect.UNSERVED: "a replay will not serve it",
    Effect.REFUSED: "the proxy refused it",
}


class Unrecorded(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that was done past the recording, as often as it was seen."""

    kind: Kind
    place: str = ""
    """The host and port, or the path of a socket; of a call, the tool."""
    address: str = ""
    """The place as an IP address and a port, where `place` has a name."""
    program: str = PYTHON
    where: str = ""
    """The line of the program that did it, or else who did."""
    count: int = 1
    effect: Effect = Effect.STOPS

    @property
    def key(self) -> tuple[str, str, str]:
        """What is the same in all that are told in one line."""
        return self.kind, self.place, self.program

    @property
    def text(self) -> str:
        """The sentence about it."""
        if self.kind is Kind.FURTHER:
            return f"not recorded: connections to {self.count} more places; {_EFFECTS[self.effect]}"
        times = "" if self.count == 1 else f"{self.count} times"
        who = (
            self.where if self.program == PYTHON and self.where else " ".join(filter(None, (self.program, self.where)))
        )
        about = ", ".join(filter(None, (who, times)))
        return f"not recorded: {_WHAT[self.kind].format(self.place)} ({about}); {_EFFECTS[self.effect]}"

    @property
    def content(self) -> Raw:
        """The content of the note about it."""
        return raw({**msgspec.to_builtins(self), "text": self.text})


def unrecorded_in(event: AnyEvent) -> Unrecorded | None:
    """Return what a note says of it; None for any other event."""
    if not isinstance(event, Note) or event.name != UNRECORDED:
        return None
    try:
        return msgspec.convert(event.content, Unrecorded)
    except msgspec.ValidationError:
        return None  # of a newer version, or written by hand


def all_unrecorded(events: Iterable[AnyEvent]) -> list[Unrecorded]:
    """What was not recorded, each thing once with all its times."""
    found: dict[tuple[str, str, str], Unrecorded] = {}
    for event in events:
        one = unrecorded_in(event)
        if one is None:
            continue
        before = found.get(one.key)
        found[one.key] = one if before is None else more_often(before, one.count)
    return list(found.values())


def more_often(one: Unrecorded, count: int) -> Unrecorded:
    """The same, so many times more."""
    return msgspec.structs.replace(one, count=one.count + count)


def unrecorded_lines(found: Iterable[Unrecorded], shown: int = SHOWN) -> list[str]:
    """One sentence each for those that are shown, and one for how many there are beside them."""
    every = list(found)
    named = [one for one in every if one.kind is not Kind.FURTHER]
    left_off = len(named[shown:]) + sum(one.count for one in every if one.kind is Kind.FURTHER)
    lines = [one.text for one in named[:shown]]
    return [*lines, f"and {left_off} more"] if left_off else lines
