"""The native trace: one JSON object with `run_id`, `status` and `events`, easy to write by hand or with a logger.

    input_message {content}                 message  {role, content}      output_message | final_output {content}
    tool_call {tool_name, tool_args}        tool_result {output | error}  llm_call {model, messages, response, usage}
    state {state}   decision {content}      error {error}                 note {content}

Any event may have `timestamp` (ISO or epoch), `duration_ms`, `step` and `tool_call_id`. A file may hold one trace, a
list of them, or one on each line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from replaykit.errors import InvalidFile, nearest
from replaykit.formats.core.fields import STATUSES, Fields, TraceItem, error_of, status_of, tool_outcome
from replaykit.formats.core.registry import Found, documents_in, register_format, safely
from replaykit.formats.core.source import Source
from replaykit.model.events import (
    AnyEvent,
    Decision,
    ErrorEvent,
    ErrorInfo,
    LlmCall,
    Message,
    Note,
    State,
    ToolCall,
    Usage,
)
from replaykit.model.json_positions import DocumentPath
from replaykit.model.run import Origin, RunStatus, TraceRun
from replaykit.model.text_lines import words_of
from replaykit.model.values import ABSENT, NULL, Json, JsonObject, Raw
from replaykit.wire.json_fields import load_object

FORMAT = "replaykit"


def _recognises(source: Source) -> bool:
    value = source.first[0] if source.first else None
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, dict) and "events" in first and "run_id" in first


def _read_file(source: Source) -> Iterator[Found]:
    for item in documents_in(source):
        if isinstance(item, InvalidFile):
            yield item
            continue
        for member in item.members():
            yield from safely(_found, member)


register_format(FORMAT, "ReplayKit's own trace: `run_id`, `status`, `events`", _recognises, _read_file)


def _found(item: TraceItem) -> Iterator[Found]:
    notes: list[str] = []
    yield _read_run(item, notes)
    yield from notes


def _read_run(item: TraceItem, notes: list[str]) -> TraceRun:
    fields = item.fields("a trace: an object with `run_id`, `status` and `events`")
    if "events" not in fields.value:
        raise item.error("'events' is missing")
    run_id = fields.required_text("run_id")
    reader = EventReader(item.source, (*item.path, "events"), notes)
    for index, item in enumerate(fields.items("events")):
        reader.add(index, item)
    events = tuple(reader.events)
    status, error = _ending(fields, events)
    started_at, ended_at = _times(fields, events)
    return TraceRun(
        id=run_id,
        name=fields.text("name") or "",
        agent=fields.text("agent") or "",
        agent_version=fields.text("agent_version") or "",
        input_json=_input(fields, events),
        output_json=_output(fields, reader, status),
        status=status,
        error=error,
        started_at=started_at,
        ended_at=ended_at,
        tags=fields.texts("tags"),
        metadata_json=_metadata(fields, reader),  # last: it keeps the fields that nothing above has taken
        origin=Origin(kind="imported", format=FORMAT),
        event_count=len(events),
        events=events,
    )


def _ending(fields: Fields, events: tuple[AnyEvent, ...]) -> tuple[RunStatus, ErrorInfo | None]:
    errors = [event.error for event in events if isinstance(event, ErrorEvent)]
    error_value = fields.take("error")
    if error_value is not None:
        error = error_of(error_value)
    elif errors:
        error = errors[-1]
    else:
        error = None
    word = fields.text("status")
    if word is None:
        raise fields.source.error("'status' is missing", fields.path, hint=f"For example: {', '.join(RunStatus)}")
    status = status_of(word)
    if status is None:
        raise fields.error(f"unknown status {word!r}; {nearest(word, STATUSES)}", "status")
    # A run that recovered from an error event did not end with it.
    return status, error if error_value is not None or status is not RunStatus.SUCCESS else None


def _input(fields: Fields, events: tuple[AnyEvent, ...]) -> Raw:
    if fields.key("input"):
        return fields.raw("input")
    questions = (event.content_json for event in events if isinstance(event, Message) and event.role == "user")
    return next(questions, NULL)


def _output(fields: Fields, reader: EventReader, status: RunStatus) -> Raw:
    output = fields.raw("final_output", "output")
    if output != NULL:
        return output
    if reader.output_json is not None:
        return reader.output_json
    last = reader.events[-1] if reader.events else None
    if status is RunStatus.SUCCESS and isinstance(last, Message) and last.role == "assistant":
        return last.content_json
    return ABSENT


def _times(fields: Fields, events: tuple[AnyEvent, ...]) -> tuple[float, float | None]:
    timed = [event for event in events if event.at]
    started = fields.time("started_at", "start_time")
    ended = fields.time("ended_at", "end_time")
    if started is None:
        started = min((event.at for event in timed), default=0.0)
    if ended is None and timed:
        ended = max(event.at + event.duration_s for event in timed)
    return started, ended


def _metadata(fields: Fields, reader: EventReader) -> Raw:
    metadata = dict(fields.object("metadata"))
    max_steps = fields.number("max_steps")
    if max_steps is not None:
        metadata["max_steps"] = int(max_steps)
    unmapped = {"run": fields.rest(), "events": reader.unmapped}
    if any(unmapped.values()):
        metadata["unmapped"] = {key: value for key, value in unmapped.items() if value}
    return fields.source.raw(metadata, fields.path)


C = TypeVar("C", ToolCall, LlmCall)


class _OpenCall(msgspec.Struct):
    """A tool call without a result so far."""

    index: int  # in `events`
    call_id: str | None
    batch: int


class EventReader:
    """Turns the events of a trace into events of a run; `notes` names those that could not be mapped."""

    def __init__(self, source: Source, path: DocumentPath, notes: list[str]) -> None:
        self.events: list[AnyEvent] = []
        self.output_json: Raw | None = None
        self.unmapped: JsonObject = {}
        """Fields without a counterpart in the model, by the index of their event in the trace."""
        self._source = source
        self._path = path
        self._notes = notes
        self._open: list[_OpenCall] = []
        self._batch = 0
        self._last_time = 0.0

    def add(self, index: int, value: Json) -> None:
        fields = Fields(self._source, value, (*self._path, index), "an event: an object with `type`")
        kind = fields.required_text("type")
        if kind != "tool_call":
            self._batch += 1
        reader = _READERS.get(kind)
        if reader is None:
            self._keep(fields, kind, f"unknown event type {kind!r}")
            return
        reader(self, fields)
        if fields.rest():
            self.unmapped[str(index)] = fields.rest()

    def _common(self, fields: Fields) -> dict[str, Any]:
        at = fields.time("timestamp", "time")
        # An event without a time began no earlier than the one before it.
        if at is not None:
            self._last_time = at
        return {
            "seq": len(self.events),
            "at": self._last_time,
            "duration_s": (fields.number("duration_ms") or 0.0) / 1000,
            "step": _step(fields),
        }

    def _message(self, fields: Fields) -> None:
        role = fields.text("role") or ("user" if fields.value["type"] == "input_message" else "assistant")
        self.events.append(Message(**self._common(fields), role=role, content_json=fields.raw("content", "text")))

    def _output(self, fields: Fields) -> None:
        content = fields.raw("content", "output", "text")
        self.output_json = content
        self.events.append(Message(**self._common(fields), role="assistant", content_json=content))

    def _tool_call(self, fields: Fields) -> None:
        names = ("tool_args", "arguments", "args")
        arguments = _parsed(fields.take(*names))
        call = ToolCall(
            **self._common(fields),
            name=fields.required_text("tool_name", "tool", "name"),
            arguments_json=fields.canonical({} if arguments is None else arguments, *names),
        )
        call_id = fields.label("tool_call_id", "call_id", "id")
        if any(name in fields.value for name in ("output", "result", "error")):
            call = _answered(call, fields, "output", "result")
        else:
            self._open.append(_OpenCall(len(self.events), call_id, self._batch))
        self.events.append(call)

    def _tool_result(self, fields: Fields) -> None:
        waiting = self._waiting(fields.label("tool_call_id", "call_id", "id"), fields.text("tool_name", "tool", "name"))
        if waiting is None:
            self._keep(fields, "tool_result", "a tool_result that answers no call")
            return
        self._open.remove(waiting)
        call = self.events[waiting.index]
        assert isinstance(call, ToolCall)  # only those are ever opened
        ended_at = fields.time("timestamp", "time")
        if ended_at is not None:
            self._last_time = ended_at
            if call.at and not call.duration_s:
                call = replace(call, duration_s=max(0.0, ended_at - call.at))
        answered = _answered(call, fields, "output", "result", "content")
        # An empty result is still a result: the call returned.
        if not answered.answered:
            answered = replace(answered, result_json=NULL)
        self.events[waiting.index] = answered

    def _waiting(self, call_id: str | None, name: str | None) -> _OpenCall | None:
        """Return the call of a result: by id, or else the first of that name in the latest batch of calls."""
        fits = [o for o in self._open if name is None or getattr(self.events[o.index], "name", None) == name]
        if call_id is not None:
            return next((o for o in self._open if o.call_id == call_id), None)
        if fits:
            return next((o for o in fits if o.batch == fits[-1].batch), None)
        return None

    def _llm_call(self, fields: Fields) -> None:
        common = self._common(fields)
        usage = Fields(self._source, fields.object("usage"), (*fields.path, "usage"))
        counted = _usage(usage) if usage.value else None
        if usage.rest():
            self.unmapped[f"{fields.path[-1]}.usage"] = usage.rest()
        request = {key: fields.take(key) for key in _REQUEST if fields.key(key)}
        call = LlmCall(
            **common,
            name=fields.text("model", "name") or "",
            arguments_json=fields.canonical(request),
            finish_reason=fields.text("finish_reason", "stop_reason"),
            usage=counted,
        )
        self.events.append(_answered(call, fields, "response", "output", "result"))

    def _state(self, fields: Fields) -> None:
        self.events.append(State(**self._common(fields), state_json=fields.raw("state", "content")))

    def _decision(self, fields: Fields) -> None:
        self.events.append(Decision(**self._common(fields), content_json=fields.raw("content", "decision")))

    def _error(self, fields: Fields) -> None:
        error = error_of(fields.take("error", "message"))
        self.events.append(ErrorEvent(**self._common(fields), error=error))

    def _note(self, fields: Fields) -> None:
        name = fields.text("name") or "note"
        self.events.append(Note(**self._common(fields), name=name, content_json=fields.raw("content", "text")))

    def _keep(self, fields: Fields, kind: str, why: str) -> None:
        """Keep the whole event as a note."""
        common = self._common(fields)
        content = self._source.raw(fields.take_all(), fields.path)
        self.events.append(Note(**common, name=kind, content_json=content))
        self._notes.append(f"event {fields.path[-1]}: {why}; kept as a note")


_REQUEST = words_of("messages prompt system tools tool_choice parameters temperature max_tokens")

_READERS: dict[str, Callable[[EventReader, Fields], None]] = {
    "input_message": EventReader._message,
    "message": EventReader._message,
    "output_message": EventReader._output,
    "final_output": EventReader._output,
    "tool_call": EventReader._tool_call,
    "tool_result": EventReader._tool_result,
    "llm_call": EventReader._llm_call,
    "state": EventReader._state,
    "decision": EventReader._decision,
    "error": EventReader._error,
    "note": EventReader._note,
}


def _answered(call: C, fields: Fields, *names: str) -> C:
    """Return the call with the outcome in the fields, if there is one."""
    error, failed = fields.take("error"), fields.flag("is_error")
    present = any(name in fields.value for name in names)
    if failed and not error and present and isinstance(call, ToolCall):
        info, result = tool_outcome(fields.take(*names), failed=True)
        return replace(call, error=info, result_json=result)
    if error or failed:
        # An outcome is a result or an error; text beside the error stays with the unmapped fields.
        return replace(call, error=error_of(error or fields.take(*names), "ToolError"))
    return replace(call, result_json=fields.raw(*names) if present else ABSENT)


def _step(fields: Fields) -> str | None:
    step = fields.label("step", "step_id")
    if step is not None and step.isdecimal():
        return f"step_{step}"
    return step


def _parsed(arguments: Json) -> Json:
    """Return arguments that were logged as JSON text as an object."""
    found = None
    if isinstance(arguments, str):
        found = load_object(arguments)
    if found is None:
        return arguments
    return found


def _usage(fields: Fields) -> Usage:
    tokens_in = fields.number("input_tokens", "prompt_tokens")
    tokens_out = fields.number("output_tokens", "completion_tokens")
    return Usage(
        input_tokens=None if tokens_in is None else int(tokens_in),
        output_tokens=None if tokens_out is None else int(tokens_out),
        cost_usd=fields.number("cost_usd", "cost", "total_cost"),
    )
