"""MLflow's REST API: traces of an experiment on a tracking server.

    POST /api/3.0/mlflow/traces/search {locations, filter, order_by, page_token}
    GET  /api/3.0/mlflow/traces/get?trace_id=…                       a trace with its spans
    GET  /api/3.0/mlflow/traces/{id}, /ajax-api/2.0/mlflow/get-trace-artifact?request_id=…   where spans are a file

A server that does not know 3.0 gets requests in 2.0. Answers are converted to the shape of `Trace.to_json()`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from itertools import chain
from urllib.parse import quote

import msgspec

from replaykit.errors import FetchFailed, UsageError
from replaykit.formats.core.json_text import decode_lenient
from replaykit.formats.core.run_query import Status
from replaykit.intake.services.client import (
    UNKNOWN,
    Page,
    Send,
    ServiceAccount,
    ServiceClient,
    ServiceReply,
    basic,
    header_safe,
    root_of,
    setting,
)
from replaykit.intake.services.fetching import FetchedTrace, ListedTrace, Query
from replaykit.model.text_lines import words_of
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import as_object, as_objects, has_list, has_text, list_in, pick, text_in, value_in

NAME = "mlflow"
ADDRESS = "MLFLOW_TRACKING_URI"
TOKEN, USER, PASSWORD = "MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"

_PAGE = 100
_RUNNING = "IN_PROGRESS"
_BAD = (400, *UNKNOWN)


def account_of(environment: Mapping[str, str] = os.environ) -> ServiceAccount:
    """Return the account from the environment; like MLflow itself, prefers a name and password over a token."""
    address, token, user, password = (setting(environment, name) for name in (ADDRESS, TOKEN, USER, PASSWORD))
    if not address.startswith(("http://", "https://")):
        problem = f"{ADDRESS} is {address[:200]!r}" if address else f"{ADDRESS} is not set"
        hint = f"Set it to the address of a tracking server, such as {ADDRESS}=http://127.0.0.1:5000"
        raise UsageError(f"{problem}, and MLflow is asked over HTTP", hint=hint)
    header = ""
    secrets: tuple[tuple[str, str], ...] = ()
    if user and password:
        header = basic(user, password)
        secrets = ((PASSWORD, password), (PASSWORD, header.partition(" ")[2]))
    elif token:
        header = f"Bearer {header_safe(TOKEN, token)}"
        secrets = ((TOKEN, token),)
    return ServiceAccount(
        service="MLflow",
        root=root_of(address, ADDRESS, is_secret=bool(header)),
        variable=ADDRESS,
        refused=f"Check {TOKEN}, or {USER} and {PASSWORD}.",
        headers=(("authorization", header),) if header else (),
        secrets=secrets,
    )


class MlflowApi:
    """The traces on one tracking server."""

    name = NAME

    def __init__(self, account: ServiceAccount, send: Send) -> None:
        self._client = ServiceClient(account, send)
        self._version = 3

    def listed(self, query: Query) -> Iterator[ListedTrace]:
        """Yield the traces of an experiment, or the failed ones, newest first."""
        experiment = self._experiment(query.project)
        pages = self._client.pages(lambda token: self._search(experiment, query, token), _page)
        for info in chain.from_iterable(pages):
            is_running = _RUNNING in (value_in(info, "state"), value_in(info, "status"))
            yield ListedTrace(id=text_in(info, "trace_id", "request_id"), is_running=is_running)

    def trace(self, trace_id: str, project: str = "") -> FetchedTrace:
        """Fetch a trace with its spans, which are in the tracking server or in a file beside it."""
        reply = self._client.get("/api/3.0/mlflow/traces/get", trace_id=trace_id, allow_partial="true")
        if reply.status not in _BAD:
            value = self._client.json(reply)
            trace = value_in(value, "trace")
            if not isinstance(trace, dict):
                raise self._client.failed("returned something that is not a trace")
            if trace.get("spans"):
                return FetchedTrace(document=file_of(trace))
        info = self._info(trace_id)
        reply = self._client.get("/ajax-api/2.0/mlflow/get-trace-artifact", request_id=trace_id)
        try:
            data = self._client.json(reply)
        except FetchFailed as error:
            problem = f"MLflow has the trace {trace_id!r}, but not its spans: {error.message}"
            raise FetchFailed(problem, hint=error.hint) from None
        return FetchedTrace(document={"info": info_of(info), "data": data})

    def _info(self, trace_id: str) -> JsonObject:
        name = quote(trace_id, safe="")
        reply = self._client.get(f"/api/3.0/mlflow/traces/{name}")
        is_old = reply.status in UNKNOWN and not _says_missing(reply)
        if is_old:
            reply = self._client.get(f"/api/2.0/mlflow/traces/{name}/info")
        if reply.status in _BAD:
            raise UsageError(f"MLflow has no trace {trace_id!r}")
        value = self._client.json(reply)
        if not is_old:
            value = value_in(value, "trace")
        info = value_in(value, "trace_info")
        if not isinstance(info, dict):
            raise self._client.failed("returned something that is not a trace")
        return info

    def _experiment(self, named: str) -> str:
        """Return the id of an experiment, given by name or id."""
        if named.isdecimal():
            reply = self._client.get("/api/2.0/mlflow/experiments/get", experiment_id=named)
        else:
            reply = self._client.get("/api/2.0/mlflow/experiments/get-by-name", experiment_name=named)
        if _says_missing(reply):
            raise UsageError(f"MLflow has no experiment {named!r}", hint="Name one, or its id: --experiment NAME")
        value = self._client.json(reply)
        experiment = value_in(value_in(value, "experiment"), "experiment_id")
        if not isinstance(experiment, str):
            raise self._client.failed("returned something that is not an experiment")
        return experiment

    def _search(self, experiment: str, query: Query, token: str | None) -> ServiceReply:
        """Fetch one page in the version that the server knows; a token is only valid in its own version."""
        options = {
            "filter": _filter(query),
            "max_results": _PAGE,
            "order_by": ["timestamp_ms DESC"],
            "page_token": token,
        }
        parameters = {name: value for name, value in options.items() if value}
        if self._version == 3:
            location = {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": experiment}}
            reply = self._client.post("/api/3.0/mlflow/traces/search", {"locations": [location], **parameters})
            if reply.status not in UNKNOWN or token is not None:
                return reply
            self._version = 2
        return self._client.get("/api/2.0/mlflow/traces", experiment_ids=[experiment], **parameters)


def _filter(query: Query) -> str:
    """Return the query as MLflow's filter string."""
    conditions = []
    status = {Status.ERROR: "ERROR", Status.WARNING: "OK"}.get(query.status)
    if status:
        conditions.append(f"trace.status = '{status}'")
    if query.since is not None:
        conditions.append(f"trace.timestamp_ms >= {int(query.since.timestamp() * 1000)}")
    if query.min_latency_ms:
        conditions.append(f"trace.execution_time_ms >= {int(query.min_latency_ms)}")
    return " AND ".join(conditions)


def _page(body: JsonObject) -> Page:
    return body.get("traces", []), body.get("next_page_token")


def _says_missing(reply: ServiceReply) -> bool:
    """True if the server knows the path but not the object; an unknown path is another kind of 404."""
    if reply.status not in _BAD:
        return False
    try:
        code = value_in(decode_lenient(reply.body), "error_code")
    except (ValueError, msgspec.MsgspecError):
        return False
    return bool(code == "RESOURCE_DOES_NOT_EXIST")


_PAIRS = ("request_metadata", "tags", "trace_metadata")
_NUMBERS = ("int_value", "intValue")
_PLAIN = words_of("string_value bool_value double_value bytes_value stringValue boolValue doubleValue bytesValue")
_ARRAYS, _OBJECTS = ("array_value", "arrayValue"), ("kvlist_value", "kvlistValue")
_TIMES = ("start_time_unix_nano", "end_time_unix_nano", "time_unix_nano")


def file_of(trace: JsonObject) -> JsonObject:
    """Return a trace `{trace_info, spans}` as a file holds it."""
    spans, info = trace.get("spans"), trace.get("trace_info")
    if isinstance(info, dict):
        info = info_of(info)
    if isinstance(spans, list):
        spans = list(map(_span, spans))
    return {"info": info, "data": {"spans": spans}}


def info_of(info: JsonObject) -> JsonObject:
    """Return the info with pairs as objects, and the duration in milliseconds."""
    converted = dict(info)
    for name in _PAIRS:
        if has_list(info, name):
            converted[name] = dict(_pairs(info[name]))
    duration = converted.pop("execution_duration", None)
    if isinstance(duration, str) and duration.endswith("s"):
        try:
            converted["execution_duration_ms"] = round(float(duration[:-1]) * 1000)
        except (ValueError, OverflowError):
            converted["execution_duration"] = duration
    return converted


def _pairs(value: Json) -> Iterator[tuple[str, Json]]:
    for pair in as_objects(value):
        if has_text(pair, "key"):
            yield pair["key"], pair.get("value")


def _span(span: Json) -> Json:
    """Return the span with attributes as files have them: as JSON texts, and in its events as plain values."""
    if not isinstance(span, dict):
        return span
    converted = _timed(span)
    if has_list(span, "attributes"):
        pairs = _pairs(span["attributes"])
        converted["attributes"] = {key: json.dumps(_value(value), ensure_ascii=False) for key, value in pairs}
    if has_list(span, "events"):
        converted["events"] = list(map(_event, span["events"]))
    return converted


def _event(event: Json) -> Json:
    if not isinstance(event, dict):
        return event
    attributes = event.get("attributes")
    if isinstance(attributes, list):
        attributes = {key: _value(value) for key, value in _pairs(attributes)}
    return _timed(event) | {"attributes": attributes or {}}


def _timed(value: JsonObject) -> JsonObject:
    """Return the object with its times as numbers; protobuf's JSON writes them as text."""
    return value | {name: _number(item) for name, item in pick(value, _TIMES).items()}


def _number(value: Json) -> Json:
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        return int(value)
    return value


def _value(value: Json) -> Json:
    """Return the value of an OpenTelemetry AnyValue; None if it is empty."""
    for name, item in as_object(value).items():
        if name in _PLAIN:
            return item
        if name in _NUMBERS:
            return _number(item)
        if name in _ARRAYS:
            return list(map(_value, list_in(item, "values")))
        if name in _OBJECTS:
            return {key: _value(member) for key, member in _pairs(value_in(item, "values"))}
    return None
