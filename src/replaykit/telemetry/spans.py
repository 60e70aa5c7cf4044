"""The spans of a run: one for each call as its event arrives, and at the end those of the steps and the run."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

from msgspec import Struct

from replaykit.model.events import AnyEvent, Call, ErrorEvent, ErrorInfo, LlmCall, Shared, StoredEvent, ToolCall
from replaykit.model.run import RunHeader, RunStatus, TraceRun
from replaykit.model.values import encode
from replaykit.telemetry.call_attributes import UNKNOWN, asked_tools, call_attributes, has_span, made_tool, provider_of
from replaykit.telemetry.messages import spoken
from replaykit.telemetry.span import (
    Attributes,
    ExportedSpanEvent,
    TelemetrySpan,
    call_id,
    error_type,
    exception,
    nanoseconds,
    root_id,
    step_id,
    trace_key,
)

_MAX_SPAN_EVENTS = 128  # the SDK's own limit
_MAX_PENDING_TOOLS = 1024


class _StepSpan(Struct):
    """A step of the agent's loop, as far as its events show it."""

    id: int
    started_ns: int
    ended_ns: int
    happenings: list[ExportedSpanEvent] = []


class RunSpans:
    """Makes the spans of one run. Events may arrive in any order, from any thread."""

    def __init__(self, header: RunHeader, *, content: bool) -> None:
        self._key = trace_key(header)
        self._run_id = header.id
        self._content = content
        self.root_id = root_id(self._key)
        started_ns = nanoseconds(header.started_at)
        self._root = _StepSpan(self.root_id, started_ns, started_ns)
        self._steps: dict[str, _StepSpan] = {}
        self._pending_tool_ids: dict[tuple[str, bytes], deque[str]] = {}
        self._provider = ""
        self._tokens = [0, 0]
        self._lock = threading.Lock()

    def of(self, event: StoredEvent) -> TelemetrySpan | None:
        """Return the span of an event; None if it has none of its own."""
        if isinstance(event, Shared):
            return None  # it happened in the run that this one was forked from
        started = nanoseconds(event.at)
        ended = started + nanoseconds(event.duration_s)
        with self._lock:
            self._note(event, started, ended)
            tool_call_id = self._call_id(event)
        if not isinstance(event, Call) or not has_span(event):
            return None
        described = call_attributes(event, content=self._content, call_id=tool_call_id)
        attributes = described.attributes
        attributes["replaykit.run.id"] = self._run_id
        attributes["replaykit.event.seq"] = event.seq
        if event.faults:
            attributes["replaykit.faults"] = event.faults
        if not event.complete:
            attributes["replaykit.complete"] = False
        error = event.error
        if error is not None:
            attributes["error.type"] = error_type(error)
        return TelemetrySpan(
            id=call_id(self.root_id, event.seq),
            parent=self._parent(event),
            name=described.name,
            kind=described.kind,
            started_ns=started,
            ended_ns=ended,
            attributes=attributes,
            happenings=() if error is None else (exception(error, ended),),
            failure=_failure(error, attributes),
        )

    def rest(self, header: RunHeader) -> Iterator[TelemetrySpan]:
        """Yield the spans that only the end of the run completes: its steps, and the run."""
        for name, step in self._steps.items():
            yield TelemetrySpan(
                id=step.id,
                parent=self.root_id,
                name=name,
                started_ns=step.started_ns,
                ended_ns=step.ended_ns,
                attributes={
                    "gen_ai.operation.name": "agent_step",
                    "replaykit.run.id": self._run_id,
                    "replaykit.step": name,
                },
                happenings=tuple(step.happenings[:_MAX_SPAN_EVENTS]),
            )
        yield self._whole(header)

    def _whole(self, header: RunHeader) -> TelemetrySpan:
        root = self._root
        started = nanoseconds(header.started_at) or root.started_ns
        ended = nanoseconds(header.ended_at) if header.ended_at else root.ended_ns
        ended = max(started, ended)
        error = header.error
        happenings = list(root.happenings)
        if error is not None:
            happenings.append(exception(error, ended))
        return TelemetrySpan(
            id=self.root_id,
            parent=0,
            name=root_name(header),
            started_ns=started,
            ended_ns=ended,
            attributes=self._root_attributes(header),
            happenings=tuple(happenings[-_MAX_SPAN_EVENTS:]),
            failure=_outcome(header),
        )

    def _root_attributes(self, header: RunHeader) -> Attributes:
        attributes = root_attributes(header) | {
            "gen_ai.provider.name": self._provider or UNKNOWN,
            "replaykit.run.status": header.status.value,
        }
        for name, tokens in zip(("input", "output"), self._tokens, strict=True):
            if tokens:
                attributes[f"gen_ai.usage.{name}_tokens"] = tokens
        if header.error is not None:
            attributes["error.type"] = error_type(header.error)
        elif header.status in _FAILED:
            attributes["error.type"] = header.status.value
        if self._content:
            attributes["gen_ai.input.messages"] = encode(spoken(header.input, "user")).decode()
            if header.output_json:
                messages = [{**spoken(header.output, "assistant")[0], "finish_reason": "stop"}]
                attributes["gen_ai.output.messages"] = encode(messages).decode()
        return attributes

    def _note(self, event: AnyEvent, started: int, ended: int) -> None:
        """Update the spans around an event."""
        around = self._root
        if event.step is not None and (event.parent is None or event.step in self._steps):
            if event.step not in self._steps:
                self._steps[event.step] = _StepSpan(step_id(self._key, event.step), started, ended)
            around = self._steps[event.step]
            around.started_ns = min(around.started_ns, started)
            around.ended_ns = max(around.ended_ns, ended)
        self._root.ended_ns = max(self._root.ended_ns, ended)
        if isinstance(event, ErrorEvent) and len(around.happenings) < _MAX_SPAN_EVENTS:
            around.happenings.append(exception(event.error, started))
        elif isinstance(event, LlmCall):
            self._provider = self._provider or provider_of(event)
            if event.usage is not None:
                self._tokens[0] += event.usage.input_tokens or 0
                self._tokens[1] += event.usage.output_tokens or 0

    def _call_id(self, event: AnyEvent) -> str:
        """Return the id under which a model requested the tool call."""
        if isinstance(event, LlmCall):
            for key, identity in asked_tools(event):
                if len(self._pending_tool_ids) < _MAX_PENDING_TOOLS:
                    self._pending_tool_ids.setdefault(key, deque()).append(identity)
        elif isinstance(event, ToolCall) and self._pending_tool_ids:
            waiting = self._pending_tool_ids.get(made_tool(event))
            if waiting:
                return waiting.popleft()
        return ""

    def _parent(self, event: AnyEvent) -> int:
        if event.parent is not None:
            return call_id(self.root_id, event.parent)
        if event.step is None:
            return self.root_id
        return self._steps[event.step].id


def spans_of(run: TraceRun, *, content: bool) -> list[TelemetrySpan]:
    """Return all spans of a finished run: the run's own, then the others in the order they began."""
    run_spans = RunSpans(run.header, content=content)
    calls = [span for event in run.events if (span := run_spans.of(event)) is not None]
    *steps, root = run_spans.rest(run.header)
    return [root, *sorted((*steps, *calls), key=lambda span: (span.started_ns, -span.ended_ns))]


def root_name(header: RunHeader) -> str:
    """Return the name of the run's own span."""
    return f"invoke_agent {header.agent or header.name}".rstrip()


def root_attributes(header: RunHeader) -> Attributes:
    """Return the attributes of a run that are known when it begins."""
    attributes: Attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": header.agent or header.name,
        "gen_ai.agent.version": header.agent_version,
        "replaykit.run.id": header.id,
        "replaykit.run.name": header.name,
        "replaykit.origin.kind": header.origin.kind,
        "replaykit.origin.run": header.origin.run or "",
        "replaykit.origin.step": header.origin.step or "",
        "replaykit.tags": header.tags,
    }
    return {name: value for name, value in attributes.items() if value}


_FAILED = (RunStatus.ERROR, RunStatus.TIMEOUT, RunStatus.CANCELLED)


def _failure(error: ErrorInfo | None, attributes: Attributes) -> str | None:
    if error is not None:
        return error.message or error.type
    if "error.type" in attributes:
        return ""
    return None


def _outcome(header: RunHeader) -> str | None:
    if header.error is not None:
        return header.error.message or header.error.type
    if header.status in _FAILED:
        return header.status.value
    return None
