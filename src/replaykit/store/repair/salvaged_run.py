"""One run of a damaged store: what can be reconstructed reliably, and what is lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from replaykit.errors import CorruptStore
from replaykit.model.events import Message, Shared, State, StoredEvent, decode_event
from replaykit.model.nesting import decode_json
from replaykit.model.run import RunHeader
from replaykit.model.text_splice import ArgumentsFold
from replaykit.model.values import ABSENT, raw
from replaykit.store import blobs
from replaykit.store.rows import decompress
from replaykit.store.sqlite import SQLiteStore

SALVAGED = "salvaged"
"""The tag of runs with losses."""


class SalvagedPiece(Struct, frozen=True, kw_only=True):
    """Consecutive events: either a single event, or the frame of a pack."""

    count: int
    body: bytes = b""
    frame: bytes = b""

    def texts(self) -> list[bytes]:
        """Return the texts of the events, or raise `ValueError` or `CorruptStore`."""
        if not self.frame:
            return [self.body]
        found = decode_json(decompress(self.frame, "a pack"), list[msgspec.Raw])
        if len(found) != self.count:
            raise ValueError("not as many events as the pack says")
        return [bytes(text) for text in found]


class Loss(Struct, frozen=True, kw_only=True):
    """Something of a run that is not in the new store."""

    run: str
    """The id of the run, or its number where the id is lost."""
    first: int | None = None
    """The places of the events in the run's log, counted from 0; none when it is not about events."""
    last: int | None = None
    """The place of the last such event."""
    what: str
    """What was lost."""

    def __str__(self) -> str:
        if self.first is None:
            return f"run {self.run}: {self.what}"
        if self.first == self.last:
            places = f"event {self.first}"
        else:
            places = f"events {self.first} to {self.last}"
        return f"run {self.run}, {places}: {self.what}"


class SavedEvents(Struct, frozen=True, kw_only=True):
    """A run as it is written to the new store."""

    header: RunHeader
    has_header: bool
    events: list[StoredEvent]
    whole: int
    """The number of events that really come from the run, without placeholders."""
    lost: list[Loss]


class SalvagedRun:
    """Reassembles a run from its pieces."""

    def __init__(self, header: RunHeader, flaw: str, texts: list[bytes | None]) -> None:
        self._header = header
        self._flaw = flaw
        self._texts = texts
        self._lost: list[Loss] = []
        self._arguments = ArgumentsFold()
        self._state_is_known = True

    @classmethod
    def of(cls, number: int, header: RunHeader, flaw: str, pieces: Mapping[int, SalvagedPiece]) -> SalvagedRun:
        end = max((at + piece.count for at, piece in pieces.items()), default=0)
        texts: list[bytes | None] = [None] * max(end, _promised(header))
        for at, piece in pieces.items():
            texts[at : at + piece.count] = piece.texts()
        return cls(header, flaw, texts)

    def put_together(self, store: SQLiteStore, seqs: Mapping[str, set[int]]) -> SavedEvents:
        """Return the events that can be reconstructed reliably.

        `store` holds the blobs, and `seqs` the events of earlier runs.
        """
        if self._flaw:
            self._lost.append(Loss(run=self._header.id, what=self._flaw))
        found = list(self._events(store, seqs))
        whole = [event for event in found if event is not None]
        events = _in_place(found) if _is_thread(whole) else whole
        header = self._header
        if self._lost:
            header = replace(header, tags=tuple(dict.fromkeys([*header.tags, SALVAGED])))
        if header.event_count is not None:
            header = replace(header, event_count=len(events))
        has_header = not self._flaw.startswith("the header is lost")
        return SavedEvents(header=header, has_header=has_header, events=events, whole=len(whole), lost=self._lost)

    def _events(self, store: SQLiteStore, seqs: Mapping[str, set[int]]) -> Iterator[StoredEvent | None]:
        """Yield one event for each position of the log; None for a lost one."""
        for place, text in enumerate(self._texts):
            if text is None:
                self._lose(place, "damaged")
                yield None
                continue
            try:
                event = self._event(store, text, seqs)
            except (ValueError, CorruptStore, msgspec.MsgspecError) as error:
                self._lose(place, error.reason if isinstance(error, CorruptStore) else str(error))
                event = None
            if isinstance(event, State) and not event.is_kept and b'"change"' in text:
                self._lost.append(self._loss(place, "the state builds on a lost one, and counts as not kept"))
            yield event

    def _event(self, store: SQLiteStore, text: bytes, seqs: Mapping[str, set[int]]) -> StoredEvent:
        event = decode_event(text)
        if blobs.marked(text):
            (event,) = blobs.internalise(store, [event], text)
        if isinstance(event, Shared):
            if event.of not in seqs.get(event.run, ()):
                raise ValueError(f"it was shared with event {event.of} of run {event.run}, which is lost")
            return event
        if isinstance(event, State):
            return self._state(event)
        return self._arguments.restore(event)

    def _state(self, event: State) -> State:
        """Return a state whose change can still be applied.

        After a loss, the state it is based on may be a different one.
        """
        if event.change is None:
            self._state_is_known |= event.is_kept
            return event
        if self._state_is_known:
            return event
        if event.about_json:  # a framework relies on the exact content of this state
            raise ValueError("the state builds on a lost one")
        return replace(event, change=None, state_json=ABSENT)

    def _lose(self, place: int, why: str) -> None:
        """Record a loss and forget what later events would build on."""
        self._arguments, self._state_is_known = ArgumentsFold(), False
        last = self._lost[-1] if self._lost else None
        if last is not None and last.last == place - 1 and last.what == why:
            self._lost[-1] = replace(last, last=place)
        else:
            self._lost.append(self._loss(place, why))

    def _loss(self, place: int, why: str) -> Loss:
        return Loss(run=self._header.id, first=place, last=place, what=why)


# A damaged header must not make salvage allocate a list of any length.
_MOST_PROMISED = 1 << 24


def _promised(header: RunHeader) -> int:
    """Return the number of events that the header claims."""
    return min(header.event_count or 0, _MOST_PROMISED)


def _is_thread(events: list[StoredEvent]) -> bool:
    """Return whether the run is a shared one, in which the position of an event is its sequence number."""
    return any(isinstance(event, State) and event.about_json for event in events)


def _in_place(found: list[StoredEvent | None]) -> list[StoredEvent]:
    return [
        Message(seq=place, role=SALVAGED, content_json=raw("An event was lost here.")) if event is None else event
        for place, event in enumerate(found)
    ]
