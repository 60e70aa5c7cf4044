"""The subject of a run: its agent, input, output and status, out of the spans of a trace."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from replaykit.formats.core.errors import ending_of
from replaykit.formats.spans.calls import error_in
from replaykit.formats.spans.meaning import UNSET, SpanKind, text
from replaykit.formats.spans.tree import SpanNode, SpanTree
from replaykit.model.events import ErrorInfo
from replaykit.model.run import RunStatus
from replaykit.model.values import ABSENT, NULL, Json, Raw, encode_read

_CONVERSATIONS = ("gen_ai.conversation.id", "session.id", "traceloop.association.properties.session_id")
_STATUS = "replaykit.run.status"
_NOTHING: tuple[Json, ...] = (None, "", [], {})
_SHORT = 500
_HELD_ELSEWHERE = ("gen_ai.input", "gen_ai.output", "input.", "output.", "llm.", "pydantic_ai.all_messages", "logfire.")


class RunSubject(Struct, frozen=True, kw_only=True):
    """The span that a run is of, or what several of them say together."""

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
    """Return the subject of a run: the agent at the top of the trace, or the root around several."""
    root = tree.roots[0]
    tops = _tops(tree.roots)
    alone = tops[0] if len(tops) == 1 else root
    agents = {node.meaning.name for node in tree.nodes if node.is_agent and node.meaning is not None}
    error = _error(alone, tops)
    return RunSubject(
        name=(alone.meaning.name if alone.meaning is not None else "") or alone.span.name,
        agent=_agent(alone, agents),
        version=(alone.meaning.version if alone.meaning is not None else "")
        or text(root.span.resource, "service.version"),
        input_json=_input(tree.nodes),
        output_json=_output(alone, tops, tree.nodes) if error is None else _given_up(alone),
        status=_status(alone, error),
        error=error,
        started_ns=alone.span.started_ns,
        ended_ns=alone.span.ended_ns,
        spans=frozenset(node.span.id for node in (alone, root, *(tops if error else ()))),
        root=root,
    )


def metadata_of(tree: SpanTree, subject: RunSubject) -> dict[str, Json]:
    """Return a run's metadata: program, libraries, conversation, and the root span's short attributes."""
    attributes = subject.root.span.attributes
    more = {
        "trace_id": subject.root.span.trace,
        "service": text(subject.root.span.resource, "service.name"),
        "conversation": next((found for n in tree.nodes if (found := text(n.span.attributes, *_CONVERSATIONS))), ""),
        "scopes": sorted({node.span.scope for node in tree.nodes if node.span.scope}),
        "dialects": sorted({node.dialect for node in tree.nodes if node.dialect}),
        "attributes": {name: value for name, value in attributes.items() if _is_short(name, value)},
    }
    return {name: value for name, value in more.items() if value}


def _is_short(name: str, value: Json) -> bool:
    if name.startswith(_HELD_ELSEWHERE):
        return False
    return not isinstance(value, list | dict) and (not isinstance(value, str) or len(value) <= _SHORT)


def _tops(roots: Iterable[SpanNode]) -> list[SpanNode]:
    """The agents that no other is around, in order; without any, the calls."""
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


def _agent(subject: SpanNode, agents: set[str]) -> str:
    meaning = subject.meaning
    if meaning is not None and meaning.kind is SpanKind.AGENT and meaning.is_agent:
        return meaning.name
    if len(agents) == 1:
        return next(iter(agents))
    return ""


def _error(subject: SpanNode, tops: list[SpanNode]) -> ErrorInfo | None:
    """The subject's own error; around several agents, that of the last one."""
    own = error_in(subject.span, has_outcome=_has_outcome(subject))
    last = tops[-1] if tops else subject
    return own or error_in(last.span, has_outcome=_has_outcome(last))


def _has_outcome(node: SpanNode) -> bool:
    meaning = node.meaning
    return meaning is None or meaning.output is not UNSET or meaning.answer is not None


def _status(subject: SpanNode, error: ErrorInfo | None) -> RunStatus:
    if error is not None:
        return ending_of(error)
    has_ended = subject.span.ended_ns or subject.span.attributes.get(_STATUS) == RunStatus.SUCCESS.value
    if has_ended:
        return RunStatus.SUCCESS
    return RunStatus.RUNNING


def _input(nodes: list[SpanNode]) -> Raw:
    """Return the input of the first agent that has one, else the first model's question."""
    inputs = (n.meaning.input for n in nodes if n.kind is SpanKind.AGENT and n.meaning is not None)
    run_input = next((value for value in inputs if value is not UNSET), UNSET)
    if run_input is not UNSET:
        return Raw(encode_read(run_input))
    return _first_question(nodes)


def _first_question(nodes: list[SpanNode]) -> Raw:
    for node in nodes:
        if node.kind is SpanKind.MODEL and node.meaning is not None and node.meaning.messages:
            questions = [m for m in node.meaning.messages if isinstance(m, dict) and m.get("role") == "user"]
            return Raw(encode_read(questions[-1]["content"] if questions else node.meaning.messages))
    return NULL


def _given_up(subject: SpanNode) -> Raw:
    """Return the output of a failed run as its agent states it, never a model's last answer."""
    if subject.kind is SpanKind.AGENT and subject.meaning is not None:
        output = subject.meaning.output
    else:
        output = UNSET
    if output is not UNSET and output not in _NOTHING:
        return Raw(encode_read(output))
    return ABSENT


def _output(subject: SpanNode, tops: list[SpanNode], nodes: list[SpanNode]) -> Raw:
    """Return the agent's output, else the last answer of a model that called no tools."""
    for node in (subject, *reversed(tops)):
        if node.kind is SpanKind.AGENT and node.meaning is not None and node.meaning.output is not UNSET:
            return Raw(encode_read(node.meaning.output))
    answers = [n.meaning.answer for n in nodes if n.meaning is not None and n.meaning.answer is not None]
    last = answers[-1] if answers else None
    if last is not None and last.content and not last.tool_calls:
        return Raw(encode_read(last.content))
    return ABSENT
