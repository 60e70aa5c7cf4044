"""LangSmith's REST API: requests, paging, and the meaning of the answers.

Queries use the second version of the API, and the first if the server does not know that. Sends nothing itself: `send`
does, within its limits of time and retries.
"""

from __future__ import annotations

import datetime as dt
import operator
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from urllib.parse import quote, urljoin, urlsplit
from uuid import UUID

from msgspec import Struct

from replaykit.errors import FetchFailed, UsageError
from replaykit.formats.core.fields import status_of
from replaykit.formats.core.run_query import DEFAULT_LIMIT, FAR_BACK, Status, iso, moment
from replaykit.formats.langsmith.run_tree import ids_above
from replaykit.intake.services import client
from replaykit.intake.services.client import (
    UNKNOWN,
    Page,
    Send,
    ServiceAccount,
    ServiceClient,
    ServiceReply,
    ServiceRequest,
    first_set,
    header_safe,
    is_loopback,
    root_of,
    setting,
)
from replaykit.model.run import RunStatus
from replaykit.model.text_lines import words_of
from replaykit.model.values import Json, JsonObject
from replaykit.terminal import visible
from replaykit.wire.json_fields import as_object, as_objects, has_text, text_in, value_in, without_nulls

_SKEW = dt.timedelta(days=1)  # between the clocks of the machines that a trace runs on
_SHOWN_CHARS = 200
_PAYLOADS = ("inputs", "outputs")
# The name of the address of a payload that is stored as a whole.
_WHOLE = "ROOT"


Run = JsonObject


class LangSmithApi:
    """The runs of one account."""

    def __init__(self, account: LangSmithAccount, send: Send, now: dt.datetime) -> None:
        self._account = account
        self._client = ServiceClient(account, send)
        self._now = now
        self._version = 2

    def project_id(self, project: str) -> str:
        """Return the id of a project, given by name or id."""
        with suppress(ValueError):
            return str(UUID(project))
        for entry in as_objects(self._client.json(self._client.get("/api/v1/sessions", name=project, limit=100))):
            if entry.get("name") == project:
                project_id = text_in(entry, "id")
                if project_id:
                    return project_id
                break
        where = "that this key may see"
        if self._account.workspace:
            where = f"in the workspace that {WORKSPACE} names"
        raise UsageError(f"LangSmith has no project {project!r} {where}", hint="Names of projects are case-sensitive.")

    def roots(self, query: LangSmithQuery) -> Iterator[Run]:
        """Yield all matching roots, newest first."""
        return (run for run in self._runs(query.body) if query.fits(run))

    def run(self, run_id: str, project_id: str | None = None) -> Run:
        """Fetch a run by id; only the first version finds it without its project."""
        reply = self._client.get(f"/api/v1/runs/{quote(run_id, safe='')}")
        if reply.status not in (*UNKNOWN, 400, 422):  # an invalid id is a bad request
            value = self._client.json(reply)
            if not has_text(value, "id"):
                raise self._client.failed("returned something that is not a run")
            return as_object(value)
        hint = "See its id in LangSmith, under the run's name."
        if project_id is None:
            hint += " Where the first version of the API is gone, name its project too."
            run = None
        else:
            run = self._in_project(run_id, project_id)
        if run is None:
            raise UsageError(f"LangSmith has no run {run_id!r}", hint=hint)
        return run

    def trace(self, run: Run) -> list[Run]:
        """Return the run and every run below it, with externally stored inputs and outputs that may be fetched."""
        project = next((run[key] for key in ("session_id", "project_id") if has_text(run, key)), None)
        trace = run["trace_id"] if has_text(run, "trace_id") else run["id"]
        began = moment(run.get("start_time"))
        since = iso(self._now - FAR_BACK if began is None else began - _SKEW)
        values = (trace, project and [project], since)

        def body(version: int) -> JsonObject:
            names = (("trace", "session", "start_time"), ("trace_id", "project_ids", "min_start_time"))[version - 1]
            return without_nulls(dict(zip(names, values, strict=True))) | page_of(version)

        runs = {run["id"]: run}
        for below in self._runs(body, limit_bytes=client.MAX_TRACE_BYTES):
            if below["id"] == run["id"] or run["id"] in ids_above(below):
                runs[below["id"]] = below
        return list(runs.values())

    def fill_in(self, run: Run) -> Iterator[str]:
        """Fetch the externally stored payloads of a run; yield a note for each that could not be fetched."""
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
        url = value_in(place, "presigned_url")
        if not isinstance(url, str):
            raise FetchFailed("and no address is given")
        try:
            address = self._account.payload_url(url)
        except ValueError:
            raise FetchFailed("and the address is not valid") from None
        host = visible(address.partition("://")[2].partition("/")[0].rpartition("@")[2])[:_SHOWN_CHARS]
        if not self._account.allows(address):
            raise FetchFailed(f"at {host}, which is not allowed: {PAYLOAD_HOSTS}={host}")
        reply = self._client.send(ServiceRequest(method="GET", url=address, with_key=False))
        if reply.status != 200:
            raise FetchFailed(f"at {host}, which answered {reply.status}")
        return self._client.json(reply)

    def _in_project(self, run_id: str, project_id: str) -> Run | None:
        since = iso(self._now - FAR_BACK)

        def body(version: int) -> JsonObject:
            names = (("id", "session", "start_time"), ("ids", "project_ids", "min_start_time"))[version - 1]
            return dict(zip(names, ([run_id], [project_id], since), strict=True)) | page_of(version)

        return next((run for run in self._runs(body) if run["id"] == run_id), None)

    def _runs(self, body: Callable[[int], JsonObject], limit_bytes: int | None = None) -> Iterator[Run]:
        pages = self._client.pages(lambda cursor: self._query(body, cursor), self._page, limit_bytes)
        for run in chain.from_iterable(pages):
            if not has_text(run, "id"):
                raise self._client.failed("returned something that is not a run")
            yield run

    def _query(self, body: Callable[[int], JsonObject], cursor: str | None) -> ServiceReply:
        """Fetch one page in the version that the server knows; a cursor is only valid in its own version."""
        while True:
            parameters = body(self._version) | without_nulls({"cursor": cursor})
            reply = self._client.post(f"/api/v{self._version}/runs/query", parameters)
            if reply.status not in UNKNOWN or self._version == 1 or cursor is not None:
                return reply
            self._version = 1

    def _page(self, body: JsonObject) -> Page:
        if self._version == 2:
            return body.get("items"), body.get("next_cursor")
        cursors = body.get("cursors") or {}
        return body.get("runs"), cursors.get("next") if isinstance(cursors, dict) else cursors


PAGE = 100
"""Runs on a page: the API's maximum."""


class LangSmithQuery(Struct, frozen=True, kw_only=True):
    """A query for the roots of a project, newest first."""

    project_id: str
    status: Status = Status.ERROR
    since: dt.datetime
    min_latency_ms: float = 0.0
    limit: int = DEFAULT_LIMIT

    def body(self, version: int) -> JsonObject:
        """Return the body of the query for a version of the API."""
        has_error = {Status.ERROR: True, Status.WARNING: False}.get(self.status)
        seconds = int(self.min_latency_ms // 1000)  # `fits` compares exactly
        project, since, error = (("session", "start_time", "error"), ("project_ids", "min_start_time", "has_error"))[
            version - 1
        ]
        parameters = {project: [self.project_id], "is_root": True, since: iso(self.since), error: has_error}
        if seconds:
            parameters["filter"] = f'gte(latency, "{seconds}s")'
        return without_nulls(parameters) | page_of(version)

    def fits(self, root: JsonObject) -> bool:
        """True for a matching root; servers interpret the query differently."""
        if self.status is not Status.ALL and has_failed(root) != (self.status is Status.ERROR):
            return False
        latency = latency_ms(root)
        return not self.min_latency_ms or (latency is not None and latency >= self.min_latency_ms)


V1_FIELDS = words_of(
    "id name run_type status error start_time end_time extra tags inputs inputs_s3_urls outputs "
    "outputs_s3_urls session_id reference_example_id feedback_stats trace_id parent_run_id parent_run_ids "
    "dotted_order prompt_tokens completion_tokens total_tokens prompt_cost completion_cost total_cost"
)


V2_FIELDS = words_of(
    "ID NAME RUN_TYPE STATUS ERROR START_TIME END_TIME LATENCY_SECONDS EXTRA METADATA TAGS INPUTS OUTPUTS "
    "PROJECT_ID THREAD_ID REFERENCE_EXAMPLE_ID FEEDBACK_STATS TRACE_ID PARENT_RUN_IDS DOTTED_ORDER "
    "IS_ROOT PROMPT_TOKENS COMPLETION_TOKENS TOTAL_TOKENS PROMPT_COST COMPLETION_COST TOTAL_COST"
)


def page_of(version: int) -> JsonObject:
    """Return the paging parameters of a query, with every field that the importer reads."""
    fields, size = (("select", "limit"), ("selects", "page_size"))[version - 1]
    return {fields: list((V1_FIELDS, V2_FIELDS)[version - 1]), size: PAGE}


def has_failed(run: JsonObject) -> bool:
    """True for a run that ended with an error."""
    return bool(run.get("error") or run.get("error_preview")) or _status(run) is RunStatus.ERROR


def is_running(run: JsonObject) -> bool:
    """True for a run that has not ended."""
    return _status(run) is RunStatus.RUNNING


def _status(run: JsonObject) -> RunStatus | None:
    return status_of(text_in(run, "status"))


def latency_ms(run: JsonObject) -> float | None:
    """Return the latency of a run; None if it is unknown."""
    latency = run.get("latency_seconds")
    if isinstance(latency, int | float) and not isinstance(latency, bool):
        return latency * 1000
    began, ended = moment(run.get("start_time")), moment(run.get("end_time"))
    if began is None or ended is None:
        return None
    return (ended - began) / dt.timedelta(milliseconds=1)


DEFAULT_ENDPOINT = "https://api.smith.langchain.com"
ENDPOINTS = ("LANGSMITH_ENDPOINT", "LANGCHAIN_ENDPOINT")
KEYS = ("LANGSMITH_API_KEY", "LANGCHAIN_API_KEY")
WORKSPACE = "LANGSMITH_WORKSPACE_ID"
PAYLOAD_HOSTS = "REPLAYKIT_PAYLOAD_HOSTS"
"""Further hosts that inputs and outputs may be fetched from, separated by commas."""

_SUFFIXES = ("/api/v1", "/api/v2", "/api")


class LangSmithAccount(ServiceAccount, frozen=True, kw_only=True):
    """The address of LangSmith and the credentials for it."""

    key: str = ""
    workspace: str = ""
    payload_hosts: tuple[str, ...] = ()

    def payload_url(self, url: str) -> str:
        """Return the address of an external payload; LangSmith may give it relative to itself."""
        return urljoin(f"{self.root}/", url)

    def allows(self, url: str) -> bool:
        """True if a payload may be fetched from this address, which an untrusted server chose."""
        try:
            parts = urlsplit(url)
            host = (parts.hostname or "").lower()
            _ = parts.port
        except ValueError:
            return False
        own = (urlsplit(self.root).hostname or "").lower()
        is_near = is_loopback(host) and is_loopback(own)
        is_known = host == own or host in self.payload_hosts or is_near
        return bool(host) and is_known and (parts.scheme == "https" or (parts.scheme == "http" and is_near))


def langsmith_account(
    root: str, key: str = "", workspace: str = "", payload_hosts: tuple[str, ...] = ()
) -> LangSmithAccount:
    """Return the account with this key and workspace."""
    return LangSmithAccount(
        service="LangSmith",
        root=root,
        variable=ENDPOINTS[0],
        refused=f"Check {KEYS[0]}; with a key for several workspaces, set {WORKSPACE}.",
        headers=tuple(filter(operator.itemgetter(1), (("x-api-key", key), ("x-tenant-id", workspace)))),
        secrets=((KEYS[0], key),),
        key=key,
        workspace=workspace,
        payload_hosts=payload_hosts,
    )


def account_of(environment: Mapping[str, str] = os.environ) -> LangSmithAccount:
    """Return the account from the environment. A key is sent over TLS, or stays on this machine."""
    variable = first_set(environment, ENDPOINTS)
    root = root_of(setting(environment, variable) or DEFAULT_ENDPOINT, variable, suffixes=_SUFFIXES)
    named = first_set(environment, KEYS)
    key, workspace = setting(environment, named), setting(environment, WORKSPACE)
    if not key and not is_loopback(urlsplit(root).hostname or ""):
        raise UsageError("LangSmith needs a key", hint=f"Set {KEYS[0]}.")
    hosts = environment.get(PAYLOAD_HOSTS, "").lower().split(",")
    return langsmith_account(
        root=root,
        key=header_safe(named, key),
        workspace=header_safe(WORKSPACE, workspace),
        payload_hosts=tuple(host.strip() for host in hosts if host.strip()),
    )
