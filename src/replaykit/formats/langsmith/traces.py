"""Turn a trace of LangSmith, a root and all runs below it, into a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET, Struct

from replaykit.errors import nearest
from replaykit.formats.core.fields import STATUSES, ending_of, status_of
from replaykit.formats.core.labels import Label, labelled, says_failure
from replaykit.formats.core.langchain_messages import message_body, message_of, read_outputs
from replaykit.formats.core.registry import Found
from replaykit.formats.langsmith.documents import FORMAT
from replaykit.formats.langsmith.requests import Requests, Setting
from replaykit.formats.langsmith.run_tree import (
    RunFields,
    RunNode,
    check_links,
    dotted_time,
    error_in,
    has_value,
    ids_above,
    is_stored_elsewhere,
    metadata,
    result_in,
    run_metadata,
    tags,
    usage_in,
)
from replaykit.model.events import AnyEvent, Call, ErrorEvent, ErrorInfo, LlmCall, Note, ToolCall
from replaykit.model.run import Origin, RunStatus, TraceRun
from replaykit.model.values import ABSENT, NULL, Json, JsonObject, Raw
from replaykit.wire.json_fields import as_object, list_in, load_arguments, object_in, text_in, value_in

_STRUCTURE = ("chain", "prompt", "parser")  # types of runs that only group others
_CALLS = ("tool", "retriever")


class _Timed(Struct):
    """A run of the trace with its times, and the run around it."""

    node: RunNode
    fields: RunFields
    kind: str
    started: float
    order: float
    """The start in LangSmith's order, but never before that of the outer run: clocks differ."""
    depth: int
    ended: float | None
    above: _Timed | None
    call: int | None = None
    """The sequence number of the run's event, if it is a call."""

    @property
    def inside(self) -> int | None:
        above = self.above
        if above is None:
            return None
        return above.call


def read_trace(requests: Requests, root: RunNode) -> Iterator[Found]:
    """Yield the run of a root, and notes on it; raise `InvalidFile` if a run in it cannot be read."""
    notes: list[str] = []
    timed = _timed(root)
    first, fields = timed[0], timed[0].fields
    run_id = fields.required_text("id")
    events = _RunEvents(notes, requests).collect(timed)
    notes += (f"run {run_id}: {text}" for text in _lacks(root, first))
    error = error_in(fields)
    status = _status(fields, error)
    has_outputs = has_value(fields, "outputs")
    run = TraceRun(
        id=run_id,
        name=fields.text("name") or "",
        agent_version=text_in(metadata(fields), "revision_id"),
        input_json=_input(fields),
        output_json=_output(fields) if has_outputs and error is None else ABSENT,
        status=status,
        error=error,
        started_at=first.started,
        ended_at=first.ended,
        tags=tags(fields),
        metadata_json=fields.raw_value(run_metadata([run.fields for run in timed])),
        origin=Origin(kind="imported", format=FORMAT),
        event_count=len(events),
        events=events,
    )
    yield labelled(run, list(feedback_labels(fields.value.get("feedback_stats"))))
    yield from notes


def _lacks(root: RunNode, run: _Timed) -> Iterator[str]:
    """Yield notes on missing parts of a trace."""
    if not root.children and run.kind == "chain":
        yield (
            "no child runs are in the file; if it called tools, export it with them "
            "(`read_run(…, load_child_runs=True)`, or the runs of its whole trace)"
        )
    if next(ids_above(run.fields.value), None) is not None:
        yield "the run it is a part of is not in the file"
    if is_stored_elsewhere(run.fields, "inputs"):
        yield "the file does not hold its input"


def _timed(root: RunNode) -> list[_Timed]:
    """Return all runs of the trace in the order they began."""
    found: list[_Timed] = []
    waiting: list[tuple[RunNode, _Timed | None]] = [(root, None)]
    while waiting:
        node, above = waiting.pop()
        fields = node.fields()
        check_links(fields)
        started, exact = fields.time("start_time"), dotted_time(fields.text("dotted_order"))
        if started is None:
            started = exact or 0.0
        order, depth = exact, 0
        if order is None:
            order = started
        if above is not None:
            order, depth = max(order, above.order), above.depth + 1
        timed = _Timed(
            node=node,
            fields=fields,
            kind=fields.required_text("run_type").lower(),
            started=started,
            order=order,
            depth=depth,
            ended=_ended(fields, started),
            above=above,
        )
        found.append(timed)
        waiting.extend((child, timed) for child in reversed(node.children))
    return sorted(found, key=lambda timed: (timed.order, timed.depth))


def _ended(fields: RunFields, started: float) -> float | None:
    ended, latency = fields.time("end_time"), fields.number("latency_seconds")
    if ended is None and latency is not None:
        return started + latency
    return ended


class _RunEvents:
    """Collects the events of a trace in the order they began."""

    def __init__(self, notes: list[str], requests: Requests) -> None:
        self._notes = notes
        self._requests = requests
        self._arguments_by_call: CallArguments = {}
        self._events: list[AnyEvent] = []

    def collect(self, runs: list[_Timed]) -> tuple[AnyEvent, ...]:
        for run in runs:
            event = self._event(run)
            run.call = run.inside
            if event is not None:
                self._events.append(event)
            if isinstance(event, Call):
                run.call = event.seq
        return tuple(self._events)

    def _event(self, run: _Timed) -> AnyEvent | None:
        run.fields.required_text("id")
        if run.kind in _STRUCTURE:
            error = _own_error(run)
            if error is None:
                return None
            return ErrorEvent(**_common(run, len(self._events)), error=error)
        common = _common(run, len(self._events))
        if run.kind in _CALLS:
            return tool_call(run.fields, common, self._arguments_by_call, self._notes)
        if run.kind == "llm":
            if run.inside is None or not isinstance(self._events[run.inside], LlmCall):
                return llm_call(run.fields, common, self._arguments_by_call, self._requests)
            # Two layers trace the same call: counting both would double tokens and cost.
            return _note(run, common)
        if run.kind != "embedding":
            self._notes.append(f"run {run.fields.value['id']}: unknown run_type {run.kind!r}; kept as a note")
        return _note(run, common)


def _common(run: _Timed, seq: int) -> dict[str, Any]:
    return {
        "seq": seq,
        "at": run.started,
        "duration_s": 0.0 if run.ended is None else max(0.0, run.ended - run.started),
        "step": _step(run),
        "parent": run.inside,
    }


def _step(run: _Timed) -> str | None:
    """Return LangGraph's step, unless the run is inside a call: nested graphs restart the count."""
    step = metadata(run.fields).get("langgraph_step")
    if type(step) is int and run.inside is None:
        return f"step_{step}"
    return None


def _own_error(run: _Timed) -> ErrorInfo | None:
    """Return the error that began in this run, not in a child; the root's error is the run's own."""
    if run.above is None or any(child.failed for child in run.node.children):
        return None
    return error_in(run.fields)


def _note(run: _Timed, common: dict[str, Any]) -> Note:
    fields = run.fields
    content = {name: fields.take(name) for name in ("name", "inputs", "outputs", "error")}
    return Note(**common, name=run.kind, content_json=fields.raw_value(content))


def _status(fields: RunFields, error: ErrorInfo | None) -> RunStatus:
    word = fields.text("status")
    if word is None:
        ended = fields.key("end_time", "outputs") is not None
        if error is not None:
            return ending_of(error)
        if ended:
            return RunStatus.SUCCESS
        return RunStatus.RUNNING
    status = status_of(word)
    if status is None:
        raise fields.error(f"unknown status {word[:40]!r}; {nearest(word, STATUSES)}", "status")
    if status in (RunStatus.SUCCESS, RunStatus.ERROR) and error is not None:
        return ending_of(error)
    return status


def _input(fields: RunFields) -> Raw:
    if not has_value(fields, "inputs"):
        return NULL
    inputs = fields.take("inputs")
    alone = isinstance(inputs, dict) and inputs.keys() == {"input"}
    return fields.raw_value(inputs["input"] if alone else inputs, "inputs")


def _output(fields: RunFields) -> Raw:
    """Return the answer: the only member `output`, or the last of messages that are the only member."""
    outputs = fields.take("outputs")
    if outputs == {}:
        return ABSENT
    output, _error = result_in(outputs, "output")
    if isinstance(output, dict) and output.keys() == {"messages"}:
        messages = output["messages"]
        last = as_object(message_of(messages[-1]) if isinstance(messages, list) and messages else None)
        if last.get("role") == "assistant" and "content" in last:
            output = last["content"]
    return fields.raw_value(output, "outputs")


_COMMENTS = 3


def feedback_labels(stats: Json) -> Iterator[Label]:
    """Yield a label for each key: its mean score or chosen category, with some of the comments."""
    for key, found in as_object(stats).items():
        value = value_in(found, "avg")
        scores: list[Json] = [value]
        if type(value) not in (int, float):
            scores = list(object_in(found, "values"))
            if not scores:
                continue
            value = scores[0] if len(scores) == 1 else scores
        comments = [text for text in list_in(found, "comments") if isinstance(text, str)]
        yield Label(
            name=key,
            value=value,
            failed=all(says_failure(key, score) for score in scores),
            why="; ".join(comments[:_COMMENTS]),
        )


CallArguments = JsonObject
"""The arguments of the calls that models requested, by call id."""


def tool_call(fields: RunFields, common: dict[str, Any], requested: CallArguments, notes: list[str]) -> ToolCall:
    """Return the call of a tool or a retriever, with its result if the file has one."""
    name = fields.required_text("name")
    if text_in(fields.value, "run_type").lower() == "retriever":
        holds = "documents"
    else:
        holds = "output"
    error, result = _outcome(fields, holds)
    if error is None and result is UNSET:
        notes.append(f"run {fields.value['id']}: the file holds no answer of {name!r}, so a replay cannot give it")
    if is_stored_elsewhere(fields, "inputs"):
        notes.append(f"run {fields.value['id']}: the file does not hold the arguments of {name!r}")
    return ToolCall(
        **common,
        name=name,
        arguments_json=_arguments(fields, requested),
        result_json=ABSENT if result is UNSET else fields.raw_value(result, "outputs"),
        error=error,
    )


def llm_call(fields: RunFields, common: dict[str, Any], requested: CallArguments, requests: Requests) -> LlmCall:
    """Return the call of a model, and add the calls that it requests to `requested`."""
    outputs = fields.take("outputs")
    response = read_outputs(outputs)
    if response.answers:
        answer = response.answers[0].message
    else:
        answer = None
    for call in response.answers[0].tool_calls if response.answers else ():
        if call.id:
            requested[call.id] = call.arguments
    own_metadata, setting, inputs = metadata(fields), requests.setting(fields), requests.inputs(fields)
    error, result = _outcome(fields, "output")
    usage = usage_in(fields, _counts(as_object(outputs), own_metadata))
    return LlmCall(
        **common,
        name=_model(inputs, setting, own_metadata) or response.model or fields.text("name") or "",
        arguments_json=requests.text(fields, inputs, setting),
        result_json=ABSENT if result is UNSET else fields.raw_value(answer or result, "outputs"),
        error=error,
        finish_reason=response.finish_reason,
        usage=usage or response.usage,
    )


def _model(inputs: Json, setting: Setting, metadata: JsonObject) -> str:
    """Return the name of the requested model."""
    requested_model = text_in(inputs, "model") or text_in(setting.values, "model", "model_name")
    return requested_model or text_in(metadata, "ls_model_name")


def _outcome(fields: RunFields, name: str) -> tuple[ErrorInfo | None, Json]:
    """Return the error or the result; None and UNSET if the file has neither."""
    error, has_outputs = error_in(fields), has_value(fields, "outputs")
    if error is not None or not has_outputs:
        return error, UNSET
    result, reported_error = result_in(fields.take("outputs"), name)
    return reported_error, UNSET if reported_error is not None and not result else result


def _arguments(fields: RunFields, requested: CallArguments) -> Raw:
    inputs = fields.take("inputs")
    if isinstance(inputs, dict) and inputs.keys() == {"input"} and isinstance(inputs["input"], str):
        inputs = _parsed(inputs, fields, requested)
    return fields.canonical({} if inputs is None else inputs, "inputs")


def _parsed(inputs: JsonObject, fields: RunFields, requested: CallArguments) -> Json:
    """Return arguments that were logged as one text: the model's own, or the decoded JSON."""
    outputs = fields.take("outputs")
    found = requested.get(text_in(message_body(value_in(outputs, "output")), "tool_call_id"))
    if not isinstance(found, dict) and inputs["input"].strip():
        found = load_arguments(inputs["input"])
    if isinstance(found, dict):
        return found
    return inputs


def _counts(outputs: JsonObject, metadata: JsonObject) -> Iterator[Json]:
    """Yield the places in outputs and metadata that may hold token counts."""
    yield outputs.get("usage_metadata")
    first = next(iter(list_in(outputs, "generations")), None)
    if isinstance(first, list):
        first = next(iter(first), None)
    message = message_body(value_in(first, "message")) or message_body(outputs.get("output"))
    yield value_in(message, "usage_metadata")
    yield value_in(value_in(message, "response_metadata"), "token_usage")
    yield value_in(outputs.get("llm_output"), "token_usage")
    yield metadata.get("usage_metadata")
