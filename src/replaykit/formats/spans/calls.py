"""The tool calls that models asked for, joined with the spans that made them, or taken from the conversation alone.

Many tracers leave the call's id, arguments or result out of a tool's span, and some make no span for it at all. The
model's request, and the messages that follow it, supply what is missing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from msgspec import Struct

from replaykit.formats.core.fields import error_of, tool_outcome
from replaykit.formats.core.json_text import load_json
from replaykit.formats.core.messages import ConversationCache, goes_on
from replaykit.formats.spans.span import UNSET, Meaning, Span, SpanKind
from replaykit.formats.spans.tree import SpanNode
from replaykit.model.events import ErrorInfo, LlmCall, ToolCall
from replaykit.model.values import ABSENT, Json, JsonObject, Raw, canonical, canonical_read, encode_read
from replaykit.wire.json_fields import as_object, objects_in, text_in
from replaykit.wire.model_calls import ToolUse

_Key = bytes | str


class ReportedResult(Struct, frozen=True):
    """A tool's result as the model saw it."""

    content: Json
    failed: bool


class RequestedCall(Struct):
    """A call that a model asked for."""

    use: ToolUse
    node: SpanNode
    """The span of the model."""
    order_ns: int
    result: ReportedResult | None = None
    is_made: bool = False
    """True once a span is known to have made the call."""


_Take = Callable[[deque[RequestedCall] | None, SpanNode], RequestedCall | None]


def requested_calls(nodes: list[SpanNode]) -> list[RequestedCall]:
    """Return all requested calls in order, with the results that the models saw."""
    found: list[RequestedCall] = []
    waiting: dict[str, list[RequestedCall]] = {}
    results = _Results()
    for node in nodes:
        meaning = node.meaning
        if node.kind is not SpanKind.MODEL:
            continue
        for call_id, answers in results.since(meaning.messages or []).items():
            if call_id in waiting:
                waiting[call_id] = _assign_results(waiting[call_id], answers)
        if meaning.answer is None:
            continue
        for use in meaning.answer.tool_calls:
            request = RequestedCall(use=use, node=node, order_ns=max(node.order_ns, node.span.ended_ns))
            found.append(request)
            if use.id:
                waiting.setdefault(use.id, []).append(request)
    return found


def join(nodes: Iterable[SpanNode], requests: list[RequestedCall]) -> dict[str, RequestedCall]:
    """Find the requested call of each tool span, by its id or else by name and arguments; return them by span id.

    An id may be used again: it then belongs to the last call before the span. Calls without an id are taken in order.
    """
    found: dict[str, RequestedCall] = {}
    tools = [node for node in nodes if node.kind is SpanKind.TOOL]
    for request_key, span_keys, take in _MATCHERS:
        if len(found) == len(tools):
            break
        known: dict[_Key, deque[RequestedCall]] = {}
        for request in requests:
            if not request.is_made and (key := request_key(request)):
                known.setdefault(key, deque()).append(request)
        for node in tools:
            if node.span.id in found:
                continue
            for key in span_keys(node.meaning):
                match = take(known.get(key), node)
                if match is not None:
                    match.is_made = True
                    found[node.span.id] = match
                    break
    return found


def _first(waiting: deque[RequestedCall] | None, node: SpanNode) -> RequestedCall | None:
    """Take the first call requested before the tool began. Streams may start a tool while the model still answers."""
    if waiting and waiting[0].node.order_ns <= node.order_ns:
        return waiting.popleft()
    return None


def _last(waiting: deque[RequestedCall] | None, node: SpanNode) -> RequestedCall | None:
    """Take the first call that the last answer before the tool asked for."""
    if not waiting:
        return None
    place = bisect_right(waiting, node.order_ns, key=lambda request: request.node.order_ns) - 1
    if place < 0:
        return None
    while place and waiting[place - 1].node is waiting[place].node:
        place -= 1
    found = waiting[place]
    del waiting[place]
    return found


# The call that precedes a result in the conversation, if any, and the message with the result.
_Result = tuple[Json, JsonObject]


class _Results:
    """Finds the tool results that models saw by call id, one conversation after another."""

    def __init__(self) -> None:
        self._messages: list[Json] = []
        # The calls of the last answer that used an id: some models restart their numbering with each answer.
        self._uses: dict[str, deque[Json]] = {}

    def since(self, messages: list[Json]) -> dict[str, list[_Result]]:
        """Return the results that are new in this conversation; all of them if it does not continue the last one."""
        if not goes_on(self._messages, messages):
            self._messages, self._uses = [], {}
        found: dict[str, list[_Result]] = {}
        for message in messages[len(self._messages) :]:
            if not isinstance(message, dict):
                continue
            if calls := objects_in(message, "tool_calls"):
                self._uses |= _by_id(calls)
            call_id = message.get("tool_call_id")
            if isinstance(call_id, str) and call_id:
                uses = self._uses.get(call_id)
                found.setdefault(call_id, []).append((uses.popleft() if uses else None, message))
        self._messages = messages
        return found


def _by_id(calls: Iterable[JsonObject]) -> dict[str, deque[Json]]:
    found: dict[str, deque[Json]] = {}
    for call in calls:
        found.setdefault(text_in(call, "id"), deque()).append(call)
    return found


def _assign_results(waiting: list[RequestedCall], results: list[_Result]) -> list[RequestedCall]:
    """Assign results to the calls that wait for them; return the calls that are still without one.

    A result belongs to the call right before it. If such a call was made before, the last results belong to these.
    """
    by_call: dict[bytes, list[JsonObject]] = {}
    for use, message in results:
        key = b""
        if use is not None:
            key = canonical([use.get("name"), use.get("arguments")])
        by_call.setdefault(key, []).append(message)
    for key, messages in by_call.items():
        candidates = [
            request for request in waiting if request.result is None and key in (b"", _requested_call(request))
        ]
        for request, message in zip(candidates, messages[-len(candidates) :], strict=False):
            request.result = ReportedResult(load_json(message.get("content")), message.get("status") == "error")
    return [request for request in waiting if request.result is None]


def _requested_whole(request: RequestedCall) -> bytes:
    if request.use.id:
        return canonical([request.use.id, request.use.name, request.use.arguments])
    return b""


def _called_whole(meaning: Meaning) -> Iterable[bytes]:
    if not meaning.call_id or meaning.input is UNSET:
        return ()
    return (canonical([meaning.call_id, meaning.name, meaning.input]),)


def _requested_id(request: RequestedCall) -> str:
    return request.use.id


def _called_ids(meaning: Meaning) -> Iterable[str]:
    """Return the ids that a span may name: its own, or the text arguments of a function that dispatches all calls."""
    if meaning.call_id:
        return (meaning.call_id,)
    arguments = meaning.input
    if isinstance(arguments, dict):
        arguments = list(arguments.values())
    if not isinstance(arguments, list):
        return ()
    return [value for value in arguments if isinstance(value, str)]


def _requested_call(request: RequestedCall) -> bytes:
    return canonical([request.use.name, request.use.arguments])


def _called_all(meaning: Meaning) -> Iterable[bytes]:
    if meaning.call_id or meaning.input is UNSET:
        return ()
    return (canonical([meaning.name, meaning.input]),)


def _requested_name(request: RequestedCall) -> str:
    return request.use.name


def _called_name(meaning: Meaning) -> Iterable[str]:
    """Return the name alone, but only if the span does not state the arguments."""
    if meaning.call_id or isinstance(meaning.input, dict):
        return ()
    return (meaning.name,)


# Ways to match requested calls with spans, best first: key of the request, keys of the span, choice among several.
_MATCHERS: tuple[tuple[Callable[[RequestedCall], _Key], Callable[[Meaning], Iterable[_Key]], _Take], ...] = (
    (_requested_whole, _called_whole, _last),
    (_requested_id, _called_ids, _last),
    (_requested_call, _called_all, _first),
    (_requested_name, _called_name, _first),
)


_SECOND_NS = 1_000_000_000
_FINAL_ANSWERS = ("final_answer", "FinalAnswerTool")
_Outcome: TypeAlias = tuple[ErrorInfo | None, Raw]


def seconds(time_ns: int) -> float:
    return time_ns / _SECOND_NS


def duration_of(node: SpanNode) -> float:
    """Return the duration of a span in seconds; 0 while it runs."""
    if node.span.ended_ns:
        return max(0.0, seconds(node.span.ended_ns - node.span.started_ns))
    return 0.0


class Texts:
    """Writes model requests as canonical text; encodes the parts that a trace repeats only once."""

    def __init__(self, cache: ConversationCache) -> None:
        self._cache = cache
        self._last_messages: list[Json] = []
        self._messages_json = b"[]"  # the JSON text of the last call's messages

    def request(self, meaning: Meaning) -> Raw:
        """Return a model's request, as the arguments of its call."""
        texts = [b'{"messages":', b"null" if meaning.messages is None else self._messages(meaning.messages)]
        if meaning.parameters:
            texts += (b',"parameters":', canonical_read(meaning.parameters))
        if meaning.system:
            texts += (b',"system":', canonical_read(meaning.system))
        if meaning.tools:
            texts += (b',"tools":', self._cache.canonical(meaning.tools))
        texts.append(b"}")
        return Raw(b"".join(texts))  # members sorted by name, as in canonical JSON

    def _messages(self, messages: list[Json]) -> bytes:
        known = len(self._last_messages)
        if not known or not goes_on(self._last_messages, messages):
            self._messages_json = canonical_read(messages)
        elif known < len(messages):
            self._messages_json = b"%b,%b" % (self._messages_json[:-1], canonical_read(messages[known:])[1:])
        self._last_messages = messages
        return self._messages_json


def model_call(node: SpanNode, texts: Texts, common: dict[str, Any]) -> LlmCall:
    meaning = node.meaning
    error = error_in(node.span, has_outcome=meaning.answer is not None)
    result = ABSENT
    if meaning.answer is not None and error is None:
        result = Raw(encode_read(meaning.answer.message))
    return LlmCall(
        **common,
        name=meaning.name or node.span.name,
        arguments_json=texts.request(meaning),
        result_json=result,
        error=error,
        finish_reason=meaning.finish_reason,
        usage=meaning.usage,
    )


def tool_call(node: SpanNode, request: RequestedCall | None, common: dict[str, Any]) -> ToolCall:
    """Return the call of a tool; whatever its span lacks comes from the conversation."""
    meaning = node.meaning
    result = meaning.output
    error = error_in(node.span, has_outcome=result is not UNSET)
    if result is UNSET and request is not None and request.result is not None:
        answer = request.result
        outcome = tool_outcome(answer.content, failed=answer.failed, error=error)
    elif result is UNSET:
        outcome = error, ABSENT
    else:
        outcome = tool_outcome(result, failed=meaning.tool_failed, error=error)
    name, arguments = meaning.name or node.span.name, meaning.input
    if request is not None and request.use.name and request.use.name != name and request.use.id != meaning.call_id:
        name, arguments = request.use.name, request.use.arguments  # the span is of a function that dispatches all calls
    elif request is not None and not isinstance(arguments, dict):
        arguments = request.use.arguments
    return _call(name, arguments, _final_answer(name, arguments, outcome), common)


def untraced_call(request: RequestedCall, common: dict[str, Any]) -> ToolCall:
    """Return a call without a span, from the model's request and the result that it saw."""
    result = request.result
    outcome = (None, ABSENT) if result is None else tool_outcome(result.content, failed=result.failed or None)
    return _call(request.use.name, request.use.arguments, outcome, common)


def _final_answer(name: str, arguments: Json, outcome: _Outcome) -> _Outcome:
    """Return the outcome; for smolagents' tool that ends a run without a result, return its argument."""
    if outcome == (None, ABSENT) and name in _FINAL_ANSWERS and "answer" in as_object(arguments):
        return None, Raw(encode_read(arguments["answer"]))
    return outcome


def _call(name: str, arguments: Json, outcome: _Outcome, common: dict[str, Any]) -> ToolCall:
    error, result = outcome
    if arguments is UNSET or arguments is None:
        arguments = {}
    arguments_json = Raw(canonical_read(arguments))
    return ToolCall(**common, name=name, arguments_json=arguments_json, result_json=result, error=error)


_LEVEL = "langfuse.observation.level"
_NO_ERROR = ("", "_OTHER")


def error_in(span: Span, *, has_outcome: bool) -> ErrorInfo | None:
    """Return the error that a span ended with: from its status, its attributes, or an exception without an outcome."""
    attributes, exception = span.attributes, None
    for happening in span.happenings:
        if happening.name == "exception":
            exception = happening.attributes
    kind = text_in(attributes, "error.type")
    failed = span.failed or bool(kind) or attributes.get(_LEVEL) == "ERROR"
    if not failed and (exception is None or has_outcome):
        return None
    if exception is not None:
        return _of_exception(exception, span)
    if kind in _NO_ERROR:
        kind = "Error"
    return error_of(span.message or text_in(attributes, "langfuse.observation.status_message"), kind)


def _of_exception(exception: JsonObject, span: Span) -> ErrorInfo:
    module, _, kind = text_in(exception, "exception.type").rpartition(".")
    return ErrorInfo(
        type=kind or text_in(span.attributes, "error.type") or "Error",
        module=module,
        message=text_in(exception, "exception.message") or span.message,
        traceback=text_in(exception, "exception.stacktrace") or None,
    )
