"""One import: records into the store, and as session files and cases where that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from replaykit.config import default_store_path
from replaykit.errors import FetchFailed, UsageError
from replaykit.formats.core.registry import shorten_notes
from replaykit.intake.cases import Cases
from replaykit.intake.entries import FAILURES, ImportEntry, ImportRecord, ImportResult, RunFilter, choose, entry_of
from replaykit.intake.session_files import is_file_name, keep_session, session_file, text_of
from replaykit.intake.store_import import DryRun, StoreResult, store_run
from replaykit.model.run import TraceRun
from replaykit.model.text_lines import first_few
from replaykit.store.open import open_store
from replaykit.store.protocol import Store

_NO_FAILURE = "no run failed, so no case was made; of a run that only looks well: replaykit scaffold RUN"
_SHOWN_SUSPECTS = 5


class ImportTarget(Struct, frozen=True, kw_only=True):
    """The destination of an import's runs."""

    store: Path | None = None
    output: Path | None = None
    """A directory of sessions, or one session file; none are written without."""
    contract: str = ""
    cases: Path | None = None
    """A directory of cases, one for each failed run; none are written without."""
    allow_incomplete: bool = False
    """Make cases of runs, too, of which no tool call can be replayed."""
    force: bool = False
    dry_run: bool = False


def import_records(
    records: Iterable[ImportRecord],
    into: ImportTarget,
    on_entry: Callable[[], None] = lambda: None,
    *,
    run_filter: RunFilter | None = None,
) -> ImportResult:
    """Bring the records in, those that are wanted, one after another; one that is wrong stops no other."""
    entries: list[ImportEntry] = []
    notes: dict[str, None] = {}
    if run_filter is not None:
        records = choose(records, run_filter)
    waiting = iter(records)
    first = list(islice(waiting, 1))  # before a store is made: there may be nothing to bring in
    cases = None
    if into.cases is not None:
        cases = Cases(into.cases, into.dry_run, allow_incomplete=into.allow_incomplete)
    with _store(into) as store:
        keep: Callable[[TraceRun], StoreResult] = partial(store_run, store)
        if into.dry_run:
            keep = DryRun(store).store_run
        for record in _until_it_fails(chain(first, waiting), entries):
            notes.update(dict.fromkeys(record.notes))
            if record.run is not None or record.problem:
                _refuse_several(into, entries)
                entries.append(_entry(record, into, keep, cases))
                on_entry()
    if cases is not None:
        if any(entry.run for entry in entries) and not any(entry.status in FAILURES for entry in entries):
            notes[_NO_FAILURE] = None
        if cases.suspects:
            notes[_suspects_text(cases.suspects)] = None
    return ImportResult(dry_run=into.dry_run, entries=tuple(entries), notes=shorten_notes(list(notes)))


def _suspects_text(runs: list[str]) -> str:
    """Name runs that call themselves a success, and may not be one."""
    shown = first_few(runs, _SHOWN_SUSPECTS)
    return f"looks wrong in spite of its success: {shown}; to make a case of it: replaykit scaffold RUN"


def _refuse_several(into: ImportTarget, entries: list[ImportEntry]) -> None:
    """One file holds one session."""
    if into.output is not None and is_file_name(into.output) and any(entry.session for entry in entries):
        raise UsageError(f"there are several runs, and {into.output} is one file", hint="Name a directory: -o replays/")


def _until_it_fails(records: Iterable[ImportRecord], entries: list[ImportEntry]) -> Iterator[ImportRecord]:
    """The records; where the service fails after some of them, that is the last one."""
    try:
        yield from records
    except FetchFailed as error:
        if not entries:
            raise
        yield ImportRecord(origin="", problem=str(error))


@contextmanager
def _store(into: ImportTarget) -> Iterator[Store | None]:
    """The store; where nothing is to be written, one that is not there is not made."""
    if into.dry_run and not (into.store or default_store_path()).exists():
        yield None
        return
    with open_store(into.store, read_only=into.dry_run) as store:
        yield store


def _entry(
    record: ImportRecord, into: ImportTarget, keep: Callable[[TraceRun], StoreResult], cases: Cases | None
) -> ImportEntry:
    entry, run = entry_of(record), record.run
    if run is None:
        return entry
    try:
        entry = replace(entry, result=keep(run).value)
    except UsageError as error:
        return replace(entry, problem=str(error))
    entry = _with_session(entry, run, into)
    if cases is None or entry.problem:
        return entry
    try:
        return replace(entry, case=cases.of(run))
    except UsageError as error:
        return replace(entry, problem=f"no case was made of it: {error}")


def _with_session(entry: ImportEntry, run: TraceRun, into: ImportTarget) -> ImportEntry:
    if into.output is None:
        return entry
    file = session_file(into.output, run)
    try:
        text = text_of(run, file, into.contract)
        if not into.dry_run:
            keep_session(file, text, force=into.force)
    except UsageError as error:
        return replace(entry, problem=str(error))
    return replace(entry, session=str(file))
