"""One import: records into the store, and as session files where that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from replaykit.config import default_store_path
from replaykit.errors import FetchFailed, UsageError
from replaykit.importing.landing import land
from replaykit.importing.record import Record
from replaykit.importing.sessions import is_file_name, keep_session, session_file, text_of
from replaykit.store.opening import opened
from replaykit.store.protocol import Store

FAILED = "failed"


class Into(Struct, frozen=True, kw_only=True):
    """Where the runs of an import go."""

    store: Path | None = None
    output: Path | None = None
    """A directory of sessions, or one session file; none are written without."""
    contract: str = ""
    force: bool = False
    dry_run: bool = False


class Entry(Struct, frozen=True, kw_only=True):
    """What became of one run."""

    run: str
    origin: str
    result: str
    """imported, updated, unchanged or failed."""
    name: str = ""
    status: str = ""
    started_at: float = 0.0
    tool_calls: int = 0
    session: str = ""
    """The file of its session."""
    problem: str = ""


class ImportResult(Struct, frozen=True, kw_only=True):
    """What became of all of them."""

    replaykit: int = 1
    dry_run: bool = False
    entries: tuple[Entry, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def failed(self) -> list[Entry]:
        """Those that did not come in, or of which no session could be made."""
        return [entry for entry in self.entries if entry.problem]

    @property
    def sessions(self) -> list[Path]:
        """The session files, each once."""
        return [Path(name) for name in dict.fromkeys(entry.session for entry in self.entries if entry.session)]


def import_records(records: Iterable[Record], into: Into, on_entry: Callable[[], None] = lambda: None) -> ImportResult:
    """Bring the records in, one after another; one that is wrong stops no other."""
    entries: list[Entry] = []
    notes: list[str] = []
    waiting = iter(records)
    first = list(islice(waiting, 1))  # before a store is made: there may be nothing to bring in
    with _store(into) as store:
        for record in _until_it_fails(chain(first, waiting), entries):
            notes += record.notes
            if record.run is not None or record.problem:
                _refuse_several(into, entries)
                entries.append(_entry(record, into, store))
                on_entry()
    return ImportResult(dry_run=into.dry_run, entries=tuple(entries), notes=tuple(dict.fromkeys(notes)))


def _refuse_several(into: Into, entries: list[Entry]) -> None:
    """One file holds one session."""
    if into.output is not None and is_file_name(into.output) and any(entry.session for entry in entries):
        raise UsageError(f"there are several runs, and {into.output} is one file", hint="Name a directory: -o replays/")


def _until_it_fails(records: Iterable[Record], entries: list[Entry]) -> Iterator[Record]:
    """The records; where the service fails after some of them, that is the last one."""
    try:
        yield from records
    except FetchFailed as error:
        if not entries:
            raise
        yield Record(origin="", problem=str(error))


@contextmanager
def _store(into: Into) -> Iterator[Store | None]:
    """The store; where nothing is to be written, one that is not there is not made."""
    if into.dry_run and not (default_store_path() if into.store is None else into.store).exists():
        yield None
        return
    with opened(into.store, read_only=into.dry_run) as store:
        yield store


def _entry(record: Record, into: Into, store: Store | None) -> Entry:
    run = record.run
    if run is None:
        return Entry(run=record.id, origin=record.origin, result=FAILED, problem=record.problem)
    entry = Entry(
        run=run.id,
        origin=record.origin,
        result=FAILED,
        name=run.name,
        status=run.status.value,
        started_at=run.started_at,
        tool_calls=len(run.tool_calls),
    )
    file = None if into.output is None else session_file(into.output, run)
    try:
        entry = replace(entry, result=land(store, run, dry_run=into.dry_run))
        if file is not None:
            text = text_of(run, file, into.contract)
            if not into.dry_run:
                keep_session(file, text, force=into.force)
    except UsageError as error:
        return replace(entry, problem=str(error))
    return replace(entry, session="" if file is None else str(file))
