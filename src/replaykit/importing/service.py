"""A service that keeps traces, asked by one command: for some by their ids, or for the newest that are wanted."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from msgspec import Struct

from replaykit.errors import FetchFailed, ReplayKitError, UsageError
from replaykit.importers.langsmith_wanted import DEFAULT_LIMIT, Status
from replaykit.importers.registry import IMPORTERS, read_all
from replaykit.importers.service import Fetched
from replaykit.importing.record import Record
from replaykit.importing.transport import Transport
from replaykit.importing.wanted import FAILURES
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json

MAX_FAILURES = 3
"""After so many traces in a row that could not be fetched, nobody goes on."""
T = TypeVar("T")


class Query(Struct, frozen=True, kw_only=True):
    """Which runs of a project are looked for."""

    project: str = ""
    """What the service keeps them under: a project, or an experiment."""
    status: Status = Status.ERROR
    since: dt.datetime | None = None
    min_latency_ms: float = 0.0
    limit: int = DEFAULT_LIMIT

    def fits(self, run: TraceRun) -> bool:
        """True for a run that was asked for, whatever the service makes of the question."""
        if self.since is not None and 0 < run.started_at < self.since.timestamp():
            return False
        if self.min_latency_ms and (run.duration_s or 0.0) * 1000 < self.min_latency_ms:
            return False
        failed = run.status in FAILURES
        if self.status is Status.WARNING:
            return not failed and any(call.error for call in run.calls)
        return self.status is Status.ALL or failed


class Listed(Struct, frozen=True, kw_only=True):
    """A trace that a service has."""

    id: str
    is_running: bool = False


class Given(Struct, frozen=True, kw_only=True):
    """What a service gives of one trace, in the shape that its importer reads."""

    document: Json
    notes: tuple[str, ...] = ()


class Api(Protocol):
    """What is asked of one service, in the words of its API."""

    @property
    def name(self) -> str:
        """Its name, which is also that of its format."""

    def listed(self, query: Query) -> Iterator[Listed]:
        """The traces among which the wanted ones are, the newest first, each once."""

    def trace(self, trace_id: str, project: str) -> Given:
        """One trace; a `UsageError` where the service has none of that id."""


class Keeper(Protocol):
    """Whoever keeps runs, and gives them."""

    def fetch(self, run_id: str, project: str = "") -> Iterable[Record]:
        """The run of an id, or the runs of a trace."""

    def runs(self, query: Query) -> Iterator[Record]:
        """The newest runs that are wanted, as many as the limit says."""


class Service:
    """A service, asked by one command: what it may take in all is counted from the first request."""

    def __init__(self, api: Api, transport: Transport) -> None:
        self._api = api
        self._transport = transport

    def fetch(self, run_id: str, project: str = "") -> list[Record]:
        """The runs of a trace. Where it cannot be had at all that is an error; what cannot be read is a record."""
        return self._records(run_id, self._api.trace(run_id, project))

    def runs(self, query: Query) -> Iterator[Record]:
        """The newest runs that are wanted, as many as the limit says."""
        return newest(self._api.listed(query), lambda one: self._wanted(one, query), query, self._transport)

    def _wanted(self, one: Listed, query: Query) -> list[Record]:
        if one.is_running:
            return [self._passed_over(one.id)]
        try:
            records = self.fetch(one.id, query.project)
        except ReplayKitError as error:
            return [Record(origin=self._api.name, id=one.id, problem=str(error))]
        running = [self._passed_over(record.id) for record in records if _is_running(record.run)]
        ended = [record for record in records if not _is_running(record.run)]
        return running + [record for record in ended if record.run is None or query.fits(record.run)]

    def _passed_over(self, run_id: str) -> Record:
        return Record(origin=self._api.name, notes=(f"run {run_id} has not ended: passed over",))

    def _records(self, trace_id: str, given: Given) -> list[Record]:
        name = self._api.name
        try:
            imported = read_all(IMPORTERS.get(name), Fetched(given.document, f"{name} {trace_id}"))
        except ReplayKitError as error:
            return [Record(origin=name, id=trace_id, problem=str(error), notes=given.notes)]
        notes = (*given.notes, *imported.notes)
        good = [Record(origin=name, id=run.id, run=run, notes=notes) for run in imported.runs]
        return good + [Record(origin=name, id=trace_id, problem=problem) for problem in imported.left_out]


def _is_running(run: TraceRun | None) -> bool:
    return run is not None and run.status is RunStatus.RUNNING


def newest(
    found: Iterable[T], fetch: Callable[[T], list[Record]], query: Query, transport: Transport
) -> Iterator[Record]:
    """What is fetched of what is found, as many as the limit says; given up where one after another fails."""
    taken = failed = 0
    for one in found:
        if taken >= query.limit:
            yield Record(origin="", notes=(f"there are more than {query.limit} such runs: raise the limit",))
            return
        records = fetch(one)
        yield from records
        problem = next((record.problem for record in records if record.problem), "")
        came = [record for record in records if record.run is not None or record.problem]
        taken += len(came)
        failed = failed + 1 if problem else 0 if came else failed
        if transport.is_over or failed == MAX_FAILURES:
            of = f" of {query.project!r}" if query.project else ""
            raise FetchFailed(f"the import{of} was given up", hint=problem or None)


def named(keeper: Keeper, run_ids: Iterable[str], project: str, origin: str) -> Iterator[Record]:
    """Runs by their ids; where one of several cannot be had, that is a record."""
    ids = list(dict.fromkeys(run_ids))
    for run_id in ids:
        try:
            yield from keeper.fetch(run_id, project)
        except UsageError as error:
            if len(ids) == 1:
                raise
            yield Record(origin=origin, id=run_id, problem=str(error))
