"""LangSmith's REST API: what is asked, page by page, and what its answers mean.

Both versions of the query are spoken: the second, and the first where a server does not know that. Sends nothing
itself: `send` does, and keeps to its limits of time and retries.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from itertools import chain
from urllib.parse import quote, urlencode
from uuid import UUID

import msgspec
import orjson
from msgspec import Struct

from replaykit.errors import FetchFailed, UsageError
from replaykit.importers.langsmith.account import ENDPOINTS, KEYS, PAYLOAD_HOSTS, WORKSPACE, Account
from replaykit.importers.langsmith.collecting import ids_above
from replaykit.importers.langsmith_wanted import FAR_BACK, Wanted, iso, moment, page_of
from replaykit.model.values import Json, printable

MAX_PAGES = 200
MAX_TRACE_BYTES = 256 * 1024 * 1024
_SKEW = dt.timedelta(days=1)  # clocks of the machines that a trace runs on
_UNKNOWN = (404, 405, 410, 501)
_REFUSED = (401, 403)
_SHOWN_CHARS = 200
_PAYLOADS = ("inputs", "outputs")
_WHOLE = "ROOT"
"""Under this name a payload that is stored apart as a whole has its address."""


class Request(Struct, frozen=True, kw_only=True):
    """What is asked. Only one that goes to the API itself carries the key."""

    method: str
    url: str
    body: bytes | None = None
    with_key: bool = True


class Reply(Struct, frozen=True):
    """What came back."""

    status: int
    body: bytes = b""


Run = dict[str, Json]


class LangSmithApi:
    """Asks one account for runs."""

    def __init__(self, account: Account, send: Callable[[Request], Reply], now: dt.datetime) -> None:
        self._account = account
        self._send = send
        self._now = now
        self._version = 2

    def project_id(self, project: str) -> str:
        """The id of a project, by its name or its id."""
        try:
            return str(UUID(project))
        except ValueError:
            pass
        reply = self._send(self._request("GET", f"/api/v1/sessions?{urlencode({'name': project, 'limit': 100})}"))
        listed = self._json(reply)
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
        reply = self._send(self._request("GET", f"/api/v1/runs/{quote(run_id, safe='')}"))
        if reply.status in (*_UNKNOWN, 400, 422):  # what is no id at all is a bad request
            found = self._in_project(run_id, project_id) if project_id is not None else None
            if found is None:
                hint = "See its id in LangSmith, under the run's name."
                hint += "" if project_id else " Where the first version of the API is gone, name its project too."
                raise UsageError(f"LangSmith has no run {run_id!r}", hint=hint)
            return found
        value = self._json(reply)
        if not isinstance(value, dict) or not isinstance(value.get("id"), str):
            raise self._failed("gave something that is no run")
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
        for one in self._runs(body, limit_bytes=MAX_TRACE_BYTES):
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
        host = printable(address.partition("://")[2].partition("/")[0].rpartition("@")[2])[:_SHOWN_CHARS]
        if not self._account.allows(address):
            raise FetchFailed(f"at {host}, which nobody has allowed: {PAYLOAD_HOSTS}={host}")
        reply = self._send(Request(method="GET", url=address, with_key=False))
        if reply.status != 200:
            raise FetchFailed(f"at {host}, which answered {reply.status}")
        return self._json(reply)

    def _in_project(self, run_id: str, project_id: str) -> Run | None:
        since = iso(self._now - FAR_BACK)

        def body(version: int) -> dict[str, Json]:
            names = (("id", "session", "start_time"), ("ids", "project_ids", "min_start_time"))[version - 1]
            return dict(zip(names, ([run_id], [project_id], since), strict=True)) | page_of(version)

        return next((run for run in self._runs(body) if run["id"] == run_id), None)

    def _runs(self, body: Callable[[int], dict[str, Json]], limit_bytes: int | None = None) -> Iterator[Run]:
        for run in chain.from_iterable(self._pages(body, limit_bytes)):
            if not isinstance(run, dict) or not isinstance(run.get("id"), str):
                raise self._failed("gave something among its runs that is none")
            yield run

    def _pages(self, body: Callable[[int], dict[str, Json]], limit_bytes: int | None) -> Iterator[list[Json]]:
        cursor: str | None = None
        seen: set[str] = set()
        size = 0
        for _ in range(MAX_PAGES):
            reply = self._query(body, cursor)
            size += len(reply.body)
            if limit_bytes is not None and size > limit_bytes:
                raise self._failed(f"gave more than {limit_bytes:,} bytes for one trace")
            page, cursor = self._page(reply)
            yield page
            if cursor is None:
                return
            if cursor in seen:
                raise self._failed("leads from a page back to it")
            seen.add(cursor)
        raise self._failed(f"gave more than {MAX_PAGES} pages")

    def _query(self, body: Callable[[int], dict[str, Json]], cursor: str | None) -> Reply:
        """One page, of the version that the server speaks; a page of one version does not go on in the other."""
        while True:
            asked = body(self._version) | ({} if cursor is None else {"cursor": cursor})
            reply = self._send(self._request("POST", f"/api/v{self._version}/runs/query", orjson.dumps(asked)))
            if reply.status not in _UNKNOWN or self._version == 1 or cursor is not None:
                return reply
            self._version = 1

    def _page(self, reply: Reply) -> tuple[list[Json], str | None]:
        value = self._json(reply)
        said = value if isinstance(value, dict) else {}
        if self._version == 2:
            runs, following = said.get("items"), said.get("next_cursor")
        else:
            cursors = said.get("cursors") or {}
            runs, following = said.get("runs"), cursors.get("next") if isinstance(cursors, dict) else cursors
        if not isinstance(runs, list) or not isinstance(following, str | None):
            raise self._failed("gave something that is no page of runs")
        return runs, following or None

    def _request(self, method: str, path: str, body: bytes | None = None) -> Request:
        return Request(method=method, url=self._account.root + path, body=body)

    def _json(self, reply: Reply) -> Json:
        if reply.status in _REFUSED:
            hint = f"Check {KEYS[0]}; with a key for several workspaces, set {WORKSPACE}."
            raise FetchFailed(f"LangSmith at {self._account.root} refused the key ({reply.status})", hint=hint)
        if not 200 <= reply.status < 300:
            said = printable(self._account.hide(reply.body.decode("utf-8", "replace")))[:_SHOWN_CHARS]
            elsewhere = reply.status in _UNKNOWN or 300 <= reply.status < 400
            told = f"answered {reply.status}{': ' if said else ''}{said}"
            raise self._failed(told, f"Check {ENDPOINTS[0]}." if elsewhere else None)
        try:
            return _decoded(reply.body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise self._failed(f"gave something that is not JSON: {error}") from None

    def _failed(self, what: str, hint: str | None = None) -> FetchFailed:
        return FetchFailed(f"LangSmith at {self._account.root} {what}", hint=hint)


def _decoded(body: bytes) -> Json:
    """The JSON value. Half of a character, or a NaN, in one run is no reason to lose a whole page of them."""
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        try:
            return _mended(json.loads(body))
        except ValueError:
            pass
        raise


def _mended(value: Json) -> Json:
    """The value with a sign in the place of every half of a character: no file, no store and no agent could take it."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_mended(item) for item in value]
    return {_mended(key): _mended(item) for key, item in value.items()} if isinstance(value, dict) else value
