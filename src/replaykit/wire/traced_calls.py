"""Model calls in traces: the request, and an answer in a form that an API can send.

A replay serves what `TracedOutcome` holds, and an importer promises it, so both use the same reader.
"""

from __future__ import annotations

import orjson
from msgspec import Struct
from msgspec.structs import replace

from replaykit.errors import UsageError
from replaykit.model.events import ErrorInfo, LlmCall
from replaykit.model.text_lines import words_of
from replaykit.model.values import Json, decode
from replaykit.wire import anthropic, gemini, openai_chat, openai_responses
from replaykit.wire.dialect import ApiDialect, minted_id
from replaykit.wire.error_bodies import status_of
from replaykit.wire.json_fields import as_object, as_text, joined
from replaykit.wire.messages import ASSISTANT, TextPiece, ToolCallPiece, is_masked, pieces_of
from replaykit.wire.model_calls import ModelAnswer, ToolUse, answer_of

# Members that identify a whole response.
_BODIES: tuple[tuple[str, ApiDialect], ...] = (
    ("choices", openai_chat.DIALECT),
    ("candidates", gemini.DIALECT),
    ("output", openai_responses.DIALECT),
    ("stop_reason", anthropic.DIALECT),
)
# Members of a message that are metadata.
_METADATA_MEMBERS = frozenset(
    words_of("finish_reason stop_reason usage usage_metadata response_metadata model name id logprobs")
)
_TIMEOUTS, _CONNECTIONS = ("timeout", "timedout"), ("connection", "connect", "network")


class TracedOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of a traced call, as far as it can be served."""

    answer: ModelAnswer | None = None
    error: ErrorInfo | None = None
    status: int = 0
    """The HTTP status of the error; 0 if no response came."""
    timed_out: bool = False
    """Without a response: True for a timeout, False for a failed connection."""
    problem: str = ""
    """Why nothing can be served; empty if something can."""


def outcome_of(call: LlmCall) -> TracedOutcome:
    """Return the outcome of a call in a trace without recorded bytes."""
    if call.error is not None:
        return _failure(call.error)
    if not call.answered:
        return TracedOutcome(problem="the trace holds no answer of it")
    if not call.complete:
        return TracedOutcome(problem="the trace holds only a part of its answer")
    answer = _answer(decode(call.result_json))
    if answer is None:
        return TracedOutcome(problem="the trace holds no message of a model as its answer")
    if is_masked(answer.content or ""):
        return TracedOutcome(problem="the trace hides its answer")
    parts = tuple(part for part in answer.parts if not _is_metadata(part))
    return TracedOutcome(answer=_with_ids(replace(answer, parts=parts), seed_of(call)))


def _is_metadata(part: Json) -> bool:
    """Return whether a part holds only metadata that the trace added to the message."""
    return isinstance(part, dict) and _METADATA_MEMBERS.issuperset(part)


def seed_of(call: LlmCall) -> bytes:
    """Return the seed for the ids of the call's answer: the same in every process that serves it."""
    return b"%d %b" % (call.seq, bytes(call.result_json))


def response_id(call: LlmCall) -> str:
    """Return the id by which a later request can continue the call's answer."""
    return minted_id(seed_of(call), openai_responses.RESPONSE)


def _failure(error: ErrorInfo) -> TracedOutcome:
    status = status_of(error)
    if status is not None:
        return TracedOutcome(error=error, status=status)
    name = error.type.lower()
    if any(word in name for word in _TIMEOUTS):
        return TracedOutcome(error=error, timed_out=True)
    if any(word in name for word in _CONNECTIONS):
        return TracedOutcome(error=error)
    return TracedOutcome(problem=f"the trace says that it failed with {error.type}, which no API of a model sends")


def _answer(value: Json) -> ModelAnswer | None:
    if isinstance(value, str):
        return ModelAnswer(content=value)
    if isinstance(value, dict):
        try:
            return answer_of(value)
        except UsageError:
            pass
        for member, dialect in _BODIES:
            if member in value:
                response = dialect.read_response(value)
                if response.answers:
                    return response.answers[0]
                return None
    return _answer_from_pieces(value)


def _answer_from_pieces(value: Json) -> ModelAnswer | None:
    """Return the answer in a message, or in a list of messages, of some API."""
    pieces = pieces_of(value, ASSISTANT)
    texts = [piece.text for piece in pieces if isinstance(piece, TextPiece) and piece.role == ASSISTANT]
    calls = [piece for piece in pieces if isinstance(piece, ToolCallPiece)]
    if not texts and not calls:
        return None
    thoughts = (as_text(as_object(value).get(name)) for name in ("thinking", "reasoning_content"))
    return ModelAnswer(
        content=joined(texts, "\n"),
        tool_calls=tuple(ToolUse(id=call.id, name=call.name, arguments=orjson.loads(call.arguments)) for call in calls),
        thinking=next(filter(None, thoughts), None),
    )


def _with_ids(answer: ModelAnswer, seed: bytes) -> ModelAnswer:
    """Return the answer with an id for every tool call: later messages refer to it."""
    if all(call.id for call in answer.tool_calls):
        return answer
    calls = [
        ToolUse(id=call.id or minted_id(seed, "call_", index), name=call.name, arguments=call.arguments)
        for index, call in enumerate(answer.tool_calls)
    ]
    return replace(answer, tool_calls=tuple(calls))
