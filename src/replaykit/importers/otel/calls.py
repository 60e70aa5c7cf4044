"""The events of a trace: each span that is a call, as the event it is."""

from __future__ import annotations

from typing import Any, TypeAlias

from replaykit.importers.errors import tool_outcome
from replaykit.importers.otel.asked import Asked
from replaykit.importers.otel.meaning import UNSET, Heard, Meaning, goes_on
from replaykit.importers.otel.outcomes import error_in
from replaykit.importers.otel.tree import Node
from replaykit.model.events import ErrorInfo, LlmCall, ToolCall
from replaykit.model.values import ABSENT, Json, Raw, canonical_read, encode_read

_SECOND_NS = 1_000_000_000
_FINAL_ANSWERS = ("final_answer", "FinalAnswerTool")
_Outcome: TypeAlias = tuple[ErrorInfo | None, Raw]


def seconds(time_ns: int) -> float:
    """Nanoseconds as seconds."""
    return time_ns / _SECOND_NS


def duration_of(node: Node) -> float:
    """How long a span took; 0 while it is under way."""
    return max(0.0, seconds(node.span.ended_ns - node.span.started_ns)) if node.span.ended_ns else 0.0


class Texts:
    """What models were asked, as canonical texts: what comes again and again in a trace is written once."""

    def __init__(self, heard: Heard) -> None:
        self._heard = heard
        self._said: list[Json] = []
        self._told = b"[]"
        """The messages of the last call, and their text."""

    def request(self, meaning: Meaning) -> Raw:
        """What a model was asked, as the arguments of its call."""
        texts = [b'{"messages":', b"null" if meaning.messages is None else self._messages(meaning.messages)]
        if meaning.parameters:
            texts += (b',"parameters":', canonical_read(meaning.parameters))
        if meaning.system:
            texts += (b',"system":', canonical_read(meaning.system))
        if meaning.tools:
            texts += (b',"tools":', self._heard.canonical(meaning.tools))
        texts.append(b"}")
        return Raw(b"".join(texts))  # in the order of their names, as canonical JSON has them

    def _messages(self, said: list[Json]) -> bytes:
        known = len(self._said)
        if not known or not goes_on(self._said, said):
            self._told = canonical_read(said)
        elif known < len(said):
            self._told = b"%b,%b" % (self._told[:-1], canonical_read(said[known:])[1:])
        self._said = said
        return self._told


def model_call(node: Node, meaning: Meaning, texts: Texts, common: dict[str, Any]) -> LlmCall:
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


def tool_call(node: Node, meaning: Meaning, asked: Asked | None, common: dict[str, Any]) -> ToolCall:
    """The call of a tool; what its span does not say is taken from the conversation."""
    result = meaning.output
    error = error_in(node.span, has_outcome=result is not UNSET)
    if result is UNSET and asked is not None and asked.told is not None:
        told = asked.told
        outcome = tool_outcome(told.content, failed=told.failed, error=error)
    elif result is UNSET:
        outcome = error, ABSENT
    else:
        outcome = tool_outcome(result, failed=meaning.tool_failed, error=error)
    name, given = meaning.name or node.span.name, meaning.input
    if asked is not None and asked.use.name and asked.use.name != name and asked.use.id != meaning.call_id:
        name, given = asked.use.name, asked.use.arguments  # the span is of a function that does all calls
    elif asked is not None and not isinstance(given, dict):
        given = asked.use.arguments
    return _call(name, given, _final_answer(name, given, outcome), common)


def untraced_call(asked: Asked, common: dict[str, Any]) -> ToolCall:
    """A call of which there is no span: the model asked for it, and was told what came of it."""
    told = asked.told
    outcome = (None, ABSENT) if told is None else tool_outcome(told.content, failed=told.failed or None)
    return _call(asked.use.name, asked.use.arguments, outcome, common)


def _final_answer(name: str, given: Json, outcome: _Outcome) -> _Outcome:
    """The outcome; of smolagents' tool that ends a run, which returns what it is given, that."""
    if outcome != (None, ABSENT) or name not in _FINAL_ANSWERS or not isinstance(given, dict) or "answer" not in given:
        return outcome
    return None, Raw(encode_read(given["answer"]))


def _call(name: str, given: Json, outcome: _Outcome, common: dict[str, Any]) -> ToolCall:
    error, result = outcome
    return ToolCall(
        **common,
        name=name,
        arguments_json=Raw(canonical_read({} if given is UNSET or given is None else given)),
        result_json=result,
        error=error,
    )
