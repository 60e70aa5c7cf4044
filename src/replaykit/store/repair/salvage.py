"""Salvage: copy every intact event of a damaged store to a new one. The damaged store is only read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
from msgspec import Struct

from replaykit.errors import CorruptStore, StoreError, UsageError
from replaykit.model.run import RunHeader
from replaykit.store import blobs
from replaykit.store.backup import new_file_beside, sync
from replaykit.store.event_log import LogName, StoreLogs, salvaged_rows
from replaykit.store.image import BASE, Image
from replaykit.store.repair.cells import Cell, cells
from replaykit.store.repair.salvaged_run import Loss, SalvagedPiece, SalvagedRun
from replaykit.store.repair.trees import NamedRun, named_runs
from replaykit.store.rows import checksum, read_header, unseal, unseal_event
from replaykit.store.sqlite import SQLiteStore
from replaykit.store.writer import add_stored

_Rank = tuple[bool, int]  # whether it is reachable from the root, and its version
_INDEX = 0xFFFFFFFF


class Salvaged(Struct, frozen=True, kw_only=True):
    """The saved runs and events, and the losses."""

    replaykit: int = 1
    """Version of this form."""
    store: str
    """The new one."""
    runs: int
    """The number of runs that were saved."""
    events: int
    """The number of events that were saved."""
    lost: tuple[Loss, ...]
    """Everything that could not be saved."""


def salvage(source: Path, target: Path) -> Salvaged:
    """Read everything that is left of a store and write it to a new one. The target must not exist."""
    if target.exists():
        raise UsageError(f"{target} already exists", hint="Name another file: --out FILE")
    if not source.is_file():
        raise StoreError(f"there is no store at {source}")
    if not target.parent.is_dir():
        raise UsageError(f"there is no directory {target.parent}")
    found = max((_Found.of(source, size) for size in Image.likely_sizes(source)), key=lambda found: found.weight)
    with new_file_beside(target) as partial:
        with SQLiteStore.open(partial) as store:
            salvaged = _write(store, found, target)
            # Only the main file is moved into place, so it must contain everything.
            store.query("PRAGMA wal_checkpoint(TRUNCATE)")
        sync(partial)
        os.replace(partial, target)
        sync(target.parent)
    return salvaged


class _Found:
    """All rows of a damaged store whose checksums match."""

    def __init__(self, named: NamedRun) -> None:
        self.named = named
        self.headers: dict[int, tuple[_Rank, RunHeader]] = {}
        self.pieces: dict[int, dict[int, SalvagedPiece]] = {}  # by run number and position of the first event
        self.blobs: dict[bytes, tuple[int, bytes]] = {}  # by hash: size and frame

    @classmethod
    def of(cls, source: Path, page_size: int) -> _Found:
        with closing(Image(source, page_size)) as image:
            found = cls(named_runs(image))
            for number, version, data in image.versions():
                for cell in cells(image, number, version, data):
                    found._take(cell, image)
        found._take_logs(StoreLogs(source))
        return found

    def _take_logs(self, logs: StoreLogs) -> None:
        """Collect the intact events of the logs. A log whose name does not match the id of its run is skipped."""
        for name in logs.names():
            run_id = self.named.ids.get(name.number)
            if run_id is not None and LogName.of(name.number, run_id) != name:
                continue
            for key, data in salvaged_rows(logs.bytes_of(name)):
                try:
                    self._piece(key, SalvagedPiece(count=1, body=unseal_event(key, data, "")))
                except CorruptStore:
                    continue

    @property
    def weight(self) -> int:
        return len(self.headers) + sum(map(len, self.pieces.values())) + len(self.blobs)

    def _take(self, cell: Cell, image: Image) -> None:
        """Collect a row if it is intact and belongs to a known table."""
        try:
            match cell.columns:
                case (None, bytes(data)):
                    self._piece(cell.key, SalvagedPiece(count=1, body=unseal_event(cell.key, data, "")))
                case (None, int(count), int(first), int(crc), bytes(data)) if crc == checksum(cell.key, count, first):
                    piece = SalvagedPiece(count=count, frame=unseal(cell.key, data, ""))
                    piece.texts()
                    self._piece(cell.key, piece)
                case (None, bytes(address), int(size), bytes(data)):
                    blobs.check("", address, size, data)
                    self.blobs[address] = (size, data)
                case (None, str(run_id), str(), str(), _, bytes(data)):
                    self._header(cell, read_header(cell.key, run_id, data), image)
        except (CorruptStore, msgspec.MsgspecError, ValueError):
            pass

    def _piece(self, key: int, piece: SalvagedPiece) -> None:
        pieces = self.pieces.setdefault(key >> 32, {})
        at = key & _INDEX
        if at not in pieces or pieces[at].count < piece.count:  # a folded tail exists both as rows and as a pack
            pieces[at] = piece

    def _header(self, cell: Cell, header: RunHeader, image: Image) -> None:
        frames = image.frames.get(cell.page, [])
        current = cell.version == (frames[-1] if frames else BASE)
        rank = (current and cell.page in self.named.pages, cell.version)
        if cell.key not in self.headers or self.headers[cell.key][0] < rank:
            self.headers[cell.key] = (rank, header)

    def runs(self) -> Iterator[SalvagedRun]:
        """Yield the remaining runs in the order they began, so parents come before their forks."""
        numbers = self.headers.keys() | self.pieces.keys() | self.named.numbers
        for number in sorted(numbers):
            if number in self.named.numbers or not self.named.sure:
                yield SalvagedRun.of(number, *self._header_of(number), self.pieces.get(number, {}))

    def _header_of(self, number: int) -> tuple[RunHeader, str]:
        """Return the header and a description of its damage."""
        if number in self.headers:
            (reached, _), header = self.headers[number]
            gone = bool(self.named.pages) and not reached
            return header, "the header is damaged; an older one is in its place" if gone else ""
        name, started = self.named.names.get(number, ("", 0.0))
        header = RunHeader(id=self.named.ids.get(number, f"salvaged-{number}"), name=name, started_at=started)
        return header, "the header is lost: input, output, status and tags"


def _write(store: SQLiteStore, found: _Found, target: Path) -> Salvaged:
    """Write blobs and runs. Blobs come first, because events are reassembled from the new store."""
    _write_blobs(store, found.blobs)
    lost: list[Loss] = []
    seqs: dict[str, set[int]] = {}
    events = runs = 0
    for run in found.runs():
        saved = run.put_together(store, seqs)
        lost += saved.lost
        if saved.events or saved.has_header:
            with store.transaction() as db:
                add_stored(db, saved.header, saved.events)
            seqs[saved.header.id] = {event.seq for event in saved.events}
            events += saved.whole
            runs += 1
    with store.transaction() as db:
        db.execute("DELETE FROM blobs WHERE n NOT IN (SELECT blob FROM uses)")
    return Salvaged(store=str(target), runs=runs, events=events, lost=tuple(lost))


def _write_blobs(store: SQLiteStore, frames: dict[bytes, tuple[int, bytes]]) -> None:
    with store.transaction() as db:
        rows = ((address, size, data) for address, (size, data) in frames.items())
        db.executemany("INSERT INTO blobs (hash, size, data) VALUES (?, ?, ?)", rows)
