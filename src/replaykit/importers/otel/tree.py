"""From the spans of a trace to its tree: the same for the same spans, however they came."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from replaykit.importers.otel.beeai import unite_calls
from replaykit.importers.otel.dialects import meaning_of
from replaykit.importers.otel.meaning import Heard, Kind, Meaning
from replaykit.importers.otel.span import Happening, Span, encode_spans
from replaykit.importers.totals import added
from replaykit.model.events import Usage
from replaykit.model.values import Json, canonical

_MAX_STEPS = 8
_NUMBER = "replaykit.event.seq"
_LAST = 1 << 63
_NOT_A_NAME = re.compile(r"[^\w.-]+")


class Node:
    """A span among its parent and children, read."""

    __slots__ = (
        *("agent", "call", "children", "depth", "dialect", "in_failure", "inner", "inside", "is_agent"),
        *("inner_usages", "kind", "meaning", "number", "order_ns", "outer", "parent", "span", "steps"),
    )

    def __init__(self, span: Span, meaning: Meaning | None, dialect: str) -> None:
        self.span = span
        self.dialect = dialect
        self.meaning = meaning
        self.kind = None if meaning is None else meaning.kind
        self.is_agent = meaning is not None and meaning.kind is Kind.AGENT and meaning.is_agent
        self.parent: Node | None = None
        self.children: list[Node] = []
        self.depth = 0
        self.order_ns = span.started_ns
        """When it began, and not before the span around it, whatever the clocks say."""
        self.number = _LAST
        """Its place in the log it was written from, or that of the first span inside of it: for what has no time."""
        self.call: int | None = None
        """The sequence number of its own event, where that is a call."""
        self.inside: int | None = None
        """That of the call around it."""
        self.in_failure = False
        """The call around it failed, or one around that."""
        self.outer: Node | None = None
        """The nearest span around it that means something, but for steps."""
        self.agent: Node | None = None
        """The nearest agent around it."""
        self.steps: tuple[str, ...] = ()
        """The steps it is in, the outermost first."""
        self.inner_usages: tuple[Usage, ...] = ()
        """Of a model's call that another layer has traced as well: what that one says it took."""
        self.inner: dict[str, int] = {}
        """Of an agent: how often each other one was called inside of it."""

    def mean_nothing(self) -> None:
        """What it says, another span says as well."""
        self.meaning = self.kind = None
        self.is_agent = False

    @property
    def sort_key(self) -> tuple[int, int, int, int, str]:
        return self.order_ns, self.number, self.depth, self.span.started_ns, self.span.id


class Tree:
    """The spans of a trace: its roots, and all of them in the order they began."""

    def __init__(self, spans: Iterable[Span], heard: Heard) -> None:
        united, self.apart = unite(spans)
        nodes = {span.id: Node(span, *meaning_of(span, heard)) for span in united}
        self.missing = sorted({n.span.parent for n in nodes.values() if n.span.parent} - nodes.keys())
        """Ids of spans that others name as their parents, and that are not there."""
        for node in nodes.values():
            node.parent = nodes.get(node.span.parent)
        self.roots = _linked(list(nodes.values()))
        _number(nodes.values())
        self.nodes = sorted(nodes.values(), key=lambda node: node.sort_key)
        for node in self.nodes:  # parents come before their children
            _place(node)
        unite_calls(self.nodes)
        for node in self.nodes:
            _drop_double(node)

    def close(self) -> None:
        """Parents let go of their children: circles would stay in memory until Python looks for them."""
        for node in self.nodes:
            node.children.clear()

    @property
    def is_whole(self) -> bool:
        """True when the root has ended and nothing that others speak of is missing."""
        ended = len(self.roots) == 1 and not self.roots[0].span.parent and self.roots[0].span.ended_ns > 0
        return ended and not self.missing and not self.apart


def unite(spans: Iterable[Span]) -> tuple[list[Span], set[str]]:
    """Each span once, with what log records say of it; and the ids of spans that only log records speak of."""
    own: dict[str, Span] = {}
    told: dict[str, list[Happening]] = {}
    for span in spans:
        if span.is_aside:
            told.setdefault(span.id, []).extend(span.happenings)
        elif span.id not in own or _rank(span) > _rank(own[span.id]):
            own[span.id] = span
    found = [_with(span, told.get(span.id, [])) if told or span.happenings else span for span in own.values()]
    return found, told.keys() - own.keys()


def _rank(span: Span) -> tuple[int, bytes]:
    """Of two that differ, the one that ended later says more."""
    return span.ended_ns, encode_spans([span])


def _with(span: Span, told: list[Happening]) -> Span:
    if not told and len(span.happenings) <= 1:
        return span
    happenings = {canonical(_plain(happening)): happening for happening in (*span.happenings, *told)}
    ordered = [happenings[text] for text in sorted(happenings, key=lambda text: (happenings[text].at_ns, text))]
    fields = {name: getattr(span, name) for name in span.__struct_fields__}
    return Span(**{**fields, "happenings": tuple(ordered)})


def _plain(happening: Happening) -> list[Json]:
    return [happening.at_ns, happening.name, happening.attributes, happening.body]


def _linked(nodes: list[Node]) -> list[Node]:
    """Fill in children and depths; gives the roots. Spans that are each other's parents are cut at the earliest."""
    by_start = sorted(nodes, key=lambda node: (node.span.started_ns, node.span.id))
    for node in by_start:
        if node.parent is not None:
            node.parent.children.append(node)
    roots: list[Node] = []
    reached: set[int] = set()
    for of_circles in (False, True):
        for node in by_start:
            if id(node) in reached or (node.parent is not None and not of_circles):
                continue
            if node.parent is not None:
                node.parent.children.remove(node)
                node.parent = None
            roots.append(node)
            _descend(node, reached)
    return roots


def _descend(root: Node, reached: set[int]) -> None:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        reached.add(id(node))
        if node.parent is not None:
            node.depth = node.parent.depth + 1
            node.order_ns = max(node.order_ns, node.parent.order_ns)
        waiting.extend(node.children)


def _number(nodes: Iterable[Node]) -> None:
    """Give each the number that it says, or a lower one of a span inside of it: parents stay before their children."""
    said = [(n.span.attributes.get(_NUMBER), n) for n in nodes if _NUMBER in n.span.attributes]
    numbered = [(number, node) for number, node in said if type(number) is int and 0 <= number < _LAST]
    for number, found in sorted(numbered, key=lambda pair: pair[0]):
        node: Node | None = found
        while node is not None and node.number == _LAST:
            node.number = number
            node = node.parent


def _place(node: Node) -> None:
    """What is around a span; each takes over what its parent knows, so that no depth costs more than another."""
    parent = node.parent
    if parent is None:
        return
    node.outer = parent.outer if parent.kind in (None, Kind.STEP) else parent
    node.agent = parent if parent.is_agent else parent.agent
    own = _own_step(parent)
    node.steps = (*parent.steps, *own)[:_MAX_STEPS] if own else parent.steps


def _own_step(node: Node) -> tuple[str, ...]:
    """The step that a span is: a stretch of the loop, or an agent inside of another, numbered from the second on."""
    if node.meaning is None or (node.kind is not Kind.STEP and (node.agent is None or not node.is_agent)):
        return ()
    name = _NOT_A_NAME.sub("_", node.meaning.name).strip("_") or "step"
    if node.kind is Kind.STEP or node.agent is None:
        return (name,)
    number = node.inner.get("")  # its own number, once it is known
    if number is None:
        number = node.agent.inner[name] = node.agent.inner.get(name, 0) + 1
        node.inner[""] = number
    return (name if number == 1 else f"{name}_{number}",)


def _drop_double(node: Node) -> None:
    """Two layers that both trace one call of a model: to count it twice would double tokens and money."""
    outer = node.outer
    if node.kind is not Kind.MODEL or outer is None or outer.kind is not Kind.MODEL:
        return
    if _is_silent(outer.meaning) and not _is_silent(node.meaning):
        outer.mean_nothing()
        return
    _take_usage(outer, node)
    node.mean_nothing()


def _take_usage(outer: Node, inner: Node) -> None:
    """Let the layer that is next to the API say what a call took: for the other one, a vendor may only have guessed."""
    if outer.meaning is None or inner.meaning is None or inner.meaning.usage is None:
        return
    used = (*outer.inner_usages, inner.meaning.usage)
    outer.inner_usages = used
    outer.meaning = msgspec.structs.replace(outer.meaning, usage=added(used))


def _is_silent(meaning: Meaning | None) -> bool:
    return meaning is None or (not meaning.messages and meaning.answer is None)
