"""Phoenix's REST API: the spans of a project, trace by trace, with what was said of them afterwards.

GET /v1/projects/{project}/spans?trace_id=…&cursor=…
GET /v1/projects/{project}/span_annotations?span_ids=…     …/trace_annotations?trace_ids=…
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from urllib.parse import quote, unquote

from replaykit.errors import FetchFailed, UsageError
from replaykit.formats.core.run_query import Status, iso
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
)
from replaykit.intake.services.fetching import FetchedTrace, ListedTrace, Query, Service
from replaykit.intake.services.transport import DEFAULT_TIMEOUT_S, Transport
from replaykit.model.values import Json

NAME = "phoenix"
HOST, PORT = "PHOENIX_HOST", "PHOENIX_PORT"
ADDRESSES = ("PHOENIX_ENDPOINT", "PHOENIX_COLLECTOR_ENDPOINT", "PHOENIX_BASE_URL", HOST)
KEY, HEADERS = "PHOENIX_API_KEY", "PHOENIX_CLIENT_HEADERS"
DEFAULT_PORT = "6006"
PROJECTS = ("PHOENIX_PROJECT", "PHOENIX_PROJECT_NAME")

_SPANS = 100
_ANNOTATIONS = 1000
_AT_ONCE = 50  # ids in one address, which servers cut off somewhere


def account_of(environment: Mapping[str, str] | None = None) -> ServiceAccount:
    """The account that the environment names; without a word it is on this machine."""
    variables = os.environ if environment is None else environment
    variable = next(first_set(variables, ADDRESSES), ADDRESSES[0])
    secrets = tuple(_secrets(variables))
    address = _address(variables, variable)
    return ServiceAccount(
        service="Phoenix",
        root=root_of(address, variable, suffixes=("/v1/traces", "/v1"), is_secret=bool(secrets)),
        variable=variable,
        refused=f"Check {KEY}, or {HEADERS}.",
        headers=tuple((name, header_safe(named, value)) for name, named, value in secrets),
        secrets=tuple((named, value.removeprefix("Bearer ")) for _, named, value in secrets),
    )


def _address(variables: Mapping[str, str], variable: str) -> str:
    address = variables.get(variable, "").strip()
    if "://" in address:
        return address
    host = "127.0.0.1" if address in ("", "0.0.0.0", "::") else address
    if ":" in host.rpartition("]")[2]:
        port = ""
    else:
        port = f":{variables.get(PORT, '').strip() or DEFAULT_PORT}"
    if not address or variable == HOST:
        return f"http://{host}{port}"
    return address


def _secrets(variables: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """The headers that let somebody in, each with the variable that says so."""
    pairs = [part.partition("=") for part in variables.get(HEADERS, "").split(",") if part.strip()]
    own = {unquote(name.strip()).lower(): unquote(value.strip()) for name, _, value in pairs}
    key = variables.get(KEY, "").strip()
    if key and "authorization" not in own:
        yield "authorization", KEY, f"Bearer {key}"
    for name, value in own.items():
        if not name.isascii() or not name.replace("-", "").replace("_", "").isalnum() or not value:
            raise UsageError(f"{HEADERS} is no list of headers", hint="Write name=value, with commas between them.")
        yield name, HEADERS, value


def default_project() -> str:
    """The project that the environment names; empty where it names none."""
    return next((os.environ[name].strip() for name in first_set(os.environ, PROJECTS)), "")


def phoenix(timeout_s: float = DEFAULT_TIMEOUT_S) -> Service:
    """Phoenix, where the environment says it is."""
    account = account_of()
    transport = Transport(account, timeout_s)
    return Service(PhoenixApi(account, transport), transport)


class PhoenixApi:
    """Asks one account for traces."""

    name = NAME

    def __init__(self, account: ServiceAccount, send: Send) -> None:
        self._client = ServiceClient(account, send)

    def listed(self, query: Query) -> Iterator[ListedTrace]:
        """The traces by their roots, or those in which something failed, the newest first."""
        narrowed: dict[str, Json] = {"parent_id": "null"} if query.status is Status.ALL else {"status_code": "ERROR"}
        since = None if query.since is None else iso(query.since)
        seen: dict[str, None] = {}
        for span in self._spans(query.project, {"start_time": since, **narrowed}):
            trace_id, _ = _ids(span)
            if trace_id and trace_id not in seen:
                seen[trace_id] = None
                yield ListedTrace(id=trace_id)

    def trace(self, trace_id: str, project: str) -> FetchedTrace:
        """One trace: its spans, and the annotations of them and of it."""
        found = self._spans(project, {"trace_id": trace_id}, client.MAX_TRACE_BYTES)
        spans = [span for span in found if _ids(span)[0] == trace_id]
        if not spans:
            raise UsageError(f"Phoenix has no trace {trace_id!r} in the project {project!r}")
        notes: list[str] = []
        annotations = list(self._annotations(project, "span", [_ids(span)[1] for span in spans], notes))
        annotations += self._annotations(project, "trace", [trace_id], notes)
        return FetchedTrace(
            document={"data": spans, "next_cursor": None, "annotations": annotations}, notes=tuple(notes)
        )

    def _spans(self, project: str, query: dict[str, Json], limit_bytes: int | None = None) -> Iterator[Json]:
        path = f"/v1/projects/{quote(project, safe='')}/spans"

        def ask(cursor: str | None) -> ServiceReply:
            reply = self._client.get(path, limit=_SPANS, cursor=cursor, **query)
            if reply.status == 404 and b"roject" in reply.body:
                raise UsageError(f"Phoenix has no project {project!r}", hint="Name one: --project NAME")
            return reply

        return chain.from_iterable(self._client.pages(ask, _page, limit_bytes))

    def _annotations(self, project: str, of: str, ids: list[str], notes: list[str]) -> Iterator[Json]:
        """Return the annotations of these; a failure to fetch them becomes a note."""
        path = f"/v1/projects/{quote(project, safe='')}/{of}_annotations"
        try:
            for some in _cut([span_id for span_id in ids if span_id]):
                yield from self._annotated(path, {f"{of}_ids": some, "limit": _ANNOTATIONS})
        except FetchFailed as error:
            notes.append(f"what was said of its {of}s could not be fetched: {error.message}")

    def _annotated(self, path: str, query: dict[str, Json]) -> Iterator[Json]:
        first = self._client.get(path, **query)
        if first.status in UNKNOWN:  # an older Phoenix
            return

        def ask(cursor: str | None) -> ServiceReply:
            if cursor is None:
                return first
            return self._client.get(path, cursor=cursor, **query)

        yield from chain.from_iterable(self._client.pages(ask, _page))


def _cut(ids: list[str]) -> Iterable[list[str]]:
    return (ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE))


def _page(body: dict[str, Json]) -> Page:
    return body.get("data"), body.get("next_cursor")


def _ids(span: Json) -> tuple[str, str]:
    """The ids of a span's trace and of itself; empty where it has none."""
    context = span.get("context") if isinstance(span, dict) else None
    found = [context.get(name) if isinstance(context, dict) else None for name in ("trace_id", "span_id")]
    trace, own = (value if isinstance(value, str) else "" for value in found)
    return trace, own
