"""Runs from LangSmith: one by id, or the newest of a project that match, each with its child runs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator

from replaykit.errors import ReplayKitError
from replaykit.formats.core.registry import shorten_notes
from replaykit.formats.core.run_query import FAR_BACK, Status
from replaykit.formats.langsmith import read_runs
from replaykit.intake.entries import ImportRecord
from replaykit.intake.services.fetching import Query, newest
from replaykit.intake.services.langsmith_api import (
    LangSmithAccount,
    LangSmithApi,
    LangSmithQuery,
    Run,
    account_of,
    has_failed,
    is_running,
)
from replaykit.intake.services.transport import DEFAULT_TIMEOUT_S, Transport

ORIGIN = "langsmith"


class LangSmith:
    """LangSmith for the length of one command; its time limit starts with the first request."""

    def __init__(
        self,
        account: LangSmithAccount | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        transport: Callable[[LangSmithAccount, float], Transport] = Transport,
    ) -> None:
        account = account_of() if account is None else account
        self._now = dt.datetime.now(dt.UTC)
        self._transport = transport(account, timeout_s)
        self._api = LangSmithApi(account, self._transport, self._now)

    def run(self, run_id: str, project: str | None = None) -> ImportRecord:
        """Fetch one run. A run that cannot be fetched is an error, one that cannot be read a record."""
        project_id = None if project is None else self._api.project_id(project)
        root = self._api.run(run_id, project_id)
        return self._filled(root["id"], self._api.trace(root))

    def runs(self, query: Query) -> Iterator[ImportRecord]:
        """Yield the newest matching runs, up to the limit."""
        query_body = LangSmithQuery(
            project_id=self._api.project_id(query.project),
            status=query.status,
            since=query.since or self._now - FAR_BACK,
            min_latency_ms=query.min_latency_ms,
            limit=query.limit,
        )
        return newest(self._api.roots(query_body), lambda root: self._fetched(root, query_body), query, self._transport)

    def fetch(self, run_id: str, project: str = "") -> list[ImportRecord]:
        """Fetch the run of an id, as the only record."""
        return [self.run(run_id, project or None)]

    def _fetched(self, root: Run, query_body: LangSmithQuery) -> list[ImportRecord]:
        """Fetch the run of a root; empty if its trace does not match."""
        if is_running(root):
            return [ImportRecord(origin=ORIGIN, notes=(f"run {root['id']} has not ended: passed over",))]
        try:
            runs = self._api.trace(root)
        except ReplayKitError as error:
            return [ImportRecord(origin=ORIGIN, id=root["id"], problem=str(error))]
        if query_body.status is Status.WARNING and not any(map(has_failed, runs)):
            return []
        return [self._filled(root["id"], runs)]

    def _filled(self, run_id: str, runs: list[Run]) -> ImportRecord:
        notes_of_payloads = shorten_notes([note for run in runs for note in self._api.fill_in(run)])
        try:
            imported = read_runs(list(runs), f"{ORIGIN} {run_id}")
        except ReplayKitError as error:
            return ImportRecord(origin=ORIGIN, id=run_id, problem=str(error), notes=notes_of_payloads)
        run = next((run for run in imported.runs if run.id == run_id), None)
        notes = (*notes_of_payloads, *imported.remarks)
        if run is None:
            problem = "; ".join(imported.left_out) or f"{ORIGIN} {run_id}: the run is not in its own trace"
            return ImportRecord(origin=ORIGIN, id=run_id, problem=problem, notes=notes_of_payloads)
        return ImportRecord(origin=ORIGIN, id=run_id, run=run, notes=notes)
