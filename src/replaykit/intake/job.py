"""One import: read the runs of files, store them, and write session files and cases if requested."""

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
# Suffixes of trace files; other files in a directory are skipped unless they begin like JSON.
_TRACES = (".json", ".jsonl", ".ndjson", ".traj", ".eval", ".har", ".pb")
_NAMED = 5


def read_files(paths: Iterable[Path], format: str | None = None) -> Iterator[ImportRecord]:
    """Yield the runs in these files, and in all files below these directories; a broken file gives one record."""
    if format is not None:
        importer_named(format)
    for path in paths:
        if str(path) != STDIN and path.is_dir():
            yield from _below(path, format)
        else:
            yield from _read(path, format)


def _below(directory: Path, format: str | None) -> Iterator[ImportRecord]:
    files = list(_walk(directory))
    if not files:
        raise NothingSelected(f"{directory} holds no file")
    strangers: list[str] = []
    for file in files:
        if format is None and _is_stranger(file):
            strangers.append(str(file.relative_to(directory)))
        else:
            yield from _read(file, format)
    if strangers:
        skipped = f"{len(strangers)} files that are not traces" if len(strangers) > 1 else "1 file that is not a trace"
        names = ", ".join(strangers[:_NAMED])
        if len(strangers) > _NAMED:
            names += " …"
        yield ImportRecord(origin=str(directory), notes=(f"{directory}: passed over {skipped}: {names}",))


def _walk(directory: Path) -> Iterator[Path]:
    """Yield the regular files of a directory tree by name, without hidden ones."""
    for above, inner, names in os.walk(directory):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        files = (Path(above) / name for name in sorted(names) if not name.startswith("."))
        yield from (file for file in files if file.is_file())


def _is_stranger(file: Path) -> bool:
    """True for a file that cannot be a trace, such as a page of text or an image."""
    name = Path(file.stem) if file.suffix.lower() in _PACKED else file
    if name.suffix.lower() in _TRACES:
        return False
    try:
        source = read_source(file)
        return source.head.lstrip()[:1] not in (b"{", b"[") and recognise(source) is None
    except InvalidFile:
        return False  # reading the file reports the error


def _read(file: Path, format: str | None) -> Iterator[ImportRecord]:
    """Yield the records of a file; a file without runs gives a note, not an error."""
    notes: list[str] = []
    empty = True
    for record in _records(file, format):
        if empty and record.notes:
            notes += record.notes  # held back until it is clear whether the file holds a run
            continue
        if empty and notes:
            yield ImportRecord(origin=record.origin, notes=tuple(notes))
        empty = False
        yield record
    if empty:
        why = "; ".join(notes[:_NAMED])
        yield ImportRecord(origin=str(file), notes=(f"{file}: holds no run" + (f": {why}" if why else ""),))


def _records(file: Path, format: str | None) -> Iterator[ImportRecord]:
    origin = str(file)
    try:
        for item in find_runs(read_source(file), format):
            if isinstance(item, TraceRun):
                yield ImportRecord(origin=origin, id=item.id, run=item)
            elif isinstance(item, str):
                yield ImportRecord(origin=origin, notes=(item,))
            else:
                yield ImportRecord(origin=origin, problem=str(item))
    except ReplayKitError as error:
        yield ImportRecord(origin=origin, problem=str(error))


_NO_FAILURE = "no run failed, so no case was made; for a run that only looks successful: replaykit scaffold RUN"
_SHOWN_SUSPECTS = 5


class ImportTarget(Struct, frozen=True, kw_only=True):
    """The destination of imported runs."""

    store: Path | None = None
    output: Path | None = None
    """A directory of sessions, or one session file; without it, no sessions are written."""
    contract: str = ""
    cases: Path | None = None
    """A directory of cases, one for each kind of failure; without it, no cases are written."""
    allow_incomplete: bool = False
    """Also turn runs into cases if none of their tool calls can be replayed."""
    force: bool = False
    dry_run: bool = False


def import_records(
    records: Iterable[ImportRecord],
    into: ImportTarget,
    on_entry: Callable[[], None] = lambda: None,
    *,
    run_filter: RunFilter | None = None,
) -> ImportResult:
    """Import the records that the filter selects, one by one; a broken one does not stop the others."""
    entries: list[ImportEntry] = []
    notes: dict[str, None] = {}
    if run_filter is not None:
        records = choose(records, run_filter)
    waiting = iter(records)
    first = list(islice(waiting, 1))  # fetched before the store is opened, since fetching may fail
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
    """Return a note about runs with status `success` that seem to have failed."""
    shown = first_few(runs, _SHOWN_SUSPECTS)
    return f"succeeded, but looks wrong: {shown}; to make a case from it: replaykit scaffold RUN"


def _refuse_several(into: ImportTarget, entries: list[ImportEntry]) -> None:
    """Raise an error for a second session in one file."""
    if into.output is not None and is_file_name(into.output) and any(entry.session for entry in entries):
        raise UsageError(f"there are several runs, and {into.output} is one file", hint="Name a directory: -o replays/")


def _until_it_fails(records: Iterable[ImportRecord], entries: list[ImportEntry]) -> Iterator[ImportRecord]:
    """Yield the records; a service that fails midway gives a last record with the error."""
    try:
        yield from records
    except FetchFailed as error:
        if not entries:
            raise
        yield ImportRecord(origin="", problem=str(error))


@contextmanager
def _store(into: ImportTarget) -> Iterator[Store | None]:
    """Open the store; a dry run does not create a missing one."""
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
