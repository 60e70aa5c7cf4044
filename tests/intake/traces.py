"""Small traces for tests of imports."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from replaykit.formats.core.registry import Found
from replaykit.formats.core.replayability import Lack, with_lacks
from replaykit.formats.core.source import Source
from replaykit.model.events import ErrorInfo, LlmCall, ToolCall, Usage
from replaykit.model.run import Origin, RunStatus, TraceRun
from replaykit.model.values import ABSENT, raw

ADVICE = "Turn on `capture_content` in the SDK."


def native(run_id: str = "native-1", **more: Any) -> dict[str, Any]:
    """A run in the native format."""
    events = [
        {"type": "tool_call", "tool_name": "search", "tool_args": {"q": 1}, "output": {"hits": [1, 2]}},
        {"type": "final_output", "content": "two"},
    ]
    return {"run_id": run_id, "status": "success", "input": "how many?", "events": events, **more}


def failed(run_id: str, message: str = "the database is gone away", **more: Any) -> dict[str, Any]:
    """A run in the native format that failed."""
    events = [
        {"type": "tool_call", "tool_name": "search", "tool_args": {"q": 1}, "output": {"hits": [1, 2]}},
        {"type": "error", "message": message},
    ]
    return native(run_id, status="error", events=events, **more)


def written(name: str, value: Any) -> Path:
    """A file of this value, or of these bytes."""
    file = Path(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())
    return file


def lines(values: Iterable[Any]) -> bytes:
    """A document on each line."""
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


class Partial:
    """A format that loses things: each line is `ID` and what the calls of its run lack."""

    name = "partial"
    title = "Partial traces"

    def recognises(self, source: Source) -> bool:
        return source.head.startswith(b"PARTIAL")

    def read(self, source: Source) -> Iterator[Found]:
        for line in source.text.decode().splitlines()[1:]:
            run_id, *lacks = line.split()
            yield partial_run(run_id, [[Lack(word) for word in lack.split("+") if word != "-"] for lack in lacks])


def partial_run(run_id: str, lacks: list[list[Lack]]) -> TraceRun:
    """A failed run with a tool call for each list of what it lacks, behind one whole call of a model."""
    model = LlmCall(
        seq=0,
        name="gpt",
        arguments_json=raw({"messages": [{"role": "user", "content": "hello"}]}),
        result_json=raw({"role": "assistant", "content": "hi"}),
        usage=Usage(input_tokens=1200, output_tokens=34),
    )
    tools = [
        ToolCall(
            seq=number,
            name=f"tool_{number}",
            arguments_json=raw({"n": number}),
            result_json=ABSENT if Lack.RESULT in lack else raw({"ok": number}),
        )
        for number, lack in enumerate(lacks, 1)
    ]
    run = TraceRun(
        id=run_id,
        name="partial",
        agent="support",
        status=RunStatus.ERROR,
        error=ErrorInfo(type="RuntimeError", message=f"it broke in {run_id}, and that is that"),
        started_at=1_771_000_000.0,
        tags=("nightly",),
        origin=Origin(kind="imported", format="partial"),
        events=(model, *tools),
    )
    return with_lacks(run, {n: [lack for lack in found if lack is not Lack.RESULT] for n, found in enumerate(lacks, 1)},
                      [ADVICE])  # fmt: skip
