"""One trace of LangSmith, a root and all runs below it, as a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from replaykit.errors import nearest
from replaykit.importers.errors import STATUSES, ending_of, status_of
from replaykit.importers.labels import labelled
from replaykit.importers.langsmith.about import about, check_links, metadata, tags
from replaykit.importers.langsmith.calls import Asked, llm_call, tool_call
from replaykit.importers.langsmith.collecting import Node, RunFields, dotted_time, ids_above
from replaykit.importers.langsmith.documents import FORMAT
from replaykit.importers.langsmith.feedback import feedback_labels
from replaykit.importers.langsmith.messages import message_of
from replaykit.importers.langsmith.outcomes import error_in, is_apart, is_there, result_in
from replaykit.importers.langsmith.requests import Requests
from replaykit.model.events import AnyEvent, Call, ErrorEvent, ErrorInfo, LlmCall, Note
from replaykit.model.run import Origin, RunStatus, TraceRun
from replaykit.model.values import ABSENT, NULL, Raw
from replaykit.wire.fields import as_object, as_text

_STRUCTURE = ("chain", "prompt", "parser")
"""Runs that hold others together: no call of anything."""
_CALLS = ("tool", "retriever")


class _Timed(Struct):
    """A run of the trace, its place in time, and the run around it."""

    node: Node
    fields: RunFields
    kind: str
    started: float
    order: float
    """When it began by LangSmith's own order, and not before the run around it, whatever the clocks say."""
    depth: int
    ended: float | None
    above: _Timed | None
    call: int | None = None
    """The sequence number of its own event, where that is a call."""

    @property
    def inside(self) -> int | None:
        above = self.above
        return None if above is None else above.call


def read_trace(root: Node, notes: list[str], requests: Requests) -> TraceRun:
    """The run of a root; `InvalidFile` when it or one of the runs below it cannot be read."""
    timed = _timed(root)
    first, fields = timed[0], timed[0].fields
    run_id = fields.required_text("id")
    events = _Events(notes, requests).made(timed)
    notes += (f"run {run_id}: {text}" for text in _lacks(root, first))
    error = error_in(fields)
    status = _status(fields, error)
    there = is_there(fields, "outputs")
    run = TraceRun(
        id=run_id,
        name=fields.text("name") or "",
        agent_version=as_text(metadata(fields).get("revision_id")),
        input_json=_input(fields),
        output_json=_output(fields) if there and error is None else ABSENT,
        status=status,
        error=error,
        started_at=first.started,
        ended_at=first.ended,
        tags=tags(fields),
        metadata_json=fields.kept(about([run.fields for run in timed])),
        origin=Origin(kind="imported", format=FORMAT),
        event_count=len(events),
        events=events,
    )
    return labelled(run, list(feedback_labels(fields.value.get("feedback_stats"))))


def _lacks(root: Node, run: _Timed) -> Iterator[str]:
    """What a trace has and the file does not, as far as the root shows it."""
    if not root.children and run.kind == "chain":
        yield (
            "no child runs are in the file; if it called tools, export it with them "
            "(`read_run(…, load_child_runs=True)`, or the runs of its whole trace)"
        )
    if next(ids_above(run.fields.value), None) is not None:
        yield "the run it is a part of is not in the file"
    if is_apart(run.fields, "inputs"):
        yield "the file does not hold its input"


def _timed(root: Node) -> list[_Timed]:
    """Every run of the trace, in the order they began."""
    found: list[_Timed] = []
    waiting: list[tuple[Node, _Timed | None]] = [(root, None)]
    while waiting:
        node, above = waiting.pop()
        fields = node.fields()
        check_links(fields)
        given, exact = fields.time("start_time"), dotted_time(fields.text("dotted_order"))
        started = given if given is not None else exact or 0.0
        order = started if exact is None else exact
        timed = _Timed(
            node=node,
            fields=fields,
            kind=fields.required_text("run_type").lower(),
            started=started,
            order=max(order, above.order) if above else order,
            depth=above.depth + 1 if above else 0,
            ended=_ended(fields, started),
            above=above,
        )
        found.append(timed)
        waiting.extend((child, timed) for child in reversed(node.children))
    return sorted(found, key=lambda timed: (timed.order, timed.depth))


def _ended(fields: RunFields, started: float) -> float | None:
    ended, latency = fields.time("end_time"), fields.number("latency_seconds")
    return started + latency if ended is None and latency is not None else ended


class _Events:
    """The events of a trace, in the order they began."""

    def __init__(self, notes: list[str], requests: Requests) -> None:
        self._notes = notes
        self._requests = requests
        self._asked: Asked = {}
        self._made: list[AnyEvent] = []

    def made(self, runs: list[_Timed]) -> tuple[AnyEvent, ...]:
        for run in runs:
            event = self._event(run)
            run.call = run.inside
            if event is not None:
                self._made.append(event)
            if isinstance(event, Call):
                run.call = event.seq
        return tuple(self._made)

    def _event(self, run: _Timed) -> AnyEvent | None:
        run.fields.required_text("id")
        if run.kind in _STRUCTURE:
            error = _own_error(run)
            return None if error is None else ErrorEvent(**_common(run, len(self._made)), error=error)
        common = _common(run, len(self._made))
        if run.kind in _CALLS:
            return tool_call(run.fields, common, self._asked, self._notes)
        if run.kind == "llm":
            if run.inside is None or not isinstance(self._made[run.inside], LlmCall):
                return llm_call(run.fields, common, self._asked, self._requests)
            # Two layers that both trace one call: to count it twice would double tokens and money.
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
    """LangGraph's step; a graph inside of a tool counts from one again, so its steps are none of the run's."""
    step = metadata(run.fields).get("langgraph_step")
    return f"step_{step}" if type(step) is int and run.inside is None else None


def _own_error(run: _Timed) -> ErrorInfo | None:
    """The error that began in this run; one that came from below is told there, the root's by the run itself."""
    if run.above is None or any(child.failed for child in run.node.children):
        return None
    return error_in(run.fields)


def _note(run: _Timed, common: dict[str, Any]) -> Note:
    fields = run.fields
    kept = {name: fields.take(name) for name in ("name", "inputs", "outputs", "error")}
    return Note(**common, name=run.kind, content_json=fields.kept(kept))


def _status(fields: RunFields, error: ErrorInfo | None) -> RunStatus:
    word = fields.text("status")
    if word is None:
        ended = fields.key("end_time", "outputs") is not None
        return ending_of(error) if error is not None else RunStatus.SUCCESS if ended else RunStatus.RUNNING
    status = status_of(word)
    if status is None:
        raise fields.error(f"unknown status {word[:40]!r}; {nearest(word, STATUSES)}", "status")
    return ending_of(error) if status in (RunStatus.SUCCESS, RunStatus.ERROR) and error is not None else status


def _input(fields: RunFields) -> Raw:
    if not is_there(fields, "inputs"):
        return NULL
    inputs = fields.take("inputs")
    alone = isinstance(inputs, dict) and inputs.keys() == {"input"}
    return fields.kept(inputs["input"] if alone else inputs, "inputs")


def _output(fields: RunFields) -> Raw:
    """The answer: what stands alone under `output`, or what the last of nothing but messages says."""
    outputs = fields.take("outputs")
    if outputs == {}:
        return ABSENT
    output, _error = result_in(outputs, "output")
    if isinstance(output, dict) and output.keys() == {"messages"}:
        messages = output["messages"]
        last = as_object(message_of(messages[-1]) if isinstance(messages, list) and messages else None)
        output = last["content"] if last.get("role") == "assistant" and "content" in last else output
    return fields.kept(output, "outputs")
