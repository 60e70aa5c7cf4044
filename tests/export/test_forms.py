"""Exports: a run goes out in each form, and comes back through the importer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import replaykit as rk
from replaykit.errors import UsageError
from replaykit.export.forms import export_run
from replaykit.formats.files import import_trace
from replaykit.model.events import Decision, ErrorEvent, ErrorInfo, LlmCall, Message, Note, ToolCall, Usage
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Raw, canonical, raw


def place(seq: int) -> dict[str, Any]:
    return {"seq": seq, "at": 1.7e9 + seq, "step": "plan"}


RUN = TraceRun(
    id="run-1",
    name="billing",
    agent="assistant",
    agent_version="2",
    input_json=raw({"question": "why?"}),
    output_json=raw("because"),
    status=RunStatus.ERROR,
    error=ErrorInfo(type="RuntimeError", message="gave up"),
    started_at=1.7e9,
    ended_at=1.7e9 + 9,
    tags=("prod",),
    metadata_json=raw({"region": "eu"}),
    event_count=8,
    events=(
        Message(**place(0), role="user", content_json=raw("why?")),
        LlmCall(
            **place(1),
            name="m-1",
            arguments_json=Raw(canonical({"messages": [{"role": "user", "content": "why?"}], "temperature": 0.5})),
            result_json=raw({"role": "assistant", "content": "let me look"}),
            finish_reason="tool_calls",
            usage=Usage(input_tokens=10, output_tokens=3, cost_usd=0.01),
            duration_s=0.25,
        ),
        ToolCall(**place(2), name="look", arguments_json=Raw(canonical({"b": 1, "a": 2})), result_json=raw(None)),
        ToolCall(**place(3), name="look", arguments_json=Raw(b"{}"), error=ErrorInfo(type="Timeout", message="late")),
        ToolCall(**place(4), name="look", arguments_json=Raw(b"{}"), result_json=raw([1, {"x": "é"}]), duration_s=1.5),
        Decision(**place(5), content_json=raw("stop")),
        Note(**place(6), name="weather", content_json=raw({"sky": "grey"})),
        ErrorEvent(**place(7), error=ErrorInfo(type="RuntimeError", message="gave up")),
    ),
)


def imported(text: bytes, directory: Path) -> TraceRun:
    file = directory / "trace.json"
    file.write_bytes(text)
    (run,) = import_trace(file).runs
    return run


def test_the_run_log_keeps_everything(tmp_path: Path) -> None:
    assert imported(export_run(RUN, "run_log"), tmp_path) == RUN


def test_the_native_trace_keeps_what_was_said_called_and_answered(tmp_path: Path) -> None:
    back = imported(export_run(RUN, "replaykit"), tmp_path)

    assert back.events == RUN.events
    for name in ("id", "name", "agent", "agent_version", "input", "output", "status", "error", "tags", "metadata"):
        assert getattr(back, name) == getattr(RUN, name), name
    assert (back.started_at, back.ended_at) == (RUN.started_at, RUN.ended_at)


def test_a_recorded_run_with_values_beyond_json_is_exported(store: rk.Store, tmp_path: Path) -> None:
    @rk.tool
    def odd() -> Any:
        return {1: complex(1, 2), "raw": b"\xff", "what": object()}

    with rk.record("odd", store=store) as run:
        odd()
        run.checkpoint({"n": 1})

    for form in ("run_log", "replaykit"):
        assert imported(export_run(store.load(run.id), form), tmp_path).tool_calls[0].name == "odd"


def test_an_unknown_form_is_answered_with_those_there_are() -> None:
    with pytest.raises(UsageError, match="run_log"):
        export_run(RUN, "runlog")
