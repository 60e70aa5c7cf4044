"""The sources of a configuration: fetch their runs as sessions, each time or once."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from replaykit.cases.find import SessionFile, Unusable, find_files
from replaykit.cases.run_session import write_session
from replaykit.cases.session import Session, load_session
from replaykit.errors import FetchFailed, InvalidFile, ReplayKitError, StoreError, UsageError
from replaykit.formats.core.run_query import age_of
from replaykit.intake.entries import FAILED, ImportEntry, ImportRecord, ImportResult
from replaykit.intake.job import ImportTarget, import_records
from replaykit.intake.session_files import FETCHED, contract_of_imports, session_file, text_of
from replaykit.intake.source_subjects import OnFetched, nobody
from replaykit.project.project import Project
from replaykit.project.sources import SessionSource

if TYPE_CHECKING:
    from replaykit.intake.services.fetching import RunService


class SourceFailed(ReplayKitError):
    """A source of a configuration, or one of its runs, could not be fetched or used."""

    def __init__(self, message: str, error: ReplayKitError, *, file: Path, line: int | None) -> None:
        where = f"{file}:{line}" if line else str(file)
        super().__init__(f"{where}: {message}", hint=error.hint)
        self.exit_code = error.exit_code
        self.file = str(file)
        self.line = line


class SourceSessions(Struct, frozen=True, kw_only=True):
    """The sessions of sources, stand-ins for failed ones, and notices."""

    sessions: tuple[Session | Unusable, ...] = ()
    notices: tuple[str, ...] = ()


def sessions_of(project: Project, on_fetched: OnFetched = nobody) -> SourceSessions:
    """Return the sessions of all sources; a source that fails is an unusable session, and does not stop the others."""
    sessions: list[Session | Unusable] = []
    notices: list[str] = []
    services = OpenServices()
    for index, source in enumerate(project.sources):
        directory = project.directory / source.home / source.place
        try:
            if not source.auto_import and directory.exists():
                sessions += _stored_sessions(directory)
                continue
            records = []
            for record in fetch(services.of(source), source):
                records.append(record)
                on_fetched()
            fetched = _FetchedSource(project, index, records)
            sessions += fetched.sessions()
            notices += fetched.notices()
        except ReplayKitError as error:
            sessions.append(_failed(project, index, error))
    return SourceSessions(sessions=tuple(sessions), notices=tuple(notices))


class OpenServices:
    """The services of a command's sources: each is opened once, so that its time limit covers all of its sources."""

    def __init__(self, timeout_s: float | None = None) -> None:
        self._timeout_s = timeout_s
        self._known: dict[str, RunService] = {}

    def of(self, source: SessionSource) -> RunService:
        """Return the service of a source; a `UsageError` names a missing variable."""
        from replaykit.intake.services import open_service  # noqa: PLC0415 (slow to import; few projects have sources)

        if source.service not in self._known:
            self._known[source.service] = open_service(source.service, self._timeout_s)
        return self._known[source.service]


def fetch(open_service: RunService, source: SessionSource) -> Iterator[ImportRecord]:
    """Yield the runs of a source."""
    from replaykit.intake.services.fetching import Query  # noqa: PLC0415 (as above)

    if source.run_id:
        yield from open_service.fetch(source.run_id, source.project)
        return
    query = Query(
        project=source.project,
        status=source.status,
        since=dt.datetime.now(dt.UTC) - age_of(source.date_range) if source.date_range else None,
        min_latency_ms=source.min_latency_ms,
        limit=source.limit,
    )
    yield from open_service.runs(query)


def contract_of(project: Project, source: SessionSource) -> str:
    """Return the contract of a source's sessions; raise `UsageError` if the choice is unclear."""
    contract = contract_of_imports(project, source.contract)
    if not contract:
        known = ", ".join(map(repr, project.contracts)) or "none is there yet"
        raise UsageError("which contract must its sessions keep?", hint=f"Add `contract: NAME` to it: {known}.")
    return contract


class _FetchedSource:
    """The records of one source, to be turned into session files."""

    def __init__(self, project: Project, index: int, records: list[ImportRecord]) -> None:
        self._project = project
        self._index = index
        self._source = project.sources[index]
        self._records = records

    def notices(self) -> Iterator[str]:
        notes = dict.fromkeys(note for record in self._records for note in record.notes)
        yield from (f"{self._source.label}: {note}" for note in notes)
        if not any(record.run is not None or record.problem for record in self._records):
            yield f"{self._source.label}: no run is of that kind"

    def sessions(self) -> Iterator[Session | Unusable]:
        """Yield the sessions. They are only kept if all runs are fine: a failed run would never be fetched again."""
        contract = contract_of(self._project, self._source)
        texts: dict[str, str] = {}
        failed: list[Unusable] = []
        for record in self._records:
            problem = record.problem
            if record.run is not None:
                file = session_file(Path(), record.run)
                try:
                    texts[file.name] = text_of(record.run, file, contract)
                except UsageError as error:
                    problem = str(error)
            if problem:
                failed.append(_failed(self._project, self._index, FetchFailed(problem), run_id=record.id))
        if self._source.run_id and len(texts) > 1:
            raise UsageError(f"the trace holds {len(texts)} runs, and a source of one trace is one session")
        yield from failed
        is_kept = not self._source.auto_import and not failed
        for file in _written(self._project.directory / self._source.home if is_kept else FETCHED, self._source, texts):
            yield from _read(file)


def _written(base: Path, source: SessionSource, texts: dict[str, str]) -> list[Path]:
    """Write the files of a source's sessions; a kept directory appears as a whole or not at all."""
    place = base / source.place
    if source.run_id:
        return [write_session(place, text) for text in texts.values()]
    if base == FETCHED or not texts:
        return [write_session(place / name, text) for name, text in texts.items()]
    aside = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        for name, text in texts.items():
            write_session(aside / name, text)
        os.rename(aside, place)
    except OSError as error:
        if not place.is_dir():  # otherwise another process was faster
            raise StoreError(f"{place} cannot be written: {error.strerror}") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return [place / name for name in texts if (place / name).exists()]


def _stored_sessions(place: Path) -> Iterator[Session | Unusable]:
    for item in find_files([place]).files:
        if isinstance(item, SessionFile):
            yield from _read(Path(item.document.file))
        elif isinstance(item, Unusable):
            yield item


def _read(file: Path) -> Iterator[Session | Unusable]:
    try:
        yield load_session(file)
    except InvalidFile as error:
        yield Unusable(id=file.stem, file=file, error=error)


def _failed(project: Project, index: int, error: ReplayKitError, run_id: str = "") -> Unusable:
    source = project.sources[index]
    try:
        line = project.document().line(("replays", "sources", index))
    except InvalidFile:
        line = None
    name = f"{source.label} {run_id}" if run_id and run_id != source.run_id else source.label
    failure = SourceFailed(f"{name}: {error.message}", error, file=project.file, line=line)
    return Unusable(id=name, file=project.file, error=failure, command=f"replaykit import sources -c {project.file}")


def import_sources(
    project: Project, into: ImportTarget, timeout_s: float, on_entry: Callable[[], None]
) -> ImportResult:
    """Import every source that is not fetched each time anyway; one that fails does not stop the others."""
    entries: list[ImportEntry] = []
    notes = [
        f"{source.label}: fetched each time, so nothing is kept of it"
        for source in project.sources
        if source.auto_import
    ]
    services = OpenServices(timeout_s)
    for source in project.sources:
        if source.auto_import:
            continue
        try:
            result = _import_source(project, source, services, into, on_entry)
        except ReplayKitError as error:
            problem = f"{source.label}: {error}"
            entries.append(ImportEntry(run="", origin=source.service, result=FAILED, problem=problem))
        else:
            entries += result.entries
            notes += result.notes or ([] if result.entries else [f"{source.label}: no run is of that kind"])
    return ImportResult(dry_run=into.dry_run, entries=tuple(entries), notes=tuple(dict.fromkeys(notes)))


def _import_source(
    project: Project, source: SessionSource, services: OpenServices, into: ImportTarget, on_entry: Callable[[], None]
) -> ImportResult:
    place = replace(into, output=project.directory / source.home / source.place, contract=contract_of(project, source))
    return import_records(fetch(services.of(source), source), place, on_entry)
