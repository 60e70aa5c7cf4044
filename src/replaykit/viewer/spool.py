"""The spool: the rows and pages of one opened run, in private files without names.

A run is read once, by whoever asks first. Each event becomes one line of two files: its row, in batches, and its page.
A row stream is then a copy of one file, an event one seek in the other, and a search one pass over it. Memory holds
two numbers for each event. The files vanish with the process.
"""

from __future__ import annotations

import os
import tempfile
import threading
import weakref
from array import array
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import IO

import msgspec

from replaykit.errors import ReplayKitError, StateNotKept, StoreError, UsageError
from replaykit.model.events import AnyEvent
from replaykit.model.values import ABSENT, Raw, sayable
from replaykit.viewer.events import EventPages
from replaykit.viewer.page_types import EventPage, Row, RowBatch, RunPage, StatePage
from replaykit.viewer.sources import RunSource
from replaykit.viewer.totals import RunTotals

_FIRST_EVENTS = 256
"""Events of the first batch: it is on screen before the second one is built."""
_MORE_EVENTS = 1024
_BATCH_BYTES = 1 << 22
_READ_BYTES = 1 << 18
_NEAR = 64

_encode = msgspec.json.Encoder().encode
_decode_page = msgspec.json.Decoder(EventPage).decode


class RunSpool:
    """One opened run. Its methods may be called from any thread."""

    def __init__(self, source: RunSource, address: str, agent: str = "") -> None:
        self.address = address
        self.source = source
        self._agent = agent
        self._lock = threading.Lock()
        self._rows = SpoolFile()
        self._pages = SpoolFile()
        self._builder = EventPages(source.header.started_at)
        self._totals = RunTotals(source.header)
        self._unread: Iterator[AnyEvent] = iter(())
        self._may_grow = True
        self._finished: RunPage | None = None
        self._problem: ReplayKitError | None = None
        self._seqs = array("q")
        self._borders = array("q", [0])
        """Where the page of each event ends, and before them where the first begins."""
        self._state_seqs = array("q")

    def page(self) -> RunPage:
        """Return the run without its events; with totals once all were read."""
        with self._lock:
            if self._finished is not None:
                return self._finished
            is_running = self.source.is_running()
            header = self.source.header
            return RunPage(address=self.address, header=header, is_running=is_running, agent=self._agent)

    def is_stale(self) -> bool:
        """Return whether the run was complete and is another one now."""
        return self._finished is not None and self.source.has_changed()

    def rows(self, offset: int) -> tuple[bytes, bool]:
        """Return some more bytes of the row stream from an offset, and whether they are its last.

        No bytes that are not the last mean that the run is still being recorded, and has nothing new.
        """
        with self._lock:
            if offset >= self._rows.size and self._problem is None:
                with suppress(ReplayKitError):  # the last line of the stream says so
                    self._advance()
            is_complete = self._finished is not None or self._problem is not None
        data = self._rows.read(offset, _READ_BYTES)
        return data, is_complete and offset + len(data) == self._rows.size

    def event_json(self, seq: int) -> bytes:
        """Return the page of an event as JSON; raise `UsageError` if the run has no such event."""
        return self._page_at(self._place(seq))

    def event(self, seq: int) -> EventPage:
        """Return the page of an event."""
        return _decode_page(self.event_json(seq))

    def events_json(self) -> Iterator[bytes]:
        """Yield the pages of all events as JSON, in the order of the run."""
        self._read_all()
        for place in sorted(range(len(self._seqs)), key=self._seqs.__getitem__):
            yield self._page_at(place)

    def row_batches(self) -> Iterator[bytes]:
        """Yield the lines of the row stream."""
        self._read_all()
        offset, rest, is_last = 0, b"", False
        while not is_last:
            data, is_last = self.rows(offset)
            offset += len(data)
            *lines, rest = (rest + data).split(b"\n")
            yield from lines
            is_last = is_last or not data

    def seqs(self) -> list[int]:
        """Return the sequence numbers of all events, in order."""
        self._read_all()
        return sorted(self._seqs)

    def state_seqs(self) -> list[int]:
        """Return the sequence numbers of all checkpoints, in order."""
        self._read_all()
        return sorted(self._state_seqs)

    def finished_page(self) -> RunPage:
        """Read the rest of the run and return its page with totals, as they are now."""
        self._read_all()
        with self._lock:
            return self._finished or self._totals.page(
                self.address, self.source.header, is_running=True, agent=self._agent
            )

    def state(self, seq: int) -> StatePage:
        """Return the state that holds at an event, and the one before it."""
        self._read_all()
        earlier = sorted(found for found in self._state_seqs if found <= seq)
        if not earlier:
            return StatePage(seq=seq, missing="The run has no checkpoint at or before this event.")
        step = self.event(earlier[-1]).row.step
        try:
            state = Raw(self.source.state_json(earlier[-1]))
        except (StateNotKept, StoreError) as error:
            return StatePage(seq=earlier[-1], step=step, missing=str(error))
        before = ABSENT
        if len(earlier) > 1:
            try:
                before = Raw(self.source.state_json(earlier[-2]))
            except StateNotKept as error:
                return StatePage(seq=earlier[-1], step=step, state=state, missing=f"Before it: {error}")
        return StatePage(seq=earlier[-1], step=step, state=state, before=before)

    def _page_at(self, place: int) -> bytes:
        start = self._borders[place]
        return self._pages.read(start, self._borders[place + 1] - start)

    def _place(self, seq: int) -> int:
        has_more = True
        while has_more:
            # Events are nearly in the order of their numbers: a call is written when it ends.
            first = max(0, seq - _NEAR)
            for start, seqs in ((first, self._seqs[first : seq + _NEAR]), (0, self._seqs)):
                with suppress(ValueError):
                    return start + seqs.index(seq)
            with self._lock:
                has_more = self._advance()
        raise UsageError(f"the run has no event {seq}")

    def _read_all(self) -> None:
        """Read everything that was written so far."""
        has_more = True
        while has_more:
            with self._lock:
                has_more = self._advance()

    def _advance(self) -> bool:
        """Read the next events; return whether there were any."""
        if self._finished is not None:
            return False
        if self._problem is not None:
            raise self._problem
        self._problem = StoreError(
            "reading this run failed"
        )  # unless it ends well: a part is never taken for the whole
        try:
            has_more = self._read_batch()
        except Exception as error:  # the events come from anybody, and the page waits for the end of the stream
            self._problem = error if isinstance(error, ReplayKitError) else _unshowable(error)
            self._rows.append(_line(RowBatch(problem=sayable(str(self._problem)))))
            raise self._problem from error
        self._problem = None
        return has_more

    def _read_batch(self) -> bool:
        batch = self._next_batch()
        if not batch.rows and self._may_grow:
            self._may_grow = self.source.is_running()  # asked before reading: what it writes last is read, too
            self._unread = self.source.read()
            batch = self._next_batch()
        if batch.rows:
            self._keep(batch)
        elif not self._may_grow:
            self._finished = self._totals.page(self.address, self.source.header, is_running=False, agent=self._agent)
            self._rows.append(_line(RowBatch(page=self._finished)))
        return bool(batch.rows)

    def _next_batch(self) -> _SpoolBatch:
        """Return the next unread events, as pages: so many, or as many bytes."""
        batch = _SpoolBatch()
        size_bytes = 0
        for event in islice(self._unread, _MORE_EVENTS if self._seqs else _FIRST_EVENTS):
            page = self._builder.page(event)
            self._totals.add(event, page.row, self.source.header.error)
            line = _line(page)
            batch.rows.append(page.row)
            batch.lines.append(line)
            size_bytes += len(line)
            if size_bytes > _BATCH_BYTES:
                break
        return batch

    def _keep(self, batch: _SpoolBatch) -> None:
        self._pages.append(b"".join(batch.lines))
        for row, line in zip(batch.rows, batch.lines, strict=True):
            self._borders.append(self._borders[-1] + len(line))
            if row.kind == "state":
                self._state_seqs.append(row.seq)
            self._seqs.append(row.seq)  # last: whoever finds the event can read its page
        self._rows.append(_line(RowBatch(rows=tuple(batch.rows))))


class _SpoolBatch:
    """Events that are about to be written: their rows, and their pages as lines."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.lines: list[bytes] = []


class SpoolFile:
    """An append-only file without a name, which the system removes when it is closed."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (open as long as the spool)
        weakref.finalize(self, self._file.close)
        self.size = 0

    def append(self, data: bytes) -> None:
        """Append data."""
        written = 0
        try:
            while written < len(data):
                written += os.pwrite(self._file.fileno(), data[written:], self.size + written)
        except OSError as error:
            raise StoreError(f"the viewer's temporary file cannot be written: {error.strerror}") from None
        self.size += len(data)

    def read(self, offset: int, size: int) -> bytes:
        """Return up to `size` bytes that were appended."""
        return os.pread(self._file.fileno(), min(size, self.size - offset), offset)


def _unshowable(error: Exception) -> StoreError:
    return StoreError(f"an event cannot be shown ({type(error).__name__}: {error})")


def _line(value: object) -> bytes:
    text = _encode(value)
    if b"\n" in text:  # between the tokens of a value that comes from an indented file
        text = msgspec.json.format(text, indent=-1)
    return text + b"\n"
