"""Turn the spans of a trace into a run."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from msgspec import Struct

from replaykit.formats.core.fields import ending_of
from replaykit.formats.core.json_text import load_json
from replaykit.formats.core.messages import ConversationCache
from replaykit.formats.core.replayability import Lack, with_lacks
from replaykit.formats.spans.calls import (
    RequestedCall,
    Texts,
    duration_of,
    error_in,
    join,
    model_call,
    requested_calls,
    seconds,
    tool_call,
    untraced_call,
)
from replaykit.formats.spans.span import FORMAT, UNSET, Span, SpanKind
from replaykit.formats.spans.tree import SpanNode, SpanTree
from replaykit.model.events import AnyEvent, Call, ErrorEvent, ErrorInfo, Note
from replaykit.model.run import Origin, RunStatus, TraceRun
from replaykit.model.values import ABSENT, NULL, Json, JsonObject, Raw, encode_read
from replaykit.wire.json_fields import EMPTY, filled, of_role, text_in, value_in

_MAX_NOTES = 20
_OF_AGENTS = (SpanKind.AGENT, SpanKind.MODEL, SpanKind.TOOL)
_EVENTFUL = (SpanKind.MODEL, SpanKind.TOOL, SpanKind.NOTE)
_ADVICE = (
    "turn on the content of messages where spans are made (OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true, or "
    "TRACELOOP_TRACE_CONTENT, or include_content=True)"
)


class TraceResult(Struct, frozen=True, kw_only=True):
    """The run of a trace, and notes about it."""

    run: TraceRun | None = None
    """None if nothing in the trace is the work of an agent."""
    is_whole: bool = True
    notes: tuple[str, ...] = ()


def run_of(spans: Iterable[Span], cache: ConversationCache | None = None) -> TraceResult:
    """Return the run of one trace's spans, whatever their order and however often one repeats.

    To read many traces in a row, pass the same cache each time.
    """
    cache = cache or ConversationCache()
    tree = SpanTree(spans, cache)
    if not any(node.kind in _OF_AGENTS for node in tree.nodes):
        return TraceResult(is_whole=tree.is_whole)
    subject = subject_of(tree)
    collector = _SpanEvents(tree, subject, cache)
    events = collector.collect()
    run = TraceRun(
        id=tree.nodes[0].span.trace,
        name=subject.name,
        agent=subject.agent,
        agent_version=subject.version,
        input_json=subject.input_json,
        output_json=subject.output_json,
        status=subject.status,
        error=subject.error,
        started_at=seconds(subject.started_ns),
        ended_at=seconds(subject.ended_ns) or None,
        metadata_json=Raw(encode_read(metadata_of(tree, subject))),
        origin=Origin(kind="imported", format=FORMAT),
        event_count=len(events),
        events=events,
    )
    notes = tuple(islice(_lacks(run, tree), _MAX_NOTES))
    lacks = dict.fromkeys(collector.without_arguments, (Lack.ARGUMENTS,))
    if notes or lacks:
        run = with_lacks(run, lacks, _advice(tree))
    tree.close()
    return TraceResult(run=run, is_whole=tree.is_whole, notes=notes)


# The origin of an event: a span, or a call that appears in the conversation only.
_Place = tuple[SpanNode, RequestedCall | None]


def _place_key(place: _Place) -> tuple[int, int, int, int, str, int]:
    node, request = place
    order, number, depth, started, span_id = node.sort_key
    if request is None:
        return order, number, depth, started, span_id, 0
    return request.order_ns, number, depth, request.order_ns, span_id, 1


class _SpanEvents:
    """Collects the events of a trace in the order they began."""

    def __init__(self, tree: SpanTree, subject: RunSubject, cache: ConversationCache) -> None:
        self._subject = subject
        self._texts = Texts(cache)
        self.without_arguments: list[int] = []
        """Sequence numbers of tool calls whose arguments neither a span nor a conversation states."""
        requests = requested_calls(tree.nodes)
        self._joined = join(tree.nodes, requests)
        self._places: list[_Place] = [(node, None) for node in tree.nodes]
        for request in requests:
            if not request.is_made and request.result is not None:
                self._places.append((request.node, request))
        if len(self._places) > len(tree.nodes):
            self._places.sort(key=_place_key)  # stable: the calls of one answer stay in its order

    def collect(self) -> tuple[AnyEvent, ...]:
        events: list[AnyEvent] = []
        for node, request in self._places:
            if request is not None:
                common = _common(node, len(events)) | {"at": seconds(request.order_ns), "duration_s": 0.0}
                events.append(untraced_call(request, common))
                continue
            _enter(node)
            event = self._event(node, _common(node, len(events)))
            if event is not None:
                events.append(event)
            if isinstance(event, Call):
                node.call = event.seq
        return tuple(events)

    def _event(self, node: SpanNode, common: dict[str, Any]) -> AnyEvent | None:
        if node.kind not in _EVENTFUL:
            return self._own_error(node, common)
        if node.kind is SpanKind.MODEL:
            return model_call(node, self._texts, common)
        if node.kind is SpanKind.NOTE:
            return Note(**common, name=node.span.name, content_json=Raw(encode_read(node.span.attributes)))
        request = self._joined.get(node.span.id)
        if request is None and node.meaning.input is UNSET:
            self.without_arguments.append(common["seq"])
        return tool_call(node, request, common)

    def _own_error(self, node: SpanNode, common: dict[str, Any]) -> ErrorEvent | None:
        """Return the error of a span that is not a call, unless it came from a child or is the run's own."""
        if node.in_failure or node.span.id in self._subject.spans or any(child.span.failed for child in node.children):
            return None
        error = error_in(node.span, has_outcome=True)
        if error is None:
            return None
        return ErrorEvent(**common, error=error)


def _enter(node: SpanNode) -> None:
    """Set the call that a span is inside of: its parent, or the call around its parent."""
    parent = node.parent
    if parent is None:
        return
    node.inside, node.in_failure = parent.inside, parent.in_failure
    if parent.call is not None:
        node.inside = parent.call
        node.in_failure = parent.in_failure or parent.span.failed


def _common(node: SpanNode, seq: int) -> dict[str, Any]:
    return {
        "seq": seq,
        "at": seconds(node.span.started_ns),
        "duration_s": duration_of(node),
        "step": _step(node) if node.inside is None else None,
        "parent": node.inside,
    }


def _step(node: SpanNode) -> str | None:
    """Return the steps around a span, with LangGraph's own number: `step_2/researcher`; None if nothing marks one."""
    metadata = node.span.attributes.get("metadata")
    if metadata is None and not node.steps:
        return None
    steps = list(node.steps)
    number = value_in(load_json(metadata), "langgraph_step")
    if type(number) is int:
        steps.insert(0, f"step_{number}")
    return "/".join(steps) or None


def _advice(tree: SpanTree) -> tuple[str, ...]:
    """Return advice for traces whose spans hold no messages."""
    for node in tree.nodes:
        if node.meaning.messages:
            return ()
    return (_ADVICE,)


def _lacks(run: TraceRun, tree: SpanTree) -> Iterable[str]:
    """Yield notes on what a replay of the run will miss."""
    if tree.missing:
        yield f"trace {run.id}: {len(tree.missing)} of its spans are named by others and are not there"
    if any(call.error is None for call in run.llm_calls):
        for advice in _advice(tree):
            yield f"trace {run.id}: its spans hold no messages; {advice}"
    for call in run.tool_calls:
        if not call.answered:
            yield f"trace {run.id}: no result of {call.name!r} is in it, so a replay cannot give it"


_CONVERSATIONS = ("gen_ai.conversation.id", "session.id", "traceloop.association.properties.session_id")
_STATUS = "replaykit.run.status"
_SHORT = 500
_HELD_ELSEWHERE = ("gen_ai.input", "gen_ai.output", "input.", "output.", "llm.", "pydantic_ai.all_messages", "logfire.")


class RunSubject(Struct, frozen=True, kw_only=True):
    """What a run is about: one span, or several taken together."""

    name: str
    agent: str
    version: str
    input_json: Raw
    output_json: Raw
    status: RunStatus
    error: ErrorInfo | None
    started_ns: int
    ended_ns: int
    spans: frozenset[str]
    """Spans whose errors are the run's own."""
    root: SpanNode


def subject_of(tree: SpanTree) -> RunSubject:
    """Return the subject of a run: the agent at the top of the trace, or the root around several agents."""
    root = tree.roots[0]
    tops = _tops(tree.roots)
    alone = root
    if len(tops) == 1:
        alone = tops[0]
    meaning = alone.meaning
    error = _error(alone, tops)
    own = {alone.span.id, root.span.id}
    if error is None:
        output = _output(alone, tops, tree.nodes)
    else:
        output = _failed_output(alone)
        own.update(node.span.id for node in tops)
    return RunSubject(
        name=meaning.name or alone.span.name,
        agent=_agent(alone, tree.nodes),
        version=meaning.version or text_in(root.span.resource, "service.version"),
        input_json=_input(tree.nodes),
        output_json=output,
        status=_status(alone, error),
        error=error,
        started_ns=alone.span.started_ns,
        ended_ns=alone.span.ended_ns,
        spans=frozenset(own),
        root=root,
    )


def metadata_of(tree: SpanTree, subject: RunSubject) -> JsonObject:
    """Return a run's metadata: program, libraries, conversation, and the root span's short attributes."""
    span = subject.root.span
    conversations = (text_in(node.span.attributes, *_CONVERSATIONS) for node in tree.nodes)
    more = {
        "trace_id": span.trace,
        "service": text_in(span.resource, "service.name"),
        "conversation": next(filter(None, conversations), ""),
        "scopes": sorted({node.span.scope for node in tree.nodes} - {""}),
        "dialects": sorted({node.dialect for node in tree.nodes} - {""}),
        "attributes": {name: value for name, value in span.attributes.items() if _is_short(name, value)},
    }
    return filled(more)


def _is_short(name: str, value: Json) -> bool:
    if name.startswith(_HELD_ELSEWHERE):
        return False
    return not isinstance(value, list | dict) and (not isinstance(value, str) or len(value) <= _SHORT)


def _tops(roots: Iterable[SpanNode]) -> list[SpanNode]:
    """Return the outermost agents in order; if there are none, the outermost calls."""
    for kinds in ((SpanKind.AGENT,), (SpanKind.MODEL, SpanKind.TOOL)):
        found: list[SpanNode] = []
        waiting = list(roots)
        while waiting:
            node = waiting.pop()
            if node.kind in kinds:
                found.append(node)
            else:
                waiting.extend(node.children)
        if found:
            return sorted(found, key=lambda node: node.sort_key)
    return []


def _agent(subject: SpanNode, nodes: Iterable[SpanNode]) -> str:
    if subject.is_agent:
        return subject.meaning.name
    agents = {node.meaning.name for node in nodes if node.is_agent}
    if len(agents) == 1:
        return agents.pop()
    return ""


def _error(subject: SpanNode, tops: list[SpanNode]) -> ErrorInfo | None:
    """Return the subject's own error, or that of the last of several agents."""
    for node in (subject, *tops[-1:]):
        error = error_in(node.span, has_outcome=_has_outcome(node))
        if error is not None:
            return error
    return None


def _has_outcome(node: SpanNode) -> bool:
    meaning = node.meaning
    return node.kind is SpanKind.NOTHING or meaning.output is not UNSET or meaning.answer is not None


def _status(subject: SpanNode, error: ErrorInfo | None) -> RunStatus:
    if error is not None:
        return ending_of(error)
    has_ended = subject.span.ended_ns or subject.span.attributes.get(_STATUS) == RunStatus.SUCCESS.value
    if has_ended:
        return RunStatus.SUCCESS
    return RunStatus.RUNNING


def _input(nodes: list[SpanNode]) -> Raw:
    """Return the input of the first agent that has one, else the first model's question."""
    for node in nodes:
        if node.kind is SpanKind.AGENT and node.meaning.input is not UNSET:
            return Raw(encode_read(node.meaning.input))
    for node in nodes:
        if node.kind is SpanKind.MODEL and node.meaning.messages:
            question: Json = node.meaning.messages
            for message in of_role(node.meaning.messages, "user"):
                question = message["content"]
            return Raw(encode_read(question))
    return NULL


def _failed_output(subject: SpanNode) -> Raw:
    """Return the output that the agent of a failed run states itself, never a model's last answer."""
    if subject.kind is SpanKind.AGENT:
        output = subject.meaning.output
        if output is not UNSET and output not in EMPTY:
            return Raw(encode_read(output))
    return ABSENT


def _output(subject: SpanNode, tops: list[SpanNode], nodes: list[SpanNode]) -> Raw:
    """Return the agent's output, else the last answer of a model that called no tools."""
    for node in (subject, *reversed(tops)):
        if node.kind is SpanKind.AGENT and node.meaning.output is not UNSET:
            return Raw(encode_read(node.meaning.output))
    for node in reversed(nodes):
        answer = node.meaning.answer
        if answer is not None:
            if answer.content and not answer.tool_calls:
                return Raw(encode_read(answer.content))
            break
    return ABSENT
