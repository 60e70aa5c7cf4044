"""States: reconstruct the state of a run at any of its events from its log.

A fold starts at a complete state, which may be far back. An open store therefore caches the packs that states were
loaded from, and the state before each of them, as the start for the next load nearby. The cache cannot go stale:
committed packs never change, and run numbers are never reused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import msgspec

from replaykit.errors import CorruptStore, StateNotKept, StoreError
from replaykit.model.changes import StateFold
from replaykit.model.events import Shared, State, StoredEvent
from replaykit.model.run import RunHeader
from replaykit.model.values import Json

if TYPE_CHECKING:
    from replaykit.store.sqlite import SQLiteStore

T = TypeVar("T")
E = TypeVar("E", State, Shared)
_PACKS_BYTES = 8 * 1024 * 1024
_FOLDS_BYTES = 32 * 1024 * 1024
_WITH_VALUES = 3  # a state in memory, text plus parsed values, relative to the size of its text


class EventStretch(NamedTuple):
    """The states in a pack or in the unfolded tail."""

    key: int
    """The key of the first event."""
    states: list[State]
    shared: list[Shared]
    """The events shared with a parent."""

    @classmethod
    def of(cls, key: int, events: list[StoredEvent]) -> EventStretch:
        """Select the states from events; `key` is that of the first event."""
        stretch = cls(key, [], [])
        for event in events:
            if isinstance(event, State):
                stretch.states.append(event)
            elif isinstance(event, Shared):
                stretch.shared.append(event)
        return stretch


class Recent(Generic[T]):
    """A least-recently-used cache by row key, limited in bytes."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._held: dict[int, tuple[T, int]] = {}  # least recently used first
        self._lock = threading.Lock()

    def get(self, key: int) -> T | None:
        """Return the cached value; None if there is none."""
        with self._lock:
            held = self._held.pop(key, None)
            if held is None:
                return None
            # Reinsert the entry: a dict keeps insertion order, which makes the first key the least recently used.
            self._held[key] = held
            return held[0]

    def put(self, key: int, value: T, size: int) -> None:
        """Cache a value of this size and evict others if necessary. A value above the limit is not cached."""
        if size > self._most_bytes:
            return
        with self._lock:
            self._bytes += size - self._held.pop(key, (None, 0))[1]
            self._held[key] = (value, size)
            while self._bytes > self._most_bytes:
                self._bytes -= self._held.pop(next(iter(self._held)))[1]


class Remembered:
    """The caches of one store."""

    def __init__(self) -> None:
        self.packs = Recent[EventStretch](_PACKS_BYTES)
        self.folds = Recent[StateFold](_FOLDS_BYTES)
        """Folded states, by the key of the following event."""


class StateReader:
    """Reads the states of the runs in a store."""

    def __init__(self, store: SQLiteStore, remembered: Remembered) -> None:
        self._store = store
        self._remembered = remembered

    def value(self, run_id: str, seq: int | None) -> Json:
        """Return the state after the last checkpoint at or before event `seq`; the latest if None."""
        return self._ask(run_id, seq, _value_of)

    def text(self, run_id: str, seq: int | None) -> bytes:
        """Return the same state as its stored JSON text."""
        return self._ask(run_id, seq, _text_of)

    def _ask(self, run_id: str, seq: int | None, question: Callable[[StateFold], T]) -> T:
        number, header = self._store.find(run_id)
        stretches = self._newest_first(number, seq)
        shared: list[Shared] = []  # the newest events shared with a parent
        for stretch in stretches:
            states = _until(seq, stretch.states)
            if states:
                return self._answer(header, stretch.key, states, stretches, question)
            shared = shared or _until(seq, stretch.shared)
        if shared and shared[-1].run != header.id:  # a fork without a state of its own has its parent's
            return self._ask(shared[-1].run, shared[-1].of, question)
        raise StoreError(f"run {header.id} holds no checkpoint" + ("" if seq is None else f" at or before event {seq}"))

    def _answer(
        self,
        header: RunHeader,
        key: int,
        states: list[State],
        older: Iterator[EventStretch],
        question: Callable[[StateFold], T],
    ) -> T:
        seq = states[-1].seq
        if not states[-1].is_kept:
            raise StateNotKept(f"run {header.id}: the state at event {seq} was not stored")
        try:
            changes, found = _since_whole(states)
            if found:
                fold = StateFold()
            else:
                fold = self._before(key, older, parsed=question is _value_of)
            for state in changes:
                fold.apply(state)
            return question(fold)
        except (ValueError, KeyError, TypeError, msgspec.MsgspecError) as error:
            where = f"run {header.id}, checkpoint {seq}"
            raise CorruptStore(f"the state cannot be reconstructed ({error})", where=where) from None

    def _before(self, key: int, older: Iterator[EventStretch], *, parsed: bool) -> StateFold:
        """Return the fold of everything before the stretch with this key."""
        known = self._remembered.folds.get(key)
        if known is not None:
            if parsed:
                known.parse()  # a second read here: more may follow, and copies share parsed values
            return known.copy()
        chain: list[list[State]] = []
        fold = StateFold()
        for stretch in older:
            changes, found = _since_whole(stretch.states)
            chain.append(changes)
            if found:
                break
            known = self._remembered.folds.get(stretch.key)
            if known is not None:
                fold = known.copy()
                break
        for changes in reversed(chain):
            for state in changes:
                fold.apply(state)
        if self._may_remember:
            self._remembered.folds.put(key, fold.copy(), _WITH_VALUES * fold.size)
        return fold

    def _newest_first(self, number: int, until: int | None) -> Iterator[EventStretch]:
        packs, tail = self._store.rows_of(number)
        if tail:
            yield EventStretch.of(tail[0][0], self._store.read_tail(tail))
        for key, count, first_seq in reversed(packs):
            if until is None or first_seq <= until:
                yield self._pack(key, count, first_seq)

    def _pack(self, key: int, count: int, first_seq: int) -> EventStretch:
        stretch = self._remembered.packs.get(key)
        if stretch is None:
            body = self._store.read_pack(key)
            stretch = EventStretch.of(key, self._store.events_of(body, key, count, first_seq))
            if self._may_remember:
                self._remembered.packs.put(key, stretch, len(body))
        return stretch

    @property
    def _may_remember(self) -> bool:
        """False inside a transaction: a rollback would free run numbers for reuse."""
        return not self._store.db.in_transaction


def _value_of(fold: StateFold) -> Json:
    return fold.value


def _text_of(fold: StateFold) -> bytes:
    return fold.text


def _until(seq: int | None, events: list[E]) -> list[E]:
    if seq is None:
        return events
    return [event for event in events if event.seq <= seq]


def _since_whole(states: list[State]) -> tuple[list[State], bool]:
    """Return the states from the last complete one on, and whether there is one."""
    for index in range(len(states) - 1, -1, -1):
        if states[index].change is None and states[index].is_kept:
            return states[index:], True
    return states, False
