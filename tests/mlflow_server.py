"""A server on loopback that answers as a tracking server of MLflow does, in both versions of its API."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from tests.formats.samples import sample, unpacked
from tests.service_server import Fake, Said, Seen, serving

TOKEN = "mlflow-token-0123456789"
EXPERIMENTS = {"1": "support"}
Trace = dict[str, Any]
_MISSING = "RESOURCE_DOES_NOT_EXIST"


def trace_of(name: str = "trace_to_json", trace_id: str | None = None, **info: Any) -> Trace:
    """A sample, perhaps under another id, with other things said of it."""
    trace: Trace = json.loads(unpacked(sample(f"mlflow/{name}.json")))
    trace["info"] |= {"trace_id": trace_id or trace["info"]["trace_id"], **info}
    return trace


def any_value(value: Any) -> dict[str, Any]:
    """The value as OpenTelemetry says it, in JSON that keeps the names of protobuf."""
    match value:
        case None:
            return {}
        case bool():
            return {"bool_value": value}
        case str():
            return {"string_value": value}
        case int():
            return {"int_value": value}
        case float():
            return {"double_value": value}
        case list():
            return {"array_value": {"values": [any_value(item) for item in value]} if value else {}}
        case _:
            values = [{"key": key, "value": any_value(item)} for key, item in value.items()]
            return {"kvlist_value": {"values": values} if values else {}}


class FakeMlflow(Fake):
    """What the server holds."""

    def __init__(self) -> None:
        super().__init__()
        self.traces: list[Trace] = []
        self.version = 3
        self.in_files = False
        """Spans lie among the artifacts, and not in the tracking server."""
        self.page = 100
        self.authorization = f"Bearer {TOKEN}"

    def usual(self, seen: Seen) -> Said:
        if seen.headers.get("authorization", "") != self.authorization:
            return Said(401, b"You are not authenticated.")
        route = seen.route
        if route == "/api/2.0/mlflow/experiments/get-by-name":
            return self._experiment([one for one, name in EXPERIMENTS.items() if name == seen.asks("experiment_name")])
        if route == "/api/2.0/mlflow/experiments/get":
            return self._experiment([one for one in EXPERIMENTS if one == seen.asks("experiment_id")])
        if route == "/ajax-api/2.0/mlflow/get-trace-artifact":
            return self._of(seen.asks("request_id"), lambda trace: trace["data"])
        if route == "/api/2.0/mlflow/traces" and seen.method == "GET":
            return self._search(seen.query, int(seen.asks("max_results") or 0), seen.asks("page_token"), _info_v2)
        if found := re.fullmatch(r"/api/2.0/mlflow/traces/([^/]+)/info", route):
            return self._of(found[1], lambda trace: {"trace_info": _info_v2(trace)})
        return self._v3(seen) if self.version == 3 else Said(404, b"<html>Not Found</html>")

    def _v3(self, seen: Seen) -> Said:
        if seen.route == "/api/3.0/mlflow/traces/search" and seen.method == "POST":
            asked = {**seen.body, "filter": [seen.body.get("filter", "")]}
            return self._search(asked, seen.body["max_results"], seen.body.get("page_token"), _info_v3)
        if seen.route == "/api/3.0/mlflow/traces/get" and not self.in_files:
            return self._of(seen.asks("trace_id"), lambda trace: {"trace": _proto(trace)})
        if found := re.fullmatch(r"/api/3.0/mlflow/traces/([^/]+)", seen.route):
            return self._of(found[1], lambda trace: {"trace": {"trace_info": _info_v3(trace)}})
        return Said(404, b"<html>Not Found</html>")

    def _experiment(self, found: list[str]) -> Said:
        if not found:
            return Said(404, {"error_code": _MISSING, "message": "Could not find experiment"})
        return Said(200, {"experiment": {"experiment_id": found[0], "name": EXPERIMENTS[found[0]]}})

    def _of(self, trace_id: str | None, shape: Any) -> Said:
        found = [trace for trace in self.traces if trace["info"]["trace_id"] == trace_id]
        missing = {"error_code": _MISSING, "message": f"Trace with ID '{trace_id}' not found."}
        return Said(200, shape(found[0])) if found else Said(404, missing)

    def _search(self, asked: Any, size: int, token: str | None, shape: Any) -> Said:
        wanted = asked.get("filter", [""])[0]
        assert asked["order_by"] == ["timestamp_ms DESC"]
        found = [trace for trace in self.traces if _fits(trace["info"], wanted)]
        found.sort(key=lambda trace: trace["info"]["request_time"], reverse=True)
        begin = int(token or 0)
        end = begin + min(self.page, size)
        more = {"next_page_token": str(end)} if end < len(found) else {}
        listed = {"traces": [shape(trace) for trace in found[begin:end]]} if found else {}  # empty lists are left out
        return Said(200, listed | more)


def _ms(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1000)


def _fits(info: Trace, wanted: str) -> bool:
    for part in wanted.split(" AND ") if wanted else ():
        name, operator, value = part.split(" ")
        held = {
            "trace.status": f"'{info['state']}'",
            "trace.timestamp_ms": _ms(info["request_time"]),
            "trace.execution_time_ms": info["execution_duration_ms"],
        }[name]
        if not (held == value if operator == "=" else held >= int(value)):  # type: ignore[operator]
            return False
    return True


def _info_v3(trace: Trace) -> Trace:
    info = dict(trace["info"])
    return info | {"execution_duration": f"{info.pop('execution_duration_ms') / 1000:.3f}s"}


def _info_v2(trace: Trace) -> Trace:
    info = trace["info"]
    return {
        "request_id": info["trace_id"],
        "experiment_id": "1",
        "timestamp_ms": _ms(info["request_time"]),
        "execution_time_ms": info["execution_duration_ms"],
        "status": info["state"],
        "request_metadata": [{"key": key, "value": value} for key, value in info["trace_metadata"].items()],
        "tags": [{"key": key, "value": value} for key, value in info["tags"].items()],
    }


def _proto(trace: Trace) -> Trace:
    """The trace with its spans as OpenTelemetry's protobuf says them in JSON."""

    def attributes(values: Trace, *, are_texts: bool) -> list[Trace]:
        said = {key: json.loads(value) if are_texts else value for key, value in values.items()}
        return [{"key": key, "value": any_value(value)} for key, value in said.items()]

    spans = [
        {
            **{name: value for name, value in span.items() if value is not None},
            "start_time_unix_nano": str(span["start_time_unix_nano"]),
            "attributes": attributes(span["attributes"], are_texts=True),
            "events": [
                {**event, "attributes": attributes(event["attributes"], are_texts=False)} for event in span["events"]
            ],
        }
        for span in trace["data"]["spans"]
    ]
    return {"trace_info": _info_v3(trace), "spans": spans}


def set_account(fake: FakeMlflow, monkeypatch: Any) -> None:
    """Let the environment name the server, and nothing else."""
    for name in ("USERNAME", "PASSWORD"):
        monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", fake.url)
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", TOKEN)
    monkeypatch.setattr("replaykit.intake.services.transport.FIRST_PAUSE_S", 0.0)


@contextmanager
def mlflow_server() -> Iterator[FakeMlflow]:
    """A server, for as long as the block runs."""
    with serving(FakeMlflow()) as fake:
        yield fake
