"""Summaries: describe a store's contents from headers and lengths, without decoding events."""

from __future__ import annotations

from itertools import chain

import msgspec
import zstandard
from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from replaykit.errors import CorruptStore
from replaykit.model.run import Origin, RunStatus
from replaykit.store.protocol import Damage
from replaykit.store.rows import read_header_as
from replaykit.store.run_locks import running_numbers
from replaykit.store.sqlite import SQLiteStore

_FRAME_HEAD = 20  # the byte for the kind of frame, plus the longest zstd frame header


class RunSummary(Struct, frozen=True, kw_only=True, gc=False):
    """A short description of a run, with the values that reveal whether it has changed."""

    id: str
    name: str = ""
    agent: str = ""
    status: RunStatus = RunStatus.RUNNING
    started_at: float = 0.0
    ended_at: float | None = None
    tags: tuple[str, ...] = ()
    origin: Origin = Origin()
    event_count: int | None = None

    number: int = field(default=0, name="$number")
    seal: bytes = field(default=b"", name="$seal")
    """The checksum of its header."""
    last_key: int | None = field(default=None, name="$last_key")
    """The key of the last event, for an unfinished run."""
    alive: bool = field(default=False, name="$alive")
    """True unless the run certainly has no writer."""


class RunSize(Struct, gc=False):
    """The size of a run in bytes, excluding blobs."""

    stored: int = 0
    raw: int = 0
    events: int = 0


class Contents(Struct, frozen=True, kw_only=True):
    """A summary of a store at one moment."""

    runs: list[RunSummary]
    sizes: dict[int, RunSize]
    """By run number."""
    blobs: dict[int, tuple[int, int]]
    """The stored and the original size in bytes, by blob number."""
    uses: list[tuple[int, int]]
    """Pairs of run number and blob number."""
    newest: int
    """The highest run number."""
    damage: list[Damage] = []
    """Unreadable headers, whose runs are unknown."""

    @property
    def stored_bytes(self) -> int:
        return sum(size.stored for size in self.sizes.values()) + sum(stored for stored, _ in self.blobs.values())

    @property
    def raw_bytes(self) -> int:
        return sum(size.raw for size in self.sizes.values()) + sum(raw for _, raw in self.blobs.values())


_decode = msgspec.json.Decoder(RunSummary).decode


def contents(store: SQLiteStore) -> Contents:
    """Return a summary of the store's contents."""
    with store.snapshot():
        rows = store.query("SELECT n, id, header FROM runs ORDER BY n")
        sizes = _sizes(store)
        runs, damage = _summaries(rows)
        for place, run in enumerate(runs):
            if run.status is RunStatus.RUNNING:
                runs[place] = replace(run, last_key=last_key(store, run.number))
                _add_logged(sizes, store, run)
        blobs = store.query(
            "SELECT n, length(data), size FROM blobs WHERE typeof(size) = 'integer' AND typeof(data) = 'blob'"
        )
        uses = store.query("SELECT run, blob FROM uses")
    for number, _, data in rows:
        size = sizes.setdefault(number, RunSize())
        size.stored += len(data)
        size.raw += len(data)
    return Contents(
        runs=_with_life(store, runs),
        sizes=sizes,
        blobs={number: (length, size) for number, length, size in blobs},
        uses=uses,
        newest=rows[-1][0] if rows else 0,
        damage=damage,
    )


def _summaries(rows: list[tuple[int, str, bytes]]) -> tuple[list[RunSummary], list[Damage]]:
    runs: list[RunSummary] = []
    damage: list[Damage] = []
    for number, run_id, data in rows:
        try:
            runs.append(_read(number, run_id, data))
        except CorruptStore as error:
            damage.append(Damage(where=error.where, what=error.reason))
    return runs, damage


def _with_life(store: SQLiteStore, runs: list[RunSummary]) -> list[RunSummary]:
    """Mark unfinished runs that have a writer. A run that ended since it was read had one, too."""
    running = {place: run for place, run in enumerate(runs) if run.status is RunStatus.RUNNING}
    written = running_numbers(store.path, [run.number for run in running.values()])
    for place, run in running.items():
        if written is None or run.number in written or _has_changed(store, run):
            runs[place] = replace(run, alive=True)
    return runs


def _has_changed(store: SQLiteStore, run: RunSummary) -> bool:
    return store.query("SELECT substr(header, 1, 4) FROM runs WHERE n = ?", run.number) != [(run.seal,)]


def last_event_at(store: SQLiteStore, number: int) -> float | None:
    """Return the start of a run's newest event; None if it has no events."""
    for _, batch in store.batches(number, newest_first=True):
        return max(event.at for event in batch)
    return None


def _read(number: int, run_id: str, data: bytes) -> RunSummary:
    run = read_header_as(_decode, number, run_id, data)
    # The struct is not shared yet, and copying each of many would double the time.
    force_setattr(run, "number", number)
    force_setattr(run, "seal", data[:4])
    return run


def last_key(store: SQLiteStore, number: int) -> int | None:
    """Return the key of a run's last row; None if it has no events."""
    packs, tail = store.rows_of(number)
    if tail:
        return tail[-1][0]
    if packs:
        return packs[-1][0]
    return None


def _sizes(store: SQLiteStore) -> dict[int, RunSize]:
    """Return the size of each run. SQLite reads lengths from row headers, without the data."""
    store.db.create_function("frame_size", 2, _frame_size, deterministic=True)
    packs = (
        "SELECT key >> 32, count, length(data), frame_size(substr(data, 5, ?), length(data) - 4)"
        " FROM packs WHERE typeof(data) = 'blob' AND typeof(count) = 'integer'"
    )
    tails = "SELECT key >> 32, 1, length(data), length(data) FROM events WHERE typeof(data) = 'blob'"
    sizes: dict[int, RunSize] = {}
    # Add up here, because GROUP BY would make SQLite sort first.
    for number, events, stored, raw in chain(store.query(packs, _FRAME_HEAD), store.query(tails)):
        size = sizes.get(number)
        if size is None:
            size = sizes[number] = RunSize()
        size.stored += stored
        size.raw += raw
        size.events += events
    return sizes


def _add_logged(sizes: dict[int, RunSize], store: SQLiteStore, run: RunSummary) -> None:
    """Add the logged events that are in no pack yet."""
    if not store.logs.rows(run.number, run.id):
        return
    _, tail = store.rows_of(run.number)
    size = sizes.setdefault(run.number, RunSize())
    for _, data in tail:
        size.stored += len(data)
        size.raw += len(data)
        size.events += 1


def _frame_size(head: bytes, length: int) -> int:
    """Return the unpacked size of a frame from its header, or `length` if the header lacks it."""
    if head[:1] != b"z":
        return length
    try:
        return max(0, zstandard.frame_content_size(head[1:]))
    except zstandard.ZstdError:
        return length
