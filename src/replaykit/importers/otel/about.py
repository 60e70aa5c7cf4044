"""What a trace says about its run as a whole: who it was, what it was given, what came of it."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from replaykit.importers.errors import ending_of
from replaykit.importers.otel.meaning import UNSET, Kind, text
from replaykit.importers.otel.outcomes import error_in
from replaykit.importers.otel.tree import Node, Tree
from replaykit.model.events import ErrorInfo
from replaykit.model.run import RunStatus
from replaykit.model.values import ABSENT, NULL, Json, Raw, encode_read

_CONVERSATIONS = ("gen_ai.conversation.id", "session.id", "traceloop.association.properties.session_id")
_STATUS = "replaykit.run.status"
_NOTHING: tuple[Json, ...] = (None, "", [], {})
_SHORT = 500
_HELD_ELSEWHERE = ("gen_ai.input", "gen_ai.output", "input.", "output.", "llm.", "pydantic_ai.all_messages", "logfire.")


class Subject(Struct, frozen=True, kw_only=True):
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
    root: Node


def subject_of(tree: Tree) -> Subject:
    """What the run is of: the agent at the top of the trace, or around all of them the root."""
    root = tree.roots[0]
    tops = _tops(tree.roots)
    alone = tops[0] if len(tops) == 1 else root
    agents = {node.meaning.name for node in tree.nodes if node.is_agent and node.meaning is not None}
    error = _error(alone, tops)
    return Subject(
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


def metadata_of(tree: Tree, subject: Subject) -> dict[str, Json]:
    """Where the run came from: the program, the libraries, the conversation, and what else the span says."""
    said = subject.root.span.attributes
    more = {
        "trace_id": subject.root.span.trace,
        "service": text(subject.root.span.resource, "service.name"),
        "conversation": next((found for n in tree.nodes if (found := text(n.span.attributes, *_CONVERSATIONS))), ""),
        "scopes": sorted({node.span.scope for node in tree.nodes if node.span.scope}),
        "dialects": sorted({node.dialect for node in tree.nodes if node.dialect}),
        "attributes": {name: value for name, value in said.items() if _is_short(name, value)},
    }
    return {name: value for name, value in more.items() if value}


def _is_short(name: str, value: Json) -> bool:
    if name.startswith(_HELD_ELSEWHERE):
        return False
    return not isinstance(value, list | dict) and (not isinstance(value, str) or len(value) <= _SHORT)


def _tops(roots: Iterable[Node]) -> list[Node]:
    """The agents that no other is around, in order; without any, the calls."""
    for kinds in ((Kind.AGENT,), (Kind.MODEL, Kind.TOOL)):
        found: list[Node] = []
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


def _agent(subject: Node, agents: set[str]) -> str:
    meaning = subject.meaning
    if meaning is not None and meaning.kind is Kind.AGENT and meaning.is_agent:
        return meaning.name
    return next(iter(agents)) if len(agents) == 1 else ""


def _error(subject: Node, tops: list[Node]) -> ErrorInfo | None:
    """The subject's own error; around several agents, that of the last one."""
    own = error_in(subject.span, has_outcome=_has_outcome(subject))
    last = tops[-1] if tops else subject
    return own or error_in(last.span, has_outcome=_has_outcome(last))


def _has_outcome(node: Node) -> bool:
    meaning = node.meaning
    return meaning is None or meaning.output is not UNSET or meaning.answer is not None


def _status(subject: Node, error: ErrorInfo | None) -> RunStatus:
    if error is not None:
        return ending_of(error)
    has_ended = subject.span.ended_ns or subject.span.attributes.get(_STATUS) == RunStatus.SUCCESS.value
    return RunStatus.SUCCESS if has_ended else RunStatus.RUNNING


def _input(nodes: list[Node]) -> Raw:
    """What the first agent that says so was given; else what the first model was asked."""
    said = (n.meaning.input for n in nodes if n.kind is Kind.AGENT and n.meaning is not None)
    given = next((value for value in said if value is not UNSET), UNSET)
    return Raw(encode_read(given)) if given is not UNSET else _asked(nodes)


def _asked(nodes: list[Node]) -> Raw:
    for node in nodes:
        if node.kind is Kind.MODEL and node.meaning is not None and node.meaning.messages:
            said = [m for m in node.meaning.messages if isinstance(m, dict) and m.get("role") == "user"]
            return Raw(encode_read(said[-1]["content"] if said else node.meaning.messages))
    return NULL


def _given_up(subject: Node) -> Raw:
    """What a run that failed gave all the same: what it says itself, and not what a model said last."""
    said = subject.meaning.output if subject.kind is Kind.AGENT and subject.meaning is not None else UNSET
    return Raw(encode_read(said)) if said is not UNSET and said not in _NOTHING else ABSENT


def _output(subject: Node, tops: list[Node], nodes: list[Node]) -> Raw:
    """What the agent gave; else what the last model said that asked for nothing more."""
    for node in (subject, *reversed(tops)):
        if node.kind is Kind.AGENT and node.meaning is not None and node.meaning.output is not UNSET:
            return Raw(encode_read(node.meaning.output))
    answers = [n.meaning.answer for n in nodes if n.meaning is not None and n.meaning.answer is not None]
    last = answers[-1] if answers else None
    return Raw(encode_read(last.content)) if last is not None and last.content and not last.tool_calls else ABSENT
