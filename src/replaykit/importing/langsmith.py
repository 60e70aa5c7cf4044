"""Runs from LangSmith: one by its id, or those of a project that are wanted, each with the runs below it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator

from replaykit.errors import ReplayKitError
from replaykit.importers.langsmith import read_runs
from replaykit.importers.langsmith.account import Account, account_of
from replaykit.importers.langsmith.api import LangSmithApi, Run
from replaykit.importers.langsmith_wanted import FAR_BACK, Status, Wanted, has_failed, is_running
from replaykit.importers.registry import some
from replaykit.importing.record import Record
from replaykit.importing.service import Query, newest
from replaykit.importing.transport import DEFAULT_TIMEOUT_S, Transport

ORIGIN = "langsmith"


class LangSmith:
    """LangSmith, asked by one command: what it may take in all is counted from the first request."""

    def __init__(
        self,
        account: Account | None = None,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        transport: Callable[[Account, float], Transport] = Transport,
    ) -> None:
        account = account_of() if account is None else account
        self._now = dt.datetime.now(dt.UTC)
        self._transport = transport(account, timeout_s)
        self._api = LangSmithApi(account, self._transport, self._now)

    def run(self, run_id: str, project: str | None = None) -> Record:
        """One run. Where it cannot be had at all that is an error; where it cannot be read, the record says so."""
        found = self._api.run(run_id, None if project is None else self._api.project_id(project))
        return self._read(found)

    def runs(self, query: Query) -> Iterator[Record]:
        """The newest runs that are wanted, as many as the limit says."""
        wanted = Wanted(
            project_id=self._api.project_id(query.project),
            status=query.status,
            since=query.since or self._now - FAR_BACK,
            min_latency_ms=query.min_latency_ms,
            limit=query.limit,
        )
        return newest(self._api.roots(wanted), lambda root: self._fetched(root, wanted), query, self._transport)

    def fetch(self, run_id: str, project: str = "") -> list[Record]:
        """The run of an id, as the one record there is of it."""
        return [self.run(run_id, project or None)]

    def _fetched(self, root: Run, wanted: Wanted) -> list[Record]:
        """The run of a root; nothing of one that turns out not to be wanted."""
        if is_running(root):
            return [Record(origin=ORIGIN, notes=(f"run {root['id']} has not ended: passed over",))]
        try:
            runs = self._api.trace(root)
        except ReplayKitError as error:
            return [Record(origin=ORIGIN, id=root["id"], problem=str(error))]
        if wanted.status is Status.WARNING and not any(map(has_failed, runs)):
            return []
        return [self._filled(root["id"], runs)]

    def _read(self, run: Run) -> Record:
        return self._filled(run["id"], self._api.trace(run))

    def _filled(self, run_id: str, runs: list[Run]) -> Record:
        said = some([note for run in runs for note in self._api.fill_in(run)])
        try:
            imported = read_runs(list(runs), f"{ORIGIN} {run_id}")
        except ReplayKitError as error:
            return Record(origin=ORIGIN, id=run_id, problem=str(error), notes=said)
        found = next((run for run in imported.runs if run.id == run_id), None)
        notes = (*said, *imported.remarks)
        if found is None:
            problem = "; ".join(imported.left_out) or f"{ORIGIN} {run_id}: the run is not in its own trace"
            return Record(origin=ORIGIN, id=run_id, problem=problem, notes=said)
        return Record(origin=ORIGIN, id=run_id, run=found, notes=notes)
