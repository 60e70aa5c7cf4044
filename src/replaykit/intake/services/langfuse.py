"""Langfuse's REST API: traces of the project that the keys belong to.

    GET /api/public/traces?page=1…       GET /api/public/traces/{id}      up to Langfuse 3
    GET /api/public/v2/observations?cursor=…   GET /api/public/v3/scores  where those are gone

The first gives a trace whole, with its input, its output and its scores, so it goes first. In the second there are no
traces any more, but observations that name one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import chain
from urllib.parse import quote

from replaykit.errors import FetchFailed, UsageError
from replaykit.formats.core.run_query import Status, iso
from replaykit.intake.services import client
from replaykit.intake.services.client import (
    UNKNOWN,
    Page,
    Send,
    ServiceAccount,
    ServiceClient,
    basic,
    first_set,
    root_of,
)
from replaykit.intake.services.fetching import FetchedTrace, ListedTrace, Query, Service
from replaykit.intake.services.transport import DEFAULT_TIMEOUT_S, Transport
from replaykit.model.values import Json, canonical

NAME = "langfuse"
DEFAULT_ROOT = "https://cloud.langfuse.com"
ADDRESSES = ("LANGFUSE_BASE_URL", "LANGFUSE_HOST")
PUBLIC_KEY, SECRET_KEY = "LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY"

_PAGE = 100
_FIELDS = "core,basic,time,io,metadata,model,usage,prompt,metrics,trace_context"
_TRACE_FIELDS = {
    "traceName": "name",
    "userId": "userId",
    "sessionId": "sessionId",
    "tags": "tags",
    "release": "release",
    "version": "version",
    "environment": "environment",
    "projectId": "projectId",
}
"""Fields of an observation that describe its trace, and the trace's names for them."""


def account_of(environment: Mapping[str, str] | None = None) -> ServiceAccount:
    """The account that the environment names."""
    variables = os.environ if environment is None else environment
    variable = next(first_set(variables, ADDRESSES), ADDRESSES[0])
    public, secret = (variables.get(name, "").strip() for name in (PUBLIC_KEY, SECRET_KEY))
    missing = [name for name, value in ((PUBLIC_KEY, public), (SECRET_KEY, secret)) if not value]
    if missing:
        raise UsageError("Langfuse needs the keys of a project", hint=f"Set {' and '.join(missing)}.")
    header = basic(public, secret)
    return ServiceAccount(
        service="Langfuse",
        root=root_of(variables.get(variable, "").strip() or DEFAULT_ROOT, variable, suffixes=("/api/public", "/api")),
        variable=variable,
        refused=f"Check {PUBLIC_KEY} and {SECRET_KEY}, and that {variable} is the region they are of.",
        headers=(("authorization", header),),
        secrets=((SECRET_KEY, secret), (SECRET_KEY, header.partition(" ")[2])),
    )


def langfuse(timeout_s: float = DEFAULT_TIMEOUT_S) -> Service:
    """Langfuse, where the environment says it is."""
    account = account_of()
    transport = Transport(account, timeout_s)
    return Service(LangfuseApi(account, transport), transport)


class LangfuseApi:
    """Asks one account for traces."""

    name = NAME

    def __init__(self, account: ServiceAccount, send: Send) -> None:
        self._client = ServiceClient(account, send)
        self._has_traces = True

    def listed(self, query: Query) -> Iterator[ListedTrace]:
        """The traces, or those in which something failed, the newest first."""
        seen: dict[str, None] = {}
        for page in self._pages(query):
            for entry in page:
                if isinstance(entry, dict):
                    trace_id = entry.get("id" if self._has_traces else "traceId")
                else:
                    trace_id = None
                if isinstance(trace_id, str) and trace_id and trace_id not in seen:
                    seen[trace_id] = None
                    yield ListedTrace(id=trace_id)

    def trace(self, trace_id: str, project: str = "") -> FetchedTrace:
        """One trace with its observations and its scores."""
        if self._has_traces:
            reply = self._client.get(f"/api/public/traces/{quote(trace_id, safe='')}")
            if reply.status not in UNKNOWN:
                return FetchedTrace(document=self._client.json(reply))
        found = self._observations(trace_id)
        if not found:
            raise UsageError(f"Langfuse has no trace {trace_id!r} in the project of {PUBLIC_KEY}")
        scores, notes = self._scores(trace_id)
        return FetchedTrace(
            document={"trace": _trace_fields(trace_id, found), "observations": found, "scores": scores}, notes=notes
        )

    def _pages(self, query: Query) -> Iterator[list[Json]]:
        if self._has_traces:
            parameters = _of_traces(query)
            first = self._client.get("/api/public/traces", page=1, **parameters)
            self._has_traces = first.status not in UNKNOWN
            if self._has_traces:
                return self._client.pages(
                    lambda page: (
                        first if page is None else self._client.get("/api/public/traces", page=page, **parameters)
                    ),
                    _numbered,
                )
        observed = _of_observations(query)
        return self._client.pages(
            lambda cursor: self._client.get("/api/public/v2/observations", cursor=cursor, **observed), _with_cursor
        )

    def _observations(self, trace_id: str) -> list[Json]:
        def ask(cursor: str | None) -> client.ServiceReply:
            return self._client.get(
                "/api/public/v2/observations", traceId=trace_id, fields=_FIELDS, limit=_PAGE, cursor=cursor
            )

        first = ask(None)
        if first.status in UNKNOWN:  # and the first version knows no such trace
            return []
        pages = self._client.pages(
            lambda cursor: first if cursor is None else ask(cursor), _with_cursor, client.MAX_TRACE_BYTES
        )
        found = list(chain.from_iterable(pages))
        return [
            observation
            for observation in found
            if isinstance(observation, dict) and observation.get("traceId") == trace_id
        ]

    def _scores(self, trace_id: str) -> tuple[list[Json], tuple[str, ...]]:
        """The scores of a trace; without them it is still a trace, and that is told."""
        try:
            pages = self._client.pages(
                lambda cursor: self._client.get(
                    "/api/public/v3/scores", traceId=trace_id, fields="details,subject", limit=_PAGE, cursor=cursor
                ),
                _with_cursor,
            )
            return list(chain.from_iterable(pages)), ()
        except FetchFailed as error:
            return [], (f"trace {trace_id}: its scores could not be fetched: {error.message}",)


def _of_traces(query: Query) -> dict[str, Json]:
    """The question in the words of the first version: a filter goes before the parameters beside it."""
    since = None if query.since is None else iso(query.since)
    filters: list[Json] = []
    if query.status is not Status.ALL:
        filters.append({"type": "number", "column": "errorCount", "operator": ">", "value": 0})
    if query.min_latency_ms:
        seconds = query.min_latency_ms / 1000
        filters.append({"type": "number", "column": "latency", "operator": ">=", "value": seconds})
    if since is not None and filters:
        filters.append({"type": "datetime", "column": "timestamp", "operator": ">=", "value": since})
    return {
        "limit": _PAGE,
        "orderBy": "timestamp.desc",
        "fields": "core",
        "fromTimestamp": since,
        "filter": canonical(filters).decode() if filters else None,
    }


def _of_observations(query: Query) -> dict[str, Json]:
    return {
        "limit": _PAGE,
        "fields": "core",
        "fromStartTime": None if query.since is None else iso(query.since),
        **({"isRootObservation": "true"} if query.status is Status.ALL else {"level": "ERROR"}),
    }


def _numbered(body: dict[str, Json]) -> Page:
    meta = body.get("meta")
    page, pages = (meta.get("page"), meta.get("totalPages")) if isinstance(meta, dict) else (None, None)
    if not isinstance(page, int) or not isinstance(pages, int):
        return body.get("data"), None
    return body.get("data"), str(page + 1) if page < pages else None


def _with_cursor(body: dict[str, Json]) -> Page:
    meta = body.get("meta")
    return body.get("data"), meta.get("cursor") if isinstance(meta, dict) else None


def _trace_fields(trace_id: str, observations: list[Json]) -> dict[str, Json]:
    """Return the fields of a trace as its observations state them, the root's first."""
    trace: dict[str, Json] = {"id": trace_id}
    for observation in sorted(observations, key=lambda observation: bool(observation.get("parentObservationId"))):
        for name, called in _TRACE_FIELDS.items():
            if observation.get(name) not in (None, "", []):
                trace.setdefault(called, observation[name])
    return trace
