"""The events of a trace: each span that is a call, as the event it is."""

from __future__ import annotations

from typing import Any, TypeAlias

from replaykit.formats.core.errors import error_of, tool_outcome
from replaykit.formats.core.messages import ConversationCache, goes_on
from replaykit.formats.spans.meaning import UNSET, Meaning
from replaykit.formats.spans.requested_calls import RequestedCall
from replaykit.formats.spans.span import Span
from replaykit.formats.spans.tree import SpanNode
from replaykit.model.events import ErrorInfo, LlmCall, ToolCall
from replaykit.model.values import ABSENT, Json, Raw, canonical_read, encode_read
from replaykit.wire.json_fields import as_text

_SECOND_NS = 1_000_000_000
_FINAL_ANSWERS = ("final_answer", "FinalAnswerTool")
_Outcome: TypeAlias = tuple[ErrorInfo | None, Raw]


def seconds(time_ns: int) -> float:
    """Nanoseconds as seconds."""
    return time_ns / _SECOND_NS


def duration_of(node: SpanNode) -> float:
    """Return the duration of a span; 0 while it runs."""
    if node.span.ended_ns:
        return max(0.0, seconds(node.span.ended_ns - node.span.started_ns))
    return 0.0


class Texts:
    """Requests of models as canonical texts; parts that a trace repeats are encoded once."""

    def __init__(self, cache: ConversationCache) -> None:
        self._cache = cache
        self._last_messages: list[Json] = []
        self._messages_json = b"[]"
        """The messages of the last call, and their text."""

    def request(self, meaning: Meaning) -> Raw:
        """Return the request of a model, as the arguments of its call."""
        texts = [b'{"messages":', b"null" if meaning.messages is None else self._messages(meaning.messages)]
        if meaning.parameters:
            texts += (b',"parameters":', canonical_read(meaning.parameters))
        if meaning.system:
            texts += (b',"system":', canonical_read(meaning.system))
        if meaning.tools:
            texts += (b',"tools":', self._cache.canonical(meaning.tools))
        texts.append(b"}")
        return Raw(b"".join(texts))  # in the order of their names, as canonical JSON has them

    def _messages(self, messages: list[Json]) -> bytes:
        known = len(self._last_messages)
        if not known or not goes_on(self._last_messages, messages):
            self._messages_json = canonical_read(messages)
        elif known < len(messages):
            self._messages_json = b"%b,%b" % (self._messages_json[:-1], canonical_read(messages[known:])[1:])
        self._last_messages = messages
        return self._messages_json


def model_call(node: SpanNode, meaning: Meaning, texts: Texts, common: dict[str, Any]) -> LlmCall:
    """The call of a model."""
    error = error_in(node.span, has_outcome=meaning.answer is not None)
    answered = meaning.answer is not None and error is None
    return LlmCall(
        **common,
        name=meaning.name or node.span.name,
        arguments_json=texts.request(meaning),
        result_json=Raw(encode_read(meaning.answer.message)) if meaning.answer is not None and answered else ABSENT,
        error=error,
        finish_reason=meaning.finish_reason,
        usage=meaning.usage,
    )


def tool_call(node: SpanNode, meaning: Meaning, request: RequestedCall | None, common: dict[str, Any]) -> ToolCall:
    """The call of a tool; what its span does not say is taken from the conversation."""
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
        name, arguments = request.use.name, request.use.arguments  # the span is of a function that does all calls
    elif request is not None and not isinstance(arguments, dict):
        arguments = request.use.arguments
    return _call(name, arguments, _final_answer(name, arguments, outcome), common)


def untraced_call(request: RequestedCall, common: dict[str, Any]) -> ToolCall:
    """A call of which there is no span: the model asked for it, and was told what came of it."""
    result = request.result
    outcome = (None, ABSENT) if result is None else tool_outcome(result.content, failed=result.failed or None)
    return _call(request.use.name, request.use.arguments, outcome, common)


def _final_answer(name: str, arguments: Json, outcome: _Outcome) -> _Outcome:
    """Return the outcome; for smolagents' tool that ends a run without a result, its argument."""
    if (
        outcome != (None, ABSENT)
        or name not in _FINAL_ANSWERS
        or not isinstance(arguments, dict)
        or "answer" not in arguments
    ):
        return outcome
    return None, Raw(encode_read(arguments["answer"]))


def _call(name: str, arguments: Json, outcome: _Outcome, common: dict[str, Any]) -> ToolCall:
    error, result = outcome
    return ToolCall(
        **common,
        name=name,
        arguments_json=Raw(canonical_read({} if arguments is UNSET or arguments is None else arguments)),
        result_json=result,
        error=error,
    )


_LEVEL = "langfuse.observation.level"
_NO_ERROR = ("", "_OTHER")


def error_in(span: Span, *, has_outcome: bool) -> ErrorInfo | None:
    """The error that a span ended with: by its status, its attributes, or an exception with nothing after it."""
    happenings, attributes = span.happenings, span.attributes
    if happenings:
        thrown = [happening.attributes for happening in happenings if happening.name == "exception"]
    else:
        thrown = []
    kind = as_text(attributes.get("error.type"))
    failed = span.failed or bool(kind) or attributes.get(_LEVEL) == "ERROR"
    if not failed and (not thrown or has_outcome):
        return None
    if thrown:
        return _of_exception(thrown[-1], span)
    message = span.message or as_text(attributes.get("langfuse.observation.status_message"))
    return error_of(message, kind if kind not in _NO_ERROR else "Error")


def _of_exception(exception: dict[str, Json], span: Span) -> ErrorInfo:
    module, _, kind = as_text(exception.get("exception.type")).rpartition(".")
    return ErrorInfo(
        type=kind or as_text(span.attributes.get("error.type")) or "Error",
        module=module,
        message=as_text(exception.get("exception.message")) or span.message,
        traceback=as_text(exception.get("exception.stacktrace")) or None,
    )
