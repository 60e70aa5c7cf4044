"""One import: the runs of files, and records into the store, as session files and cases where that is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from replaykit.config import default_store_path
from replaykit.errors import FetchFailed, InvalidFile, NothingSelected, ReplayKitError, UsageError
from replaykit.formats.core.registry import shorten_notes
from replaykit.formats.core.source import STDIN, read_source
from replaykit.formats.files import find_runs, importer_named, recognise
from replaykit.intake.cases import Cases
from replaykit.intake.entries import FAILURES, ImportEntry, ImportRecord, ImportResult, RunFilter, choose, entry_of
from replaykit.intake.session_files import is_file_name, keep_session, session_file, text_of
from replaykit.intake.store_import import DryRun, StoreResult, store_run
from replaykit.model.run import TraceRun
from replaykit.model.text_lines import first_few
from replaykit.store.open import open_store
from replaykit.store.protocol import Store

_PACKED = (".gz", ".zst")
_TRACES = (".json", ".jsonl", ".ndjson", ".traj", ".eval", ".har", ".pb")
"""Suffixes of trace files. In a directory, other files are skipped unless they begin like JSON."""
_NAMED = 5


def read_files(paths: Iterable[Path], format: str | None = None) -> Iterator[ImportRecord]:
    """The runs in these files, and in all below these directories; a file that is wrong is one record."""
    if format is not None:
        importer_named(format)
    for path in paths:
        if str(path) != STDIN and path.is_dir():
            yield from _below(path, format)
        else:
            yield from _read(path, format)


def _below(directory: Path, format: str | None) -> Iterator[ImportRecord]:
    found = list(_walk(directory))
    if not found:
        raise NothingSelected(f"{directory} holds no file")
    strangers: list[str] = []
    for file in found:
        if format is None and _is_stranger(file):
            strangers.append(str(file.relative_to(directory)))
        else:
            yield from _read(file, format)
    if strangers:
        files = "1 file that is no trace"
        if len(strangers) > 1:
            files = f"{len(strangers)} files that are no traces"
        names = ", ".join(strangers[:_NAMED])
        if len(strangers) > _NAMED:
            names += " …"
        yield ImportRecord(origin=str(directory), notes=(f"{directory}: passed over {files}: {names}",))


def _walk(directory: Path) -> Iterator[Path]:
    """The regular files from here on, but for hidden ones, by name."""
    for above, inner, names in os.walk(directory):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        files = (Path(above) / name for name in sorted(names) if not name.startswith("."))
        yield from (file for file in files if file.is_file())


def _is_stranger(file: Path) -> bool:
    """True for a file that nobody would take for a trace: a page of text, an image."""
    name = file
    if file.suffix.lower() in _PACKED:
        name = Path(file.stem)
    if name.suffix.lower() in _TRACES:
        return False
    try:
        source = read_source(file)
        return source.head.lstrip()[:1] not in (b"{", b"[") and recognise(source) is None
    except InvalidFile:
        return False  # whoever reads it says why


def _read(file: Path, format: str | None) -> Iterator[ImportRecord]:
    """Return the records of a file; one without a run is a note, and no error."""
    notes: list[str] = []
    empty = True
    for record in _found(file, format):
        if empty and record.notes:
            notes += record.notes  # held until it is known what of
            continue
        if empty and notes:
            yield ImportRecord(origin=record.origin, notes=tuple(notes))
        empty = False
        yield record
    if empty:
        why = "; ".join(notes[:_NAMED])
        yield ImportRecord(origin=str(file), notes=(f"{file}: holds no run" + (f": {why}" if why else ""),))


def _found(file: Path, format: str | None) -> Iterator[ImportRecord]:
    origin = str(file)
    try:
        for found in find_runs(read_source(file), format):
            if isinstance(found, TraceRun):
                yield ImportRecord(origin=origin, id=found.id, run=found)
            elif isinstance(found, str):
                yield ImportRecord(origin=origin, notes=(found,))
            else:
                yield ImportRecord(origin=origin, problem=str(found))
    except ReplayKitError as error:
        yield ImportRecord(origin=origin, problem=str(error))


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
