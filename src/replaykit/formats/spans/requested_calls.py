"""The calls of tools that models asked for: joined with the spans that made them, or told by the conversation alone.

Many tracers give a tool's span no id of the call, no arguments or no result, and some make no span of it at all. What
the model asked, and what it was told next, says the rest.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable

from msgspec import Struct

from replaykit.formats.core.json_text import load_json
from replaykit.formats.core.messages import goes_on
from replaykit.formats.spans.meaning import UNSET, Meaning, SpanKind
from replaykit.formats.spans.tree import SpanNode
from replaykit.model.values import Json, canonical
from replaykit.wire.json_fields import as_objects, as_text
from replaykit.wire.model_calls import ToolUse

_Key = bytes | str


class ReportedResult(Struct, frozen=True):
    """A tool's result as the model was told it."""

    content: Json
    failed: bool


class RequestedCall(Struct):
    """One call that a model asked for."""

    use: ToolUse
    node: SpanNode
    """The model's."""
    order_ns: int
    result: ReportedResult | None = None
    is_made: bool = False
    """A span made it."""


_Take = Callable[[deque[RequestedCall] | None, SpanNode], RequestedCall | None]


def requested_calls(nodes: list[SpanNode]) -> list[RequestedCall]:
    """All of them, in order, with what the models were told that came of them."""
    found: list[RequestedCall] = []
    waiting: dict[str, list[RequestedCall]] = {}
    results = _Results()
    for node in nodes:
        if node.meaning is None or node.kind is not SpanKind.MODEL:
            continue
        for call_id, answers in results.since(node.meaning.messages or []).items():
            if call_id in waiting:
                waiting[call_id] = _tell(waiting[call_id], answers)
        for use in node.meaning.answer.tool_calls if node.meaning.answer else ():
            found.append(RequestedCall(use=use, node=node, order_ns=max(node.order_ns, node.span.ended_ns)))
            if use.id:
                waiting.setdefault(use.id, []).append(found[-1])
    return found


def join(nodes: Iterable[SpanNode], request: list[RequestedCall]) -> dict[str, RequestedCall]:
    """For the spans of tools, by their ids, the call that each one is: by its id, else by what was asked.

    An id may come again, and is then of the last call before the span; what has none is taken in its order.
    """
    found: dict[str, RequestedCall] = {}
    tools = [(node, node.meaning) for node in nodes if node.kind is SpanKind.TOOL and node.meaning is not None]
    for asked_as, called_as, taken_of in _WAYS:
        if len(found) == len(tools):
            break
        known: dict[_Key, deque[RequestedCall]] = {}
        for item in request:
            if not item.is_made and (key := asked_as(item)):
                known.setdefault(key, deque()).append(item)
        for node, meaning in tools:
            keys = called_as(meaning) if node.span.id not in found else ()
            match = next((taken for key in keys if (taken := taken_of(known.get(key), node)) is not None), None)
            if match is not None:
                match.is_made = True
                found[node.span.id] = match
    return found


def _first(waiting: deque[RequestedCall] | None, node: SpanNode) -> RequestedCall | None:
    """The first that was asked before the tool began; a stream may call it while the model still speaks."""
    if waiting and waiting[0].node.order_ns <= node.order_ns:
        return waiting.popleft()
    return None


def _last(waiting: deque[RequestedCall] | None, node: SpanNode) -> RequestedCall | None:
    """The first of those that the last answer before the tool asked for."""
    place = bisect_right(waiting, node.order_ns, key=lambda request: request.node.order_ns) - 1 if waiting else -1
    if waiting is None or place < 0:
        return None
    while place and waiting[place - 1].node is waiting[place].node:
        place -= 1
    found = waiting[place]
    del waiting[place]
    return found


_Result = tuple[Json, dict[str, Json]]
"""The call that a conversation holds before a result, if it does, and the message with the result."""


class _Results:
    """The results of tools that models were told, by the ids of the calls, one conversation after another."""

    def __init__(self) -> None:
        self._messages: list[Json] = []
        self._uses: dict[str, deque[Json]] = {}
        """The calls of the last answer that used an id: some models begin to count anew with each answer."""

    def since(self, messages: list[Json]) -> dict[str, list[_Result]]:
        """The results that the conversation has since the last one; all of them where it does not go on."""
        if not goes_on(self._messages, messages):
            self._messages, self._uses = [], {}
        found: dict[str, list[_Result]] = {}
        for message in messages[len(self._messages) :]:
            if not isinstance(message, dict):
                continue
            if calls := as_objects(message.get("tool_calls")):
                self._uses |= _by_id(calls)
            call_id = message.get("tool_call_id")
            if isinstance(call_id, str) and call_id:
                uses = self._uses.get(call_id)
                found.setdefault(call_id, []).append((uses.popleft() if uses else None, message))
        self._messages = messages
        return found


def _by_id(calls: Iterable[dict[str, Json]]) -> dict[str, deque[Json]]:
    found: dict[str, deque[Json]] = {}
    for call in calls:
        found.setdefault(as_text(call.get("id")), deque()).append(call)
    return found


def _tell(waiting: list[RequestedCall], results: list[_Result]) -> list[RequestedCall]:
    """Tell those that wait what came of them; gives those of which nothing was said.

    A result is of the very call that stands before it. Where such a call was made before, the last results are theirs.
    """
    by_call: dict[bytes, list[dict[str, Json]]] = {}
    for use, message in results:
        by_call.setdefault(b"" if use is None else canonical([use.get("name"), use.get("arguments")]), []).append(
            message
        )
    for key, messages in by_call.items():
        mine = [request for request in waiting if request.result is None and key in (b"", _asked_all(request))]
        for request, message in zip(mine, messages[-len(mine) :], strict=False):
            request.result = ReportedResult(load_json(message.get("content")), message.get("status") == "error")
    return [request for request in waiting if request.result is None]


def _asked_whole(request: RequestedCall) -> bytes:
    if request.use.id:
        return canonical([request.use.id, request.use.name, request.use.arguments])
    return b""


def _called_whole(meaning: Meaning) -> Iterable[bytes]:
    if not meaning.call_id or meaning.input is UNSET:
        return ()
    return (canonical([meaning.call_id, meaning.name, meaning.input]),)


def _asked_id(request: RequestedCall) -> str:
    return request.use.id


def _called_ids(meaning: Meaning) -> Iterable[str]:
    """The call's id; a function that does all calls may have it among its arguments."""
    if meaning.call_id:
        return (meaning.call_id,)
    arguments = meaning.input
    if isinstance(arguments, dict):
        arguments = list(arguments.values())
    if not isinstance(arguments, list):
        return ()
    return [value for value in arguments if isinstance(value, str)]


def _asked_all(request: RequestedCall) -> bytes:
    return canonical([request.use.name, request.use.arguments])


def _called_all(meaning: Meaning) -> Iterable[bytes]:
    if meaning.call_id or meaning.input is UNSET:
        return ()
    return (canonical([meaning.name, meaning.input]),)


def _asked_name(request: RequestedCall) -> str:
    return request.use.name


def _called_name(meaning: Meaning) -> Iterable[str]:
    """By its name alone only where the span does not say with which arguments."""
    if meaning.call_id or isinstance(meaning.input, dict):
        return ()
    return (meaning.name,)


_WAYS: tuple[tuple[Callable[[RequestedCall], _Key], Callable[[Meaning], Iterable[_Key]], _Take], ...] = (
    (_asked_whole, _called_whole, _last),
    (_asked_id, _called_ids, _last),
    (_asked_all, _called_all, _first),
    (_asked_name, _called_name, _first),
)
"""Ways to match requested calls with spans: the request's key, the span's keys, and which of several to take."""
