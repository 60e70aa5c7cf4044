"""From the spans of a trace to its run."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from msgspec import Struct

from replaykit.importers.otel.about import Subject, metadata_of, subject_of
from replaykit.importers.otel.asked import Asked, asked_in, join
from replaykit.importers.otel.calls import duration_of, model_call, seconds, tool_call, untraced_call
from replaykit.importers.otel.meaning import Kind, loaded
from replaykit.importers.otel.outcomes import error_in
from replaykit.importers.otel.span import FORMAT, Span
from replaykit.importers.otel.tree import Node, Tree
from replaykit.model.events import AnyEvent, Call, ErrorEvent, LlmCall, Note, ToolCall
from replaykit.model.run import Origin, TraceRun
from replaykit.model.values import Raw, encode
from replaykit.wire.fields import as_object

_MAX_NOTES = 20
_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


class Made(Struct, frozen=True, kw_only=True):
    """What became of a trace."""

    run: TraceRun | None = None
    """None when nothing in it is the work of an agent."""
    is_whole: bool = True
    notes: tuple[str, ...] = ()


def run_of(spans: Iterable[Span]) -> Made:
    """The run of one trace's spans; the same whatever their order, and however often one comes."""
    tree = Tree(spans)
    if not any(node.kind in (Kind.AGENT, Kind.MODEL, Kind.TOOL) for node in tree.nodes):
        return Made(is_whole=tree.is_whole)
    subject = subject_of(tree)
    events = _Events(tree, subject).made()
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
        metadata_json=Raw(encode(metadata_of(tree, subject))),
        origin=Origin(kind="imported", format=FORMAT),
        event_count=len(events),
        events=events,
    )
    return Made(run=run, is_whole=tree.is_whole, notes=tuple(islice(_lacks(run, tree), _MAX_NOTES)))


class _Place(Struct):
    """Where an event stands: a span, or a call that only the conversation tells of."""

    node: Node
    asked: Asked | None = None

    @property
    def key(self) -> tuple[int, int, int, str, int]:
        order, depth, started, span_id = self.node.sort_key
        if self.asked is None:
            return order, depth, started, span_id, 0
        return self.asked.order_ns, depth, self.asked.order_ns, span_id, 1


class _Events:
    """The events of a trace, in the order they began."""

    def __init__(self, tree: Tree, subject: Subject) -> None:
        self._subject = subject
        asked = asked_in(tree.nodes)
        self._joined = join(tree.nodes, asked)
        untraced = [a for a in asked if not a.is_made and a.told is not None]
        places = [*map(_Place, tree.nodes), *(_Place(a.node, a) for a in untraced)]
        self._places = sorted(places, key=lambda place: place.key)  # stable: calls of one answer stay in its order

    def made(self) -> tuple[AnyEvent, ...]:
        events: list[AnyEvent] = []
        for place in self._places:
            node = place.node
            if place.asked is not None:
                common = _common(node, len(events)) | {"at": seconds(place.asked.order_ns), "duration_s": 0.0}
                events.append(untraced_call(place.asked, common))
                continue
            _enter(node)
            event = self._event(node, _common(node, len(events)))
            if event is not None:
                events.append(event)
            if isinstance(event, Call):
                node.call = event.seq
        return tuple(events)

    def _event(self, node: Node, common: dict[str, Any]) -> AnyEvent | None:
        meaning = node.meaning
        if meaning is not None and meaning.kind is Kind.MODEL:
            return model_call(node, meaning, common)
        if meaning is not None and meaning.kind is Kind.TOOL:
            return tool_call(node, meaning, self._joined.get(node.span.id), common)
        if meaning is not None and meaning.kind is Kind.NOTE:
            return Note(**common, name=node.span.name, content_json=Raw(encode(node.span.attributes)))
        return self._own_error(node, common)

    def _own_error(self, node: Node, common: dict[str, Any]) -> ErrorEvent | None:
        """The error that began in a span that is no call; one from below is told there, the run's by the run."""
        if node.in_failure or node.span.id in self._subject.spans or any(child.span.failed for child in node.children):
            return None
        error = error_in(node.span, has_outcome=True)
        return None if error is None else ErrorEvent(**common, error=error)


def _enter(node: Node) -> None:
    """What call a span is in: that of its parent, or its parent itself."""
    parent = node.parent
    if parent is not None:
        is_call = parent.call is not None
        node.inside = parent.call if is_call else parent.inside
        node.in_failure = parent.in_failure or (is_call and parent.span.failed)


def _common(node: Node, seq: int) -> dict[str, Any]:
    return {
        "seq": seq,
        "at": seconds(node.span.started_ns),
        "duration_s": duration_of(node),
        "step": _step(node) if node.inside is None else None,
        "parent": node.inside,
    }


def _step(node: Node) -> str | None:
    """The steps around a span, and LangGraph's own number: `step_2/researcher`; None where nothing marks one."""
    number = as_object(loaded(node.span.attributes.get("metadata"))).get("langgraph_step")
    return "/".join((*((f"step_{number}",) if type(number) is int else ()), *node.steps)) or None


def _lacks(run: TraceRun, tree: Tree) -> Iterable[str]:
    """What a replay of the run will miss."""
    if tree.missing:
        yield f"trace {run.id}: {len(tree.missing)} of its spans are named by others and are not there"
    models = [event for event in run.events if isinstance(event, LlmCall) and event.error is None]
    if models and not any(node.meaning.messages for node in tree.nodes if node.meaning is not None):
        yield f"trace {run.id}: its spans hold no messages; turn that on where they are made ({_CAPTURE}=true)"
    for event in run.events:
        if isinstance(event, ToolCall) and not event.answered:
            yield f"trace {run.id}: no result of {event.name!r} is in it, so a replay cannot give it"
