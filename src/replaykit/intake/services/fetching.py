"""Fetch traces from a service: some by id, or the newest that match a query."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from msgspec import Struct

from replaykit.errors import FetchFailed, ReplayKitError, UsageError
from replaykit.formats.core.registry import IMPORTERS, read_all
from replaykit.formats.core.run_query import DEFAULT_LIMIT, Status, iso
from replaykit.intake.entries import FAILURES, ImportRecord
from replaykit.intake.services.client import FetchedSource
from replaykit.intake.services.transport import Transport
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json

MAX_FAILURES = 3
"""The number of consecutive failures after which fetching stops."""
T = TypeVar("T")


class Query(Struct, frozen=True, kw_only=True):
    """A search for runs of a project."""

    project: str = ""
    """The service's name for a group of runs: a project or an experiment."""
    status: Status = Status.ERROR
    since: dt.datetime | None = None
    min_latency_ms: float = 0.0
    limit: int = DEFAULT_LIMIT

    @property
    def since_iso(self) -> str | None:
        """The start of the search as ISO 8601."""
        return None if self.since is None else iso(self.since)

    def fits(self, run: TraceRun) -> bool:
        """True for a matching run; services interpret the same query differently."""
        if self.since is not None and 0 < run.started_at < self.since.timestamp():
            return False
        if self.min_latency_ms and (run.duration_s or 0.0) * 1000 < self.min_latency_ms:
            return False
        failed = run.status in FAILURES
        if self.status is Status.WARNING:
            return not failed and any(call.error for call in run.calls)
        return self.status is Status.ALL or failed


class ListedTrace(Struct, frozen=True, kw_only=True):
    """A trace in a service's list."""

    id: str
    is_running: bool = False


class FetchedTrace(Struct, frozen=True, kw_only=True):
    """A trace in the form that its importer reads."""

    document: Json
    notes: tuple[str, ...] = ()


class TraceApi(Protocol):
    """The API of one service."""

    @property
    def name(self) -> str:
        """The name of the service and of its format."""

    def listed(self, query: Query) -> Iterator[ListedTrace]:
        """Yield candidates for the query, newest first; they may repeat, or lack an id."""

    def trace(self, trace_id: str, project: str) -> FetchedTrace:
        """Fetch one trace; raise `UsageError` if the service does not have it."""


class RunService(Protocol):
    """A service to fetch runs from."""

    def fetch(self, run_id: str, project: str = "") -> Iterable[ImportRecord]:
        """Fetch the run of an id, or the runs of a trace."""

    def runs(self, query: Query) -> Iterator[ImportRecord]:
        """Yield the newest matching runs, up to the limit."""


class Service:
    """A service for the length of one command; its time limit starts with the first request."""

    def __init__(self, api: TraceApi, transport: Transport) -> None:
        self._api = api
        self._transport = transport

    def fetch(self, run_id: str, project: str = "") -> list[ImportRecord]:
        """Fetch the runs of a trace. A trace that cannot be fetched is an error, one that cannot be read a record."""
        return self._records(run_id, self._api.trace(run_id, project))

    def runs(self, query: Query) -> Iterator[ImportRecord]:
        """Yield the newest matching runs, up to the limit."""
        candidates = _unique(self._api.listed(query))
        return newest(candidates, lambda listed: self._fetch_listed(listed, query), query, self._transport)

    def _fetch_listed(self, listed: ListedTrace, query: Query) -> list[ImportRecord]:
        if listed.is_running:
            return [self._passed_over(listed.id)]
        try:
            records = self.fetch(listed.id, query.project)
        except ReplayKitError as error:
            return [ImportRecord(origin=self._api.name, id=listed.id, problem=str(error))]
        running: list[ImportRecord] = []
        ended: list[ImportRecord] = []
        for record in records:
            if record.run is not None and record.run.status is RunStatus.RUNNING:
                running.append(self._passed_over(record.id))
            elif record.run is None or query.fits(record.run):
                ended.append(record)
        return running + ended

    def _passed_over(self, run_id: str) -> ImportRecord:
        return ImportRecord(origin=self._api.name, notes=(f"run {run_id} has not ended: passed over",))

    def _records(self, trace_id: str, fetched: FetchedTrace) -> list[ImportRecord]:
        name = self._api.name
        try:
            imported = read_all(IMPORTERS.get(name), FetchedSource(fetched.document, f"{name} {trace_id}"))
        except ReplayKitError as error:
            return [ImportRecord(origin=name, id=trace_id, problem=str(error), notes=fetched.notes)]
        notes = (*fetched.notes, *imported.notes)
        good = [ImportRecord(origin=name, id=run.id, run=run, notes=notes) for run in imported.runs]
        return good + [ImportRecord(origin=name, id=trace_id, problem=problem) for problem in imported.left_out]


def newest(
    candidates: Iterable[T], fetch: Callable[[T], list[ImportRecord]], query: Query, transport: Transport
) -> Iterator[ImportRecord]:
    """Yield the fetched records, up to the limit; give up after several failures in a row."""
    taken = failed = 0
    for listed in candidates:
        if taken >= query.limit:
            yield ImportRecord(origin="", notes=(f"there are more than {query.limit} such runs: raise the limit",))
            return
        records = fetch(listed)
        yield from records
        problem = next((record.problem for record in records if record.problem), "")
        arrived = [record for record in records if record.run is not None or record.problem]
        taken += len(arrived)
        if problem:
            failed += 1
        elif arrived:
            failed = 0
        if transport.is_over or failed == MAX_FAILURES:
            project = f" of {query.project!r}" if query.project else ""
            raise FetchFailed(f"the import{project} was stopped", hint=problem or None)


def fetch_by_id(service: RunService, run_ids: Iterable[str], project: str, origin: str) -> Iterator[ImportRecord]:
    """Yield runs by id; one of several that cannot be fetched gives a record with the error."""
    ids = list(dict.fromkeys(run_ids))
    for run_id in ids:
        try:
            yield from service.fetch(run_id, project)
        except UsageError as error:
            if len(ids) == 1:
                raise
            yield ImportRecord(origin=origin, id=run_id, problem=str(error))


def _unique(listed: Iterable[ListedTrace]) -> Iterator[ListedTrace]:
    seen: set[str] = set()
    for trace in listed:
        if trace.id and trace.id not in seen:
            seen.add(trace.id)
            yield trace
