"""Langfuse's REST API: traces of the project that the keys belong to.

    GET /api/public/traces?page=1…       GET /api/public/traces/{id}      up to Langfuse 3
    GET /api/public/v2/observations?cursor=…   GET /api/public/v3/scores  where those are gone

The first version returns a trace as a whole, with input, output and scores, so it is tried first. The second has no
traces, only observations that name one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain
from urllib.parse import quote

from replaykit.errors import FetchFailed, UsageError
from replaykit.formats.core.run_query import Status
from replaykit.intake.services import client
from replaykit.intake.services.client import (
    UNKNOWN,
    Ask,
    Page,
    Send,
    ServiceAccount,
    ServiceClient,
    basic,
    first_set,
    root_of,
    setting,
)
from replaykit.intake.services.fetching import FetchedTrace, ListedTrace, Query
from replaykit.model.values import Json, JsonObject, canonical
from replaykit.wire.json_fields import object_in, text_in, value_in

NAME = "langfuse"
DEFAULT_ROOT = "https://cloud.langfuse.com"
ADDRESSES = ("LANGFUSE_BASE_URL", "LANGFUSE_HOST")
PUBLIC_KEY, SECRET_KEY = "LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY"

_PAGE = 100
_FIELDS = "core,basic,time,io,metadata,model,usage,prompt,metrics,trace_context"
# Fields of an observation that describe its trace, with the trace's names for them.
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


def account_of(environment: Mapping[str, str] = os.environ) -> ServiceAccount:
    """Return the account from the environment."""
    variable = first_set(environment, ADDRESSES)
    public, secret = (setting(environment, name) for name in (PUBLIC_KEY, SECRET_KEY))
    missing = [name for name, value in ((PUBLIC_KEY, public), (SECRET_KEY, secret)) if not value]
    if missing:
        raise UsageError("Langfuse needs the keys of a project", hint=f"Set {' and '.join(missing)}.")
    header = basic(public, secret)
    return ServiceAccount(
        service="Langfuse",
        root=root_of(setting(environment, variable) or DEFAULT_ROOT, variable, suffixes=("/api/public", "/api")),
        variable=variable,
        refused=f"Check {PUBLIC_KEY} and {SECRET_KEY}, and that {variable} is the region they are of.",
        headers=(("authorization", header),),
        secrets=((SECRET_KEY, secret), (SECRET_KEY, header.partition(" ")[2])),
    )


class LangfuseApi:
    """The traces of one account."""

    name = NAME

    def __init__(self, account: ServiceAccount, send: Send) -> None:
        self._client = ServiceClient(account, send)
        self._has_traces = True

    def listed(self, query: Query) -> Iterator[ListedTrace]:
        """Yield the traces, or those in which something failed, newest first."""
        for entry in chain.from_iterable(self._pages(query)):
            yield ListedTrace(id=text_in(entry, "id" if self._has_traces else "traceId"))

    def trace(self, trace_id: str, project: str = "") -> FetchedTrace:
        """Fetch a trace with its observations and scores."""
        if self._has_traces:
            reply = self._client.get(f"/api/public/traces/{quote(trace_id, safe='')}")
            if reply.status not in UNKNOWN:
                return FetchedTrace(document=self._client.json(reply))
        observations = self._observations(trace_id)
        if not observations:
            raise UsageError(f"Langfuse has no trace {trace_id!r} in the project of {PUBLIC_KEY}")
        scores, notes = self._scores(trace_id)
        return FetchedTrace(
            document={"trace": _trace_fields(trace_id, observations), "observations": observations, "scores": scores},
            notes=notes,
        )

    def _pages(self, query: Query) -> Iterator[list[Json]]:
        if self._has_traces:
            parameters = _of_traces(query)
            first = self._client.get("/api/public/traces", page=1, **parameters)
            self._has_traces = first.status not in UNKNOWN
            if self._has_traces:
                ask = partial(self._client.get, "/api/public/traces", **parameters)
                return self._client.pages(lambda page: ask(page=page), _numbered, first=first)
        return self._client.pages(self._observed(_of_observations(query)), _with_cursor)

    def _observed(self, parameters: JsonObject) -> Ask:
        return lambda cursor: self._client.get("/api/public/v2/observations", cursor=cursor, **parameters)

    def _observations(self, trace_id: str) -> list[Json]:
        ask = self._observed({"traceId": trace_id, "fields": _FIELDS, "limit": _PAGE})
        first = ask(None)
        if first.status in UNKNOWN:  # the first version was asked before, and does not have the trace
            return []
        pages = self._client.pages(ask, _with_cursor, client.MAX_TRACE_BYTES, first=first)
        observations = chain.from_iterable(pages)
        return [observation for observation in observations if value_in(observation, "traceId") == trace_id]

    def _scores(self, trace_id: str) -> tuple[list[Json], tuple[str, ...]]:
        """Fetch the scores of a trace; if that fails, return a note instead."""
        ask = partial(
            self._client.get, "/api/public/v3/scores", traceId=trace_id, fields="details,subject", limit=_PAGE
        )
        try:
            pages = self._client.pages(lambda cursor: ask(cursor=cursor), _with_cursor)
            return list(chain.from_iterable(pages)), ()
        except FetchFailed as error:
            return [], (f"trace {trace_id}: its scores could not be fetched: {error.message}",)


def _of_traces(query: Query) -> JsonObject:
    """Return the query for the first version; there, `filter` overrides the parameters beside it."""
    filters: list[Json] = []
    if query.status is not Status.ALL:
        filters.append({"type": "number", "column": "errorCount", "operator": ">", "value": 0})
    if query.min_latency_ms:
        seconds = query.min_latency_ms / 1000
        filters.append({"type": "number", "column": "latency", "operator": ">=", "value": seconds})
    if query.since_iso is not None and filters:
        filters.append({"type": "datetime", "column": "timestamp", "operator": ">=", "value": query.since_iso})
    parameters: JsonObject = {
        "limit": _PAGE,
        "orderBy": "timestamp.desc",
        "fields": "core",
        "fromTimestamp": query.since_iso,
    }
    if filters:
        parameters["filter"] = canonical(filters).decode()
    return parameters


def _of_observations(query: Query) -> JsonObject:
    parameters: JsonObject = {"limit": _PAGE, "fields": "core", "fromStartTime": query.since_iso}
    if query.status is Status.ALL:
        parameters["isRootObservation"] = "true"
    else:
        parameters["level"] = "ERROR"
    return parameters


def _numbered(body: JsonObject) -> Page:
    meta = object_in(body, "meta")
    page, pages = meta.get("page"), meta.get("totalPages")
    following = None
    if isinstance(page, int) and isinstance(pages, int) and page < pages:
        following = str(page + 1)
    return body.get("data"), following


def _with_cursor(body: JsonObject) -> Page:
    return body.get("data"), object_in(body, "meta").get("cursor")


def _trace_fields(trace_id: str, observations: list[Json]) -> JsonObject:
    """Return the fields of a trace according to its observations, the root's first."""
    trace: JsonObject = {"id": trace_id}
    for observation in sorted(observations, key=lambda observation: bool(observation.get("parentObservationId"))):
        for name, called in _TRACE_FIELDS.items():
            if observation.get(name) not in (None, "", []):
                trace.setdefault(called, observation[name])
    return trace
