"""LangSmith's REST API: what is asked, page by page, and what its answers mean.

Both versions of the query are spoken: the second, and the first where a server does not know that. Sends nothing
itself: `send` does, and keeps to its limits of time and retries.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from itertools import chain
from urllib.parse import quote
from uuid import UUID

from replaykit.errors import FetchFailed, UsageError
from replaykit.importers import service
from replaykit.importers.langsmith.account import PAYLOAD_HOSTS, WORKSPACE, Account
from replaykit.importers.langsmith.collecting import ids_above
from replaykit.importers.langsmith_wanted import FAR_BACK, Wanted, iso, moment, page_of
from replaykit.importers.service import UNKNOWN, Client, Page, Reply, Request, Send
from replaykit.model.values import Json
from replaykit.terminal import visible

_SKEW = dt.timedelta(days=1)  # clocks of the machines that a trace runs on
_SHOWN_CHARS = 200
_PAYLOADS = ("inputs", "outputs")
_WHOLE = "ROOT"
"""Under this name a payload that is stored apart as a whole has its address."""


Run = dict[str, Json]


class LangSmithApi:
    """Asks one account for runs."""

    def __init__(self, account: Account, send: Send, now: dt.datetime) -> None:
        self._account = account
        self._client = Client(account, send)
        self._now = now
        self._version = 2

    def project_id(self, project: str) -> str:
        """The id of a project, by its name or its id."""
        try:
            return str(UUID(project))
        except ValueError:
            pass
        listed = self._client.json(self._client.get("/api/v1/sessions", name=project, limit=100))
        found = listed if isinstance(listed, list) else []
        ids = [one.get("id") for one in found if isinstance(one, dict) and one.get("name") == project]
        if not ids or not isinstance(ids[0], str):
            where = f"in the workspace that {WORKSPACE} names" if self._account.workspace else "that this key may see"
            raise UsageError(f"LangSmith has no project {project!r} {where}", hint="Projects are told apart by case.")
        return ids[0]

    def roots(self, wanted: Wanted) -> Iterator[Run]:
        """The roots that are wanted, newest first; as many as there are."""
        return (run for run in self._runs(wanted.body) if wanted.fits(run))

    def run(self, run_id: str, project_id: str | None = None) -> Run:
        """One run by its id. Only the first version finds it without its project."""
        reply = self._client.get(f"/api/v1/runs/{quote(run_id, safe='')}")
        if reply.status in (*UNKNOWN, 400, 422):  # what is no id at all is a bad request
            found = self._in_project(run_id, project_id) if project_id is not None else None
            if found is None:
                hint = "See its id in LangSmith, under the run's name."
                hint += "" if project_id else " Where the first version of the API is gone, name its project too."
                raise UsageError(f"LangSmith has no run {run_id!r}", hint=hint)
            return found
        value = self._client.json(reply)
        if not isinstance(value, dict) or not isinstance(value.get("id"), str):
            raise self._client.failed("gave something that is no run")
        return value

    def trace(self, run: Run) -> list[Run]:
        """The run and every run below it, with the inputs and outputs that are stored apart and may be fetched."""
        project = next((run[key] for key in ("session_id", "project_id") if isinstance(run.get(key), str)), None)
        trace = run.get("trace_id") if isinstance(run.get("trace_id"), str) else run["id"]
        began = moment(run.get("start_time"))
        since = iso((began or self._now) - (_SKEW if began else FAR_BACK))

        def body(version: int) -> dict[str, Json]:
            names = (("trace", "session", "start_time"), ("trace_id", "project_ids", "min_start_time"))[version - 1]
            said = dict(zip(names, (trace, None if project is None else [project], since), strict=True))
            return {key: value for key, value in said.items() if value is not None} | page_of(version)

        found = {run["id"]: run}
        for one in self._runs(body, limit_bytes=service.MAX_TRACE_BYTES):
            if one["id"] == run["id"] or run["id"] in ids_above(one):
                found[one["id"]] = one
        return list(found.values())

    def fill_in(self, run: Run) -> Iterator[str]:
        """Fetch what of the run is stored apart; gives in words what was not fetched, and why."""
        for name in _PAYLOADS:
            apart = run.get(f"{name}_s3_urls")
            if run.get(name) not in (None, {}) or not isinstance(apart, dict) or not apart:
                continue
            try:
                run[name] = self._payload(apart.get(_WHOLE))
                del run[f"{name}_s3_urls"]
            except FetchFailed as error:
                yield f"run {run['id']}: its {name} are stored apart, {error.message}"

    def _payload(self, place: Json) -> Json:
        url = place.get("presigned_url") if isinstance(place, dict) else None
        if not isinstance(url, str):
            raise FetchFailed("and no address is given")
        try:
            address = self._account.payload_url(url)
        except ValueError:
            raise FetchFailed("and the address that is given is none") from None
        host = visible(address.partition("://")[2].partition("/")[0].rpartition("@")[2])[:_SHOWN_CHARS]
        if not self._account.allows(address):
            raise FetchFailed(f"at {host}, which nobody has allowed: {PAYLOAD_HOSTS}={host}")
        reply = self._client.send(Request(method="GET", url=address, with_key=False))
        if reply.status != 200:
            raise FetchFailed(f"at {host}, which answered {reply.status}")
        return self._client.json(reply)

    def _in_project(self, run_id: str, project_id: str) -> Run | None:
        since = iso(self._now - FAR_BACK)

        def body(version: int) -> dict[str, Json]:
            names = (("id", "session", "start_time"), ("ids", "project_ids", "min_start_time"))[version - 1]
            return dict(zip(names, ([run_id], [project_id], since), strict=True)) | page_of(version)

        return next((run for run in self._runs(body) if run["id"] == run_id), None)

    def _runs(self, body: Callable[[int], dict[str, Json]], limit_bytes: int | None = None) -> Iterator[Run]:
        pages = self._client.pages(lambda cursor: self._query(body, cursor), self._page, limit_bytes)
        for run in chain.from_iterable(pages):
            if not isinstance(run, dict) or not isinstance(run.get("id"), str):
                raise self._client.failed("gave something among its runs that is none")
            yield run

    def _query(self, body: Callable[[int], dict[str, Json]], cursor: str | None) -> Reply:
        """One page, of the version that the server speaks; a page of one version does not go on in the other."""
        while True:
            asked = body(self._version) | ({} if cursor is None else {"cursor": cursor})
            reply = self._client.post(f"/api/v{self._version}/runs/query", asked)
            if reply.status not in UNKNOWN or self._version == 1 or cursor is not None:
                return reply
            self._version = 1

    def _page(self, said: dict[str, Json]) -> Page:
        if self._version == 2:
            return said.get("items"), said.get("next_cursor")
        cursors = said.get("cursors") or {}
        return said.get("runs"), cursors.get("next") if isinstance(cursors, dict) else cursors
