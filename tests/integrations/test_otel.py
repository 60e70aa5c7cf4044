"""Commands tell their runs to a collector over OTLP: the SDK's own exporter, and a server on loopback."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.matrix import sampled

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

AGENT = """
import urllib.request
import replaykit as rk

@rk.tool
def search(query):
    return query

def answer(question):
    return search(question)

if __name__ == "__main__":
    print(answer("x"))
"""
CASE = """\
replaykit: 1
id: finds
title: The agent finds nothing
scenario:
  input: "x"
observed:
  - status_is: error
desired:
  - status_is: success
"""


class Collector(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: list[tuple[str, bytes]] = []

    @property
    def spans(self) -> list[Any]:
        requests = [ExportTraceServiceRequest.FromString(body) for path, body in self.bodies if path == "/v1/traces"]
        return [s for r in requests for held in r.resource_spans for scope in held.scope_spans for s in scope.spans]

    @property
    def metrics(self) -> set[str]:
        requests = [ExportMetricsServiceRequest.FromString(body) for path, body in self.bodies if path == "/v1/metrics"]
        scopes = [scope for r in requests for held in r.resource_metrics for scope in held.scope_metrics]
        return {metric.name for scope in scopes for metric in scope.metrics}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        packed = self.headers.get("Content-Encoding") == "gzip"
        self.server.bodies.append((self.path, gzip.decompress(body) if packed else body))  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def replaykit(collector: Collector, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "REPLAYKIT_"))}
    endpoint = f"http://127.0.0.1:{collector.server_address[1]}"
    return subprocess.run(
        [sys.executable, "-m", "replaykit", *arguments],
        env={**clean, "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, **environment},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def text_of(span: Any, name: str) -> str:
    return next((str(a.value.string_value) for a in span.attributes if a.key == name), "")


@sampled("turned_on", [("--otel",), ()], count=1)
def test_a_recorded_program_is_one_trace(collector: Collector, tmp_path: Path, turned_on: tuple[str, ...]) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    environment = {} if turned_on else {"REPLAYKIT_OTEL": "1"}

    ran = replaykit(collector, "record", *turned_on, "--", sys.executable, "agent.py", **environment)

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "x\n"
    tool, root = sorted(collector.spans, key=lambda span: span.name)
    assert (tool.name, root.name) == ("execute_tool search", "invoke_agent agent")
    assert tool.parent_span_id == root.span_id
    assert {"replaykit.runs", "replaykit.store.size"} <= collector.metrics
    found = replaykit(collector, "runs", "--trace", root.trace_id.hex(), "--json").stdout
    assert text_of(root, "replaykit.run.id") in found


def test_a_replayed_case_is_one_trace(collector: Collector, tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    case = tmp_path / "cases" / "finds"
    case.mkdir(parents=True)
    (case / "case.yaml").write_text(CASE)

    ran = replaykit(collector, "replay", "--otel", "cases/finds", "--agent", "agent:answer", "--live", "search")

    (root,) = [span for span in collector.spans if span.name.startswith("invoke_agent")]
    assert (ran.returncode, "Desired assertions: 1/1 passed" in ran.stdout) == (0, True)
    assert text_of(root, "replaykit.origin.kind") == "replayed"
    assert {"replaykit.replays", "replaykit.replay.duration"} <= collector.metrics


@pytest.mark.exhaustive
def test_a_collector_that_is_not_there_costs_no_run(collector: Collector, tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)

    ran = replaykit(
        collector,
        *("record", "--otel", "--", sys.executable, "agent.py"),
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9",
        OTEL_EXPORTER_OTLP_TIMEOUT="1",
    )

    assert (ran.returncode, ran.stdout) == (0, "x\n")
    assert "agent" in replaykit(collector, "runs").stdout
