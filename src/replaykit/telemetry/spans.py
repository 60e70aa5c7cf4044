"""The spans of a run: one for each call as its event comes, and in the end those of the steps and of the run itself."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

from replaykit.model.events import AnyEvent, Call, ErrorEvent, ErrorInfo, LlmCall, Shared, StoredEvent, ToolCall
from replaykit.model.run import RunHeader, RunStatus, TraceRun
from replaykit.model.values import encode
from replaykit.telemetry.calls import asked_tools, has_span, made_tool, provider_of, said_of
from replaykit.telemetry.messages import spoken
from replaykit.telemetry.models import UNKNOWN
from replaykit.telemetry.span import (
    Attributes,
    Happening,
    Span,
    call_id,
    error_type,
    exception,
    nanoseconds,
    root_id,
    step_id,
    trace_key,
)

_MOST_HAPPENINGS = 128  # what the SDK keeps of a span
_MOST_ASKED = 1024


class _Step:
    """A stretch of the agent's loop, as far as its events tell."""

    __slots__ = ("ended_ns", "happenings", "id", "started_ns")

    def __init__(self, identity: int, started_ns: int) -> None:
        self.id = identity
        self.started_ns = started_ns
        self.ended_ns = started_ns
        self.happenings: list[Happening] = []


class RunSpans:
    """Makes the spans of one run. Events may come in any order, from any thread."""

    def __init__(self, header: RunHeader, *, content: bool) -> None:
        self._key = trace_key(header)
        self._run_id = header.id
        self._content = content
        self.root_id = root_id(self._key)
        self._root = _Step(self.root_id, nanoseconds(header.started_at))
        self._steps: dict[str, _Step] = {}
        self._asked: dict[tuple[str, bytes], deque[str]] = {}
        self._provider = ""
        self._tokens = [0, 0]
        self._lock = threading.Lock()

    def of(self, event: StoredEvent) -> Span | None:
        """The span of an event; None where it has none of its own."""
        if isinstance(event, Shared):
            return None  # it happened in the run that this one was forked from
        started = nanoseconds(event.at)
        ended = started + nanoseconds(event.duration_s)
        with self._lock:
            self._note(event, started, ended)
            asked_as = self._call_id(event)
        if not isinstance(event, Call) or not has_span(event):
            return None
        said = said_of(event, content=self._content, call_id=asked_as)
        attributes = said.attributes
        attributes["replaykit.run.id"] = self._run_id
        attributes["replaykit.event.seq"] = event.seq
        if event.faults:
            attributes["replaykit.faults"] = event.faults
        if not event.complete:
            attributes["replaykit.complete"] = False
        error = event.error
        if error is not None:
            attributes["error.type"] = error_type(error)
        return Span(
            id=call_id(self.root_id, event.seq),
            parent=self._parent(event),
            name=said.name,
            kind=said.kind,
            started_ns=started,
            ended_ns=ended,
            attributes=attributes,
            happenings=() if error is None else (exception(error, ended),),
            failure=_failure(error, attributes),
        )

    def rest(self, header: RunHeader) -> Iterator[Span]:
        """The spans that only the end of the run completes: its steps, and the run."""
        for name, step in self._steps.items():
            yield Span(
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
                happenings=tuple(step.happenings[:_MOST_HAPPENINGS]),
            )
        yield self._whole(header)

    def _whole(self, header: RunHeader) -> Span:
        root = self._root
        started = nanoseconds(header.started_at) or root.started_ns
        ended = max(started, nanoseconds(header.ended_at) if header.ended_at else root.ended_ns)
        error = header.error
        happenings = root.happenings if error is None else [*root.happenings, exception(error, ended)]
        return Span(
            id=self.root_id,
            parent=0,
            name=root_name(header),
            started_ns=started,
            ended_ns=ended,
            attributes=self._about(header),
            happenings=tuple(happenings[-_MOST_HAPPENINGS:]),
            failure=_outcome(header),
        )

    def _about(self, header: RunHeader) -> Attributes:
        said = root_attributes(header) | {
            "gen_ai.provider.name": self._provider or UNKNOWN,
            "replaykit.run.status": header.status.value,
        }
        for name, tokens in zip(("input", "output"), self._tokens, strict=True):
            if tokens:
                said[f"gen_ai.usage.{name}_tokens"] = tokens
        if header.error is not None:
            said["error.type"] = error_type(header.error)
        elif header.status in _FAILED:
            said["error.type"] = header.status.value
        if self._content:
            said["gen_ai.input.messages"] = encode(spoken(header.input, "user")).decode()
            if header.output_json:
                told = [{**spoken(header.output, "assistant")[0], "finish_reason": "stop"}]
                said["gen_ai.output.messages"] = encode(told).decode()
        return said

    def _note(self, event: AnyEvent, started: int, ended: int) -> None:
        """What the spans around an event have of it."""
        around = self._root
        if event.step is not None and (event.parent is None or event.step in self._steps):
            around = self._steps.get(event.step) or self._new_step(event.step, started)
            around.started_ns = min(around.started_ns, started)
            around.ended_ns = max(around.ended_ns, ended)
        self._root.ended_ns = max(self._root.ended_ns, ended)
        if isinstance(event, ErrorEvent) and len(around.happenings) < _MOST_HAPPENINGS:
            around.happenings.append(exception(event.error, started))
        elif isinstance(event, LlmCall):
            self._provider = self._provider or provider_of(event)
            if event.usage is not None:
                self._tokens[0] += event.usage.input_tokens or 0
                self._tokens[1] += event.usage.output_tokens or 0

    def _new_step(self, name: str, started: int) -> _Step:
        found = self._steps[name] = _Step(step_id(self._key, name), started)
        return found

    def _call_id(self, event: AnyEvent) -> str:
        """The id under which a model asked for the call of a tool."""
        if isinstance(event, LlmCall):
            for key, identity in asked_tools(event):
                if len(self._asked) < _MOST_ASKED:
                    self._asked.setdefault(key, deque()).append(identity)
        elif isinstance(event, ToolCall) and self._asked:
            waiting = self._asked.get(made_tool(event))
            if waiting:
                return waiting.popleft()
        return ""

    def _parent(self, event: AnyEvent) -> int:
        if event.parent is not None:
            return call_id(self.root_id, event.parent)
        return self.root_id if event.step is None else self._steps[event.step].id


def spans_of(run: TraceRun, *, content: bool) -> list[Span]:
    """All spans of a run that has ended, the run itself first, then in the order they began."""
    made = RunSpans(run.header, content=content)
    calls = [span for event in run.events if (span := made.of(event)) is not None]
    *steps, root = made.rest(run.header)
    return [root, *sorted((*steps, *calls), key=lambda span: (span.started_ns, -span.ended_ns))]


def root_name(header: RunHeader) -> str:
    """The name of the run's own span."""
    return f"invoke_agent {header.agent or header.name}".rstrip()


def root_attributes(header: RunHeader) -> Attributes:
    """What is known of a run when it begins."""
    said: Attributes = {
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
    return {name: value for name, value in said.items() if value}


_FAILED = (RunStatus.ERROR, RunStatus.TIMEOUT, RunStatus.CANCELLED)


def _failure(error: ErrorInfo | None, attributes: Attributes) -> str | None:
    if error is not None:
        return error.message or error.type
    return "" if "error.type" in attributes else None


def _outcome(header: RunHeader) -> str | None:
    if header.error is not None:
        return header.error.message or header.error.type
    return header.status.value if header.status in _FAILED else None
