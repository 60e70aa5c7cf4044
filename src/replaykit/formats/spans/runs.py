"""From the spans of a trace to its run."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from msgspec import Struct

from replaykit.formats.core.json_text import load_json
from replaykit.formats.core.messages import ConversationCache
from replaykit.formats.core.replayability import Lack, with_lacks
from replaykit.formats.spans.calls import Texts, duration_of, error_in, model_call, seconds, tool_call, untraced_call
from replaykit.formats.spans.meaning import UNSET, SpanKind
from replaykit.formats.spans.requested_calls import RequestedCall, join, requested_calls
from replaykit.formats.spans.span import FORMAT, Span
from replaykit.formats.spans.subject import RunSubject, metadata_of, subject_of
from replaykit.formats.spans.tree import SpanNode, SpanTree
from replaykit.model.events import AnyEvent, Call, ErrorEvent, LlmCall, Note, ToolCall
from replaykit.model.run import Origin, TraceRun
from replaykit.model.values import Raw, encode_read
from replaykit.wire.json_fields import as_object

_MAX_NOTES = 20
_OF_AGENTS = (SpanKind.AGENT, SpanKind.MODEL, SpanKind.TOOL)
_ADVICE = (
    "turn on the content of messages where spans are made (OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true, or "
    "TRACELOOP_TRACE_CONTENT, or include_content=True)"
)


class TraceResult(Struct, frozen=True, kw_only=True):
    """The run of a trace, and notes about it."""

    run: TraceRun | None = None
    """None when nothing in it is the work of an agent."""
    is_whole: bool = True
    notes: tuple[str, ...] = ()


def run_of(spans: Iterable[Span], cache: ConversationCache | None = None) -> TraceResult:
    """The run of one trace's spans; the same whatever their order, and however often one comes.

    Whoever reads many traces, one after another, hands on what was heard in those before.
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
        ended_at=seconds(subject.ended_ns) if subject.ended_ns else None,
        metadata_json=Raw(encode_read(metadata_of(tree, subject))),
        origin=Origin(kind="imported", format=FORMAT),
        event_count=len(events),
        events=events,
    )
    notes = tuple(islice(_lacks(run, tree), _MAX_NOTES))
    lacks = {seq: [Lack.ARGUMENTS] for seq in collector.without_arguments}
    result = TraceResult(
        run=with_lacks(run, lacks, _advice(tree)) if notes or lacks else run, is_whole=tree.is_whole, notes=notes
    )
    tree.close()
    return result


_Place = tuple[SpanNode, RequestedCall | None]
"""The origin of an event: a span, or a call that only the conversation shows."""


def _place_key(place: _Place) -> tuple[int, int, int, int, str, int]:
    node, request = place
    order, number, depth, started, span_id = node.sort_key
    if request is None:
        return order, number, depth, started, span_id, 0
    return request.order_ns, number, depth, request.order_ns, span_id, 1


class _SpanEvents:
    """The events of a trace, in the order they began."""

    def __init__(self, tree: SpanTree, subject: RunSubject, cache: ConversationCache) -> None:
        self._subject = subject
        self._texts = Texts(cache)
        self.without_arguments: list[int] = []
        """The calls of tools of which neither a span nor a conversation says with what they were made."""
        requests = requested_calls(tree.nodes)
        self._joined = join(tree.nodes, requests)
        untraced = [a for a in requests if not a.is_made and a.result is not None]
        places: list[_Place] = [*((node, None) for node in tree.nodes), *((a.node, a) for a in untraced)]
        if untraced:
            places.sort(key=_place_key)  # stable: calls of one answer stay in its order
        self._places = places

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
        meaning = node.meaning
        if meaning is not None and meaning.kind is SpanKind.MODEL:
            return model_call(node, meaning, self._texts, common)
        if meaning is not None and meaning.kind is SpanKind.TOOL:
            request = self._joined.get(node.span.id)
            if request is None and meaning.input is UNSET:
                self.without_arguments.append(common["seq"])
            return tool_call(node, meaning, request, common)
        if meaning is not None and meaning.kind is SpanKind.NOTE:
            return Note(**common, name=node.span.name, content_json=Raw(encode_read(node.span.attributes)))
        return self._own_error(node, common)

    def _own_error(self, node: SpanNode, common: dict[str, Any]) -> ErrorEvent | None:
        """The error that began in a span that is no call; one from below is told there, the run's by the run."""
        if node.in_failure or node.span.id in self._subject.spans or any(child.span.failed for child in node.children):
            return None
        error = error_in(node.span, has_outcome=True)
        if error is None:
            return None
        return ErrorEvent(**common, error=error)


def _enter(node: SpanNode) -> None:
    """Set the call that a span is inside of: its parent, or the call around its parent."""
    parent = node.parent
    if parent is not None:
        is_call = parent.call is not None
        if is_call:
            node.inside = parent.call
        else:
            node.inside = parent.inside
        node.in_failure = parent.in_failure or (is_call and parent.span.failed)


def _common(node: SpanNode, seq: int) -> dict[str, Any]:
    return {
        "seq": seq,
        "at": seconds(node.span.started_ns),
        "duration_s": duration_of(node),
        "step": _step(node) if node.inside is None else None,
        "parent": node.inside,
    }


def _step(node: SpanNode) -> str | None:
    """The steps around a span, and LangGraph's own number: `step_2/researcher`; None where nothing marks one."""
    held = node.span.attributes.get("metadata")
    if held is None and not node.steps:
        return None
    number = as_object(load_json(held)).get("langgraph_step")
    return "/".join((*((f"step_{number}",) if type(number) is int else ()), *node.steps)) or None


def _advice(tree: SpanTree) -> tuple[str, ...]:
    """Return advice for traces whose spans hold no messages."""
    meanings = [node.meaning for node in tree.nodes if node.meaning is not None]
    if any(meaning.messages for meaning in meanings):
        return ()
    return (_ADVICE,)


def _lacks(run: TraceRun, tree: SpanTree) -> Iterable[str]:
    """Return notes on what a replay of the run will miss."""
    if tree.missing:
        yield f"trace {run.id}: {len(tree.missing)} of its spans are named by others and are not there"
    if any(isinstance(event, LlmCall) and event.error is None for event in run.events):
        yield from (f"trace {run.id}: its spans hold no messages; {advice}" for advice in _advice(tree))
    for event in run.events:
        if isinstance(event, ToolCall) and not event.answered:
            yield f"trace {run.id}: no result of {event.name!r} is in it, so a replay cannot give it"
