"""Turned off, telemetry is not there: not a module of OpenTelemetry, not a member of a header."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from tests.matrix import sampled

import replaykit as rk

AGENT = """
import sys
import replaykit as rk

@rk.tool
def search(query):
    return query

with rk.record("billing") as run:
    search("x")
{more}
print(sorted(name for name in sys.modules if name.startswith("opentelemetry")), file=sys.stderr)
"""


def run(more: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "REPLAYKIT_"))}
    return subprocess.run(
        [sys.executable, "-c", AGENT.format(more=more)],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


def test_a_recording_imports_nothing_of_opentelemetry() -> None:
    assert run().stderr == "[]\n"


def test_nor_do_a_replay_an_export_and_the_name_telemetry() -> None:
    more = """
from replaykit.export.forms import export_run
rk.telemetry
with rk.Store.open(".replaykit/store.db") as store:
    recorded = store.load("billing")
rk.replay(recorded, lambda given: search("x"))
export_run(recorded, "otlp")
"""
    assert run(more).stderr == "[]\n"


def test_the_variable_turns_it_on() -> None:
    ran = run(REPLAYKIT_OTEL="1", OTEL_TRACES_EXPORTER="console", OTEL_METRICS_EXPORTER="none")
    assert '"name": "execute_tool search"' in ran.stderr
    assert '"service.name": "replaykit"' in ran.stderr
    assert ran.stdout == ""
    assert "opentelemetry.sdk.trace" in ran.stderr


@sampled("exporter", ["otlp", "console", "none"], count=1)
def test_metrics_go_where_their_variable_says(exporter: str) -> None:
    ran = run(
        REPLAYKIT_OTEL="on",
        OTEL_TRACES_EXPORTER="none",
        OTEL_METRICS_EXPORTER=exporter,
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9",
        OTEL_EXPORTER_OTLP_TIMEOUT="1",
        OTEL_SERVICE_NAME="mine",
    )
    assert ("replaykit.runs" in ran.stderr) == (exporter == "console")
    assert ("mine" in ran.stderr) == (exporter == "console")


def test_an_exporter_that_is_not_known_costs_the_trace_and_not_the_run() -> None:
    ran = run(
        'print(rk.Store.open(".replaykit/store.db").header("billing").status)',
        REPLAYKIT_OTEL="1",
        OTEL_TRACES_EXPORTER="jaeger",
    )
    assert ran.stdout == "success\n"
    assert "OTEL_TRACES_EXPORTER='jaeger': ReplayKit sets up one of otlp, console, none" in ran.stderr
    assert ran.stderr.count("jaeger") == 1


def test_without_the_sdk_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    for name in [name for name in sys.modules if name.startswith(("opentelemetry.", "replaykit.telemetry.live_spans"))]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(rk.ReplayKitError) as caught:
        rk.telemetry.enable()
    assert "the OpenTelemetry SDK is not installed" in str(caught.value)
    assert "pip install '.[otel]'" in str(caught.value)


def test_a_run_that_nobody_watches_names_no_trace(store: Any) -> None:
    with rk.record("billing", store=store) as run:
        pass
    assert store.header(run.id).metadata == {}
