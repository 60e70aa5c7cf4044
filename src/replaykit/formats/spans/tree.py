"""Build the tree of a trace from its spans: the same tree in whatever order they arrive."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from msgspec.structs import replace

from replaykit.formats.core.messages import ConversationCache
from replaykit.formats.core.replayability import added
from replaykit.formats.spans.dialects import meaning_of
from replaykit.formats.spans.dialects.langfuse import OBSERVATION
from replaykit.formats.spans.span import NOTHING, UNSET, Meaning, Span, SpanEvent, SpanKind, encode_spans
from replaykit.model.events import Usage
from replaykit.model.values import Json, canonical
from replaykit.wire.json_fields import object_in, value_in

_MAX_STEPS = 8
_NUMBER = "replaykit.event.seq"
_LAST = 1 << 63
_NOT_A_NAME = re.compile(r"[^\w.-]+")


class SpanNode:
    """A span with its meaning, parent and children."""

    __slots__ = (
        *("agent", "call", "children", "depth", "dialect", "in_failure", "inner", "inside", "is_agent"),
        *("inner_usages", "kind", "meaning", "number", "order_ns", "outer", "parent", "span", "steps"),
    )

    def __init__(self, span: Span, meaning: Meaning | None, dialect: str) -> None:
        self.span = span
        self.dialect = dialect
        self.meaning = meaning or NOTHING
        self.kind = self.meaning.kind
        self.is_agent = self.kind is SpanKind.AGENT and self.meaning.is_agent
        self.parent: SpanNode | None = None
        self.children: list[SpanNode] = []
        self.depth = 0
        self.order_ns = span.started_ns
        """The start, but never before that of the parent: clocks differ between machines."""
        self.number = _LAST
        """The position in the exported log, or that of the first span inside it. Orders spans without a time."""
        self.call: int | None = None
        """The sequence number of the span's event, if it is a call."""
        self.inside: int | None = None
        """The sequence number of the call around it."""
        self.in_failure = False
        """True if a call around it failed."""
        self.outer: SpanNode | None = None
        """The nearest span around it that has a meaning other than a step."""
        self.agent: SpanNode | None = None
        """The nearest agent around it."""
        self.steps: tuple[str, ...] = ()
        """The steps around it, outermost first."""
        self.inner_usages: tuple[Usage, ...] = ()
        """Usages that an inner layer reported for the same model call."""
        self.inner: dict[str, int] = {}
        """For an agent: how often each other agent was called inside it."""

    def clear_meaning(self) -> None:
        """Drop the meaning, because another span has it, too."""
        self.meaning, self.kind, self.is_agent = NOTHING, SpanKind.NOTHING, False

    @property
    def sort_key(self) -> tuple[int, int, int, int, str]:
        return self.order_ns, self.number, self.depth, self.span.started_ns, self.span.id


class SpanTree:
    """The spans of a trace: its roots, and all of them in the order they began."""

    def __init__(self, spans: Iterable[Span], cache: ConversationCache) -> None:
        united, self.apart = unite(spans)
        nodes = {span.id: SpanNode(span, *meaning_of(span, cache)) for span in united}
        self.missing = sorted({n.span.parent for n in nodes.values() if n.span.parent} - nodes.keys())
        """Ids of parents that are not in the trace."""
        for node in nodes.values():
            node.parent = nodes.get(node.span.parent)
        self.roots = _linked(list(nodes.values()))
        _number(nodes.values())
        self.nodes = sorted(nodes.values(), key=lambda node: node.sort_key)
        for node in self.nodes:  # so that parents come before their children
            _place(node)
        unite_calls(self.nodes)  # first, since the parts of one call are not two layers that trace it
        for node in self.nodes:
            _drop_duplicate_layer(node)

    def close(self) -> None:
        """Break the reference cycles, which would stay in memory until the garbage collector runs."""
        for node in self.nodes:
            node.children.clear()

    @property
    def is_whole(self) -> bool:
        """True if the root has ended and no span that others refer to is missing."""
        ended = len(self.roots) == 1 and not self.roots[0].span.parent and self.roots[0].span.ended_ns > 0
        return ended and not self.missing and not self.apart


def unite(spans: Iterable[Span]) -> tuple[list[Span], set[str]]:
    """Return each span once, merged with its log records; and the ids of spans that only log records name."""
    own: dict[str, Span] = {}
    logged: dict[str, list[SpanEvent]] = {}
    for span in spans:
        if span.is_aside:
            logged.setdefault(span.id, []).extend(span.happenings)
        elif span.id not in own or _rank(span) > _rank(own[span.id]):
            own[span.id] = span
    found = [_with(span, logged.get(span.id, [])) if logged or span.happenings else span for span in own.values()]
    return found, logged.keys() - own.keys()


def _rank(span: Span) -> tuple[int, bytes]:
    """Return the sort key of duplicate spans: the one that ended later is more complete."""
    return span.ended_ns, encode_spans([span])


def _with(span: Span, logged: list[SpanEvent]) -> Span:
    if not logged and len(span.happenings) <= 1:
        return span
    happenings = {canonical(_plain(happening)): happening for happening in (*span.happenings, *logged)}
    ordered = sorted(happenings.items(), key=lambda item: (item[1].at_ns, item[0]))
    return replace(span, happenings=tuple(happening for _text, happening in ordered))


def _plain(happening: SpanEvent) -> list[Json]:
    return [happening.at_ns, happening.name, happening.attributes, happening.body]


def _linked(nodes: list[SpanNode]) -> list[SpanNode]:
    """Set children and depths, and return the roots. Cycles of parents are cut at the earliest span."""
    by_start = sorted(nodes, key=lambda node: (node.span.started_ns, node.span.id))
    for node in by_start:
        if node.parent is not None:
            node.parent.children.append(node)
    roots: list[SpanNode] = []
    reached: set[int] = set()
    # Spans in cycles are reached from no root; the second round makes roots of them.
    for in_cycle in (False, True):
        for node in by_start:
            if id(node) in reached or (node.parent is not None and not in_cycle):
                continue
            if node.parent is not None:
                node.parent.children.remove(node)
                node.parent = None
            roots.append(node)
            _descend(node, reached)
    return roots


def _descend(root: SpanNode, reached: set[int]) -> None:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        reached.add(id(node))
        if node.parent is not None:
            node.depth = node.parent.depth + 1
            node.order_ns = max(node.order_ns, node.parent.order_ns)
        waiting.extend(node.children)


def _number(nodes: Iterable[SpanNode]) -> None:
    """Set the numbers that spans state; a parent takes the lowest inside it, so that it stays before its children."""
    numbered: list[tuple[int, SpanNode]] = []
    for node in nodes:
        number = node.span.attributes.get(_NUMBER)
        if type(number) is int and 0 <= number < _LAST:
            numbered.append((number, node))
    for number, found in sorted(numbered, key=lambda pair: pair[0]):
        above: SpanNode | None = found
        while above is not None and above.number == _LAST:
            above.number = number
            above = above.parent


def _place(node: SpanNode) -> None:
    """Set what is around a span from its parent, in constant time at any depth."""
    parent = node.parent
    if parent is None:
        return
    node.outer, node.agent = parent.outer, parent.agent
    if parent.kind not in (SpanKind.NOTHING, SpanKind.STEP):
        node.outer = parent
    if parent.is_agent:
        node.agent = parent
    node.steps = parent.steps
    own = _own_step(parent)
    if own:
        node.steps = (*parent.steps, *own)[:_MAX_STEPS]


def _own_step(node: SpanNode) -> tuple[str, ...]:
    """Return the step that a span is: a stretch of the loop, or a nested agent, numbered from the second on."""
    if node.kind is not SpanKind.STEP and (node.agent is None or not node.is_agent):
        return ()
    name = _NOT_A_NAME.sub("_", node.meaning.name).strip("_") or "step"
    if node.kind is SpanKind.STEP or node.agent is None:
        return (name,)
    number = node.inner.get("")  # set once the first child was placed
    if number is None:
        number = node.agent.inner[name] = node.agent.inner.get(name, 0) + 1
        node.inner[""] = number
    return (name if number == 1 else f"{name}_{number}",)


def _drop_duplicate_layer(node: SpanNode) -> None:
    """Drop one of two layers that trace the same model call: counting both would double tokens and cost."""
    outer = node.outer
    if node.kind is not SpanKind.MODEL or outer is None or outer.kind is not SpanKind.MODEL:
        return
    if _is_empty(outer.meaning) and not _is_empty(node.meaning):
        outer.clear_meaning()
        return
    _take_usage(outer, node)
    node.clear_meaning()


def _take_usage(outer: SpanNode, inner: SpanNode) -> None:
    """Take the usage from the layer next to the API: the vendor of the outer layer may only have estimated it."""
    if inner.meaning.usage is None:
        return
    used = (*outer.inner_usages, inner.meaning.usage)
    outer.inner_usages = used
    outer.meaning = replace(outer.meaning, usage=added(used))


def _is_empty(meaning: Meaning) -> bool:
    return not meaning.messages and meaning.answer is None


BEEAI_SCOPE = "openinference.instrumentation.beeai"
_BEEAI_PART = re.compile(r"(.+)\.(start|success|error|finish)-(\d+)")
_PARAMETERS = "tool.parameters"
_MAX_PARAMETERS = 1_000_000  # the longest Python literal that is parsed


def unite_calls(nodes: Iterable[SpanNode]) -> None:
    """Merge the spans of each BeeAI call into its first one, and clear the meaning of the others.

    Its instrumentation makes spans of the start, the success and the finish of a call, such as
    `tool.search.wikipedia.start-12`, `tool.search.wikipedia.success-12` and `tool.search.wikipedia.finish-12`.
    """
    calls: dict[tuple[str, str], dict[str, SpanNode]] = {}
    for node in nodes:
        if node.span.scope != BEEAI_SCOPE or node.kind not in (SpanKind.MODEL, SpanKind.TOOL):
            continue
        found = _BEEAI_PART.fullmatch(node.span.name)
        if found is not None:
            calls.setdefault((found[1], found[3]), {}).setdefault(found[2], node)
    for (name, _number), parts in calls.items():
        _unite_parts(name, parts)


def _unite_parts(name: str, parts: dict[str, SpanNode]) -> None:
    ordered = [parts[part] for part in ("start", "success", "error", "finish") if part in parts]
    first, *others = ordered
    meanings = [node.meaning for node in ordered]
    if first.kind is SpanKind.TOOL:
        first.meaning = _united_tool(name, ordered, meanings)
    else:
        first.meaning = _united_model(meanings)
    ended_ns, failed = first.span.ended_ns, first.span.failed or "error" in parts
    if others:
        ended_ns = max(node.span.started_ns for node in others)
    for node in others:
        failed = failed or node.span.failed
        node.clear_meaning()
    first.span = replace(first.span, ended_ns=ended_ns, failed=failed)


def _united_tool(name: str, nodes: list[SpanNode], meanings: list[Meaning]) -> Meaning:
    output: Json = UNSET
    arguments: Json = None
    for meaning in meanings:
        if output is UNSET and meaning.output is not None:
            output = meaning.output
    for node in nodes:
        if arguments is None:
            arguments = _parameters(node)
    if arguments is None:
        arguments = UNSET
    return Meaning(kind=SpanKind.TOOL, name=name.removeprefix("tool."), input=arguments, output=output)


def _united_model(meanings: list[Meaning]) -> Meaning:
    """Join the spans of a model call: the first has the request, another the answer and the usage."""
    united = replace(meanings[0], answer=None, usage=None)
    for meaning in meanings:
        # The first answer counts, but the last usage.
        united = replace(united, answer=united.answer or meaning.answer, usage=meaning.usage or united.usage)
    return united


def _parameters(node: SpanNode) -> Json:
    """Return a tool's arguments, which are written as Python; Langfuse makes an object of them."""
    attributes = node.span.attributes
    metadata = value_in(attributes.get(OBSERVATION), "metadata")
    written = attributes.get(_PARAMETERS) or object_in(metadata, "attributes").get(_PARAMETERS)
    if isinstance(written, str) and 0 < len(written) <= _MAX_PARAMETERS:
        try:
            written = ast.literal_eval(written)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return None
    if isinstance(written, dict):
        return written
    return None
