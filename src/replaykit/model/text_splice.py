"""Cuts: a text as another one with its middle replaced.

An agent sends a model mostly what it sent before, and a little more. `ArgumentsFold` writes large arguments as a cut of
those of the last call of the same kind and name, so that a log of growing conversations stays linear.
"""

from __future__ import annotations

from msgspec.structs import replace

from replaykit.model.events import AnyEvent, Call, Cut, StoredEvent
from replaykit.model.values import NULL, Raw


def common_prefix(a: bytes, b: bytes) -> int:
    """Return the length of the common prefix, by bisection: C compares long stretches fast."""
    low, high = 0, min(len(a), len(b))
    view = memoryview(a)
    while low < high:
        middle = (low + high + 1) // 2
        if b.startswith(view[low:middle], low):
            low = middle
        else:
            high = middle - 1
    return low


_SMALL = 256  # a shorter text is written whole: a cut would save nothing
_LARGE = 2048  # arguments from this size on are remembered


def cut(old: bytes, new: bytes) -> Cut | None:
    """Return the change from the old text to the new; None if it would not save half of it."""
    if len(new) < _SMALL:
        return None
    start = common_prefix(old, new)
    tail = common_prefix(old[start:][::-1], new[start:][::-1])
    while tail and new[len(new) - tail] & 0xC0 == 0x80:
        tail -= 1  # never cut inside a character: the text between must decode
    while start and start < len(new) and new[start] & 0xC0 == 0x80:
        start -= 1
    middle = new[start : len(new) - tail]
    if len(middle) <= len(new) // 2:
        return (start, tail, middle.decode())
    return None


def paste(old: bytes, piece: Cut) -> bytes:
    """Apply a cut to the old text; raise ValueError if it does not fit."""
    start, tail, middle = piece
    if not 0 <= start <= len(old) - tail or tail < 0:
        raise ValueError("a cut that does not fit what it was taken from")
    return old[:start] + middle.encode() + old[len(old) - tail :]


class ArgumentsFold:
    """The large arguments of the last calls, by kind and name, in the order they were written."""

    def __init__(self) -> None:
        self._last: dict[tuple[type, str], bytes] = {}

    def shorten(self, event: StoredEvent) -> StoredEvent:
        """Return the event as it is written, its arguments as a cut if that is shorter. Does not remember it."""
        if not isinstance(event, Call) or len(event.arguments_json) < _LARGE:
            return event
        old = self._last.get((type(event), event.name))
        like = cut(old, bytes(event.arguments_json)) if old is not None else None
        if like is None:
            return event
        return replace(event, arguments_json=NULL, like=like)

    def remember(self, event: StoredEvent) -> None:
        """Remember an event that was written; the next may be a cut of it."""
        if isinstance(event, Call) and len(event.arguments_json) >= _LARGE:
            self._last[type(event), event.name] = bytes(event.arguments_json)

    def restore(self, event: AnyEvent) -> AnyEvent:
        """Restore the whole arguments of an event; raise ValueError if the call that they are a cut of is missing."""
        if not isinstance(event, Call):
            return event
        if event.like is not None:
            old = self._last.get((type(event), event.name))
            if old is None:
                raise ValueError("arguments like those of a call that is not there")
            event = replace(event, arguments_json=Raw(paste(old, event.like)), like=None)
        if len(event.arguments_json) >= _LARGE:
            self.remember(event)
        return event
