"""Phoenix's REST API: the spans of a project, trace by trace, with their annotations.

GET /v1/projects/{project}/spans?trace_id=…&cursor=…
GET /v1/projects/{project}/span_annotations?span_ids=…     …/trace_annotations?trace_ids=…
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import chain
from urllib.parse import quote, unquote

from replaykit.errors import FetchFailed, UsageError
from replaykit.formats.core.run_query import Status
from replaykit.intake.services import client
from replaykit.intake.services.client import (
    UNKNOWN,
    Page,
    Send,
    ServiceAccount,
    ServiceClient,
    ServiceReply,
    first_set,
    header_safe,
    root_of,
    setting,
)
from replaykit.intake.services.fetching import FetchedTrace, ListedTrace, Query
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import text_in, value_in

NAME = "phoenix"
HOST, PORT = "PHOENIX_HOST", "PHOENIX_PORT"
ADDRESSES = ("PHOENIX_ENDPOINT", "PHOENIX_COLLECTOR_ENDPOINT", "PHOENIX_BASE_URL", HOST)
KEY, HEADERS = "PHOENIX_API_KEY", "PHOENIX_CLIENT_HEADERS"
DEFAULT_PORT = "6006"
PROJECTS = ("PHOENIX_PROJECT", "PHOENIX_PROJECT_NAME")

_SPANS = 100
_ANNOTATIONS = 1000
_AT_ONCE = 50  # ids in one address: servers limit its length


def account_of(environment: Mapping[str, str] = os.environ) -> ServiceAccount:
    """Return the account from the environment; default: a server on this machine."""
    variable = first_set(environment, ADDRESSES)
    secrets = tuple(_secrets(environment))
    address = _address(environment, variable)
    return ServiceAccount(
        service="Phoenix",
        root=root_of(address, variable, suffixes=("/v1/traces", "/v1"), is_secret=bool(secrets)),
        variable=variable,
        refused=f"Check {KEY}, or {HEADERS}.",
        headers=tuple((name, header_safe(named, value)) for name, named, value in secrets),
        secrets=tuple((named, value.removeprefix("Bearer ")) for _, named, value in secrets),
    )


def _address(variables: Mapping[str, str], variable: str) -> str:
    address = setting(variables, variable)
    if "://" in address or (address and variable != HOST):
        return address
    host = address
    if address in ("", "0.0.0.0", "::"):
        host = "127.0.0.1"
    if ":" not in host.rpartition("]")[2]:
        host += f":{variables.get(PORT, '').strip() or DEFAULT_PORT}"
    return f"http://{host}"


def _secrets(variables: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield the headers with credentials, each with the variable it comes from."""
    pairs = [part.partition("=") for part in variables.get(HEADERS, "").split(",") if part.strip()]
    own = {unquote(name.strip()).lower(): unquote(value.strip()) for name, _, value in pairs}
    key = setting(variables, KEY)
    if key and "authorization" not in own:
        yield "authorization", KEY, f"Bearer {key}"
    for name, value in own.items():
        if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum() or not value:
            raise UsageError(f"{HEADERS} is not a list of headers", hint="Write name=value, with commas between them.")
        yield name, HEADERS, value


def default_project() -> str:
    """Return the project from the environment; empty if it is not set."""
    return setting(os.environ, first_set(os.environ, PROJECTS))


class PhoenixApi:
    """The traces of one account."""

    name = NAME

    def __init__(self, account: ServiceAccount, send: Send) -> None:
        self._client = ServiceClient(account, send)

    def listed(self, query: Query) -> Iterator[ListedTrace]:
        """Yield the traces by their roots, or those in which something failed, newest first."""
        parameters = {"start_time": query.since_iso}
        if query.status is Status.ALL:
            parameters["parent_id"] = "null"
        else:
            parameters["status_code"] = "ERROR"
        for span in self._spans(query.project, parameters):
            yield ListedTrace(id=_id_in(span, "trace_id"))

    def trace(self, trace_id: str, project: str) -> FetchedTrace:
        """Fetch a trace with its spans and annotations."""
        candidates = self._spans(project, {"trace_id": trace_id}, client.MAX_TRACE_BYTES)
        spans = [span for span in candidates if _id_in(span, "trace_id") == trace_id]
        if not spans:
            raise UsageError(f"Phoenix has no trace {trace_id!r} in the project {project!r}")
        notes: list[str] = []
        annotations = list(self._annotations(project, "span", [_id_in(span, "span_id") for span in spans], notes))
        annotations += self._annotations(project, "trace", [trace_id], notes)
        return FetchedTrace(
            document={"data": spans, "next_cursor": None, "annotations": annotations}, notes=tuple(notes)
        )

    def _spans(self, project: str, query: JsonObject, limit_bytes: int | None = None) -> Iterator[Json]:
        path = f"/v1/projects/{quote(project, safe='')}/spans"

        def ask(cursor: str | None) -> ServiceReply:
            reply = self._client.get(path, limit=_SPANS, cursor=cursor, **query)
            if reply.status == 404 and b"roject" in reply.body:
                raise UsageError(f"Phoenix has no project {project!r}", hint="Name one: --project NAME")
            return reply

        return chain.from_iterable(self._client.pages(ask, _page, limit_bytes))

    def _annotations(self, project: str, of: str, ids: list[str], notes: list[str]) -> Iterator[Json]:
        """Yield the annotations of these ids; a failure to fetch them becomes a note."""
        path = f"/v1/projects/{quote(project, safe='')}/{of}_annotations"
        known_ids = list(filter(None, ids))
        try:
            for start in range(0, len(known_ids), _AT_ONCE):
                query = {f"{of}_ids": known_ids[start : start + _AT_ONCE], "limit": _ANNOTATIONS}
                ask = partial(self._client.get, path, **query)
                first = ask()
                if first.status in UNKNOWN:  # an older Phoenix has no annotations
                    return
                yield from chain.from_iterable(
                    self._client.pages(lambda cursor: ask(cursor=cursor), _page, first=first)  # noqa: B023 (consumed in this pass)
                )
        except FetchFailed as error:
            notes.append(f"the annotations of its {of}s could not be fetched: {error.message}")


def _page(body: JsonObject) -> Page:
    return body.get("data"), body.get("next_cursor")


def _id_in(span: Json, name: str) -> str:
    """Return the id of a span or of its trace; empty if it has none."""
    return text_in(value_in(span, "context"), name)
