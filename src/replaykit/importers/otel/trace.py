"""From the spans of a trace to its run."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from msgspec import Struct

from replaykit.importers.otel.about import Subject, metadata_of, subject_of
from replaykit.importers.otel.asked import Asked, asked_in, join
from replaykit.importers.otel.calls import Texts, duration_of, model_call, seconds, tool_call, untraced_call
from replaykit.importers.otel.meaning import UNSET, Heard, Kind, loaded
from replaykit.importers.otel.outcomes import error_in
from replaykit.importers.otel.span import FORMAT, Span
from replaykit.importers.otel.tree import Node, Tree
from replaykit.importers.replayable import Lack, with_lacks
from replaykit.model.events import AnyEvent, Call, ErrorEvent, LlmCall, Note, ToolCall
from replaykit.model.run import Origin, TraceRun
from replaykit.model.values import Raw, encode_read
from replaykit.wire.fields import as_object

_MAX_NOTES = 20
_OF_AGENTS = (Kind.AGENT, Kind.MODEL, Kind.TOOL)
_ADVICE = (
    "turn on the content of messages where spans are made (OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true, or "
    "TRACELOOP_TRACE_CONTENT, or include_content=True)"
)


class Made(Struct, frozen=True, kw_only=True):
    """What became of a trace."""

    run: TraceRun | None = None
    """None when nothing in it is the work of an agent."""
    is_whole: bool = True
    notes: tuple[str, ...] = ()


def run_of(spans: Iterable[Span], heard: Heard | None = None) -> Made:
    """The run of one trace's spans; the same whatever their order, and however often one comes.

    Whoever reads many traces, one after another, hands on what was heard in those before.
    """
    heard = heard or Heard()
    tree = Tree(spans, heard)
    if not any(node.kind in _OF_AGENTS for node in tree.nodes):
        return Made(is_whole=tree.is_whole)
    subject = subject_of(tree)
    told = _Events(tree, subject, heard)
    events = told.made()
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
    lacks = {seq: [Lack.ARGUMENTS] for seq in told.without_arguments}
    made = Made(
        run=with_lacks(run, lacks, _advice(tree)) if notes or lacks else run, is_whole=tree.is_whole, notes=notes
    )
    tree.close()
    return made


_Place = tuple[Node, Asked | None]
"""Where an event stands: a span, or a call that only the conversation tells of."""


def _place_key(place: _Place) -> tuple[int, int, int, int, str, int]:
    node, asked = place
    order, number, depth, started, span_id = node.sort_key
    if asked is None:
        return order, number, depth, started, span_id, 0
    return asked.order_ns, number, depth, asked.order_ns, span_id, 1


class _Events:
    """The events of a trace, in the order they began."""

    def __init__(self, tree: Tree, subject: Subject, heard: Heard) -> None:
        self._subject = subject
        self._texts = Texts(heard)
        self.without_arguments: list[int] = []
        """The calls of tools of which neither a span nor a conversation says with what they were made."""
        asked = asked_in(tree.nodes)
        self._joined = join(tree.nodes, asked)
        untraced = [a for a in asked if not a.is_made and a.told is not None]
        places: list[_Place] = [*((node, None) for node in tree.nodes), *((a.node, a) for a in untraced)]
        if untraced:
            places.sort(key=_place_key)  # stable: calls of one answer stay in its order
        self._places = places

    def made(self) -> tuple[AnyEvent, ...]:
        events: list[AnyEvent] = []
        for node, asked in self._places:
            if asked is not None:
                common = _common(node, len(events)) | {"at": seconds(asked.order_ns), "duration_s": 0.0}
                events.append(untraced_call(asked, common))
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
            return model_call(node, meaning, self._texts, common)
        if meaning is not None and meaning.kind is Kind.TOOL:
            asked = self._joined.get(node.span.id)
            if asked is None and meaning.input is UNSET:
                self.without_arguments.append(common["seq"])
            return tool_call(node, meaning, asked, common)
        if meaning is not None and meaning.kind is Kind.NOTE:
            return Note(**common, name=node.span.name, content_json=Raw(encode_read(node.span.attributes)))
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
    held = node.span.attributes.get("metadata")
    if held is None and not node.steps:
        return None
    number = as_object(loaded(held)).get("langgraph_step")
    return "/".join((*((f"step_{number}",) if type(number) is int else ()), *node.steps)) or None


def _advice(tree: Tree) -> tuple[str, ...]:
    """What to turn on where the spans of a trace say nothing of what was said."""
    meanings = [node.meaning for node in tree.nodes if node.meaning is not None]
    if any(meaning.messages for meaning in meanings):
        return ()
    return (_ADVICE,)


def _lacks(run: TraceRun, tree: Tree) -> Iterable[str]:
    """What a replay of the run will miss."""
    if tree.missing:
        yield f"trace {run.id}: {len(tree.missing)} of its spans are named by others and are not there"
    if any(isinstance(event, LlmCall) and event.error is None for event in run.events):
        yield from (f"trace {run.id}: its spans hold no messages; {advice}" for advice in _advice(tree))
    for event in run.events:
        if isinstance(event, ToolCall) and not event.answered:
            yield f"trace {run.id}: no result of {event.name!r} is in it, so a replay cannot give it"
