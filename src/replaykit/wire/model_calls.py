"""Model calls, as read from the wire: what was asked, what was answered, in one shape for all APIs.

An answer is one message:

    role        who speaks: "assistant"
    content     everything it says, as one text; null when it says nothing
    tool_calls  [{id, name, arguments}], in order; the arguments are an object (or list), or, where the model wrote
                no JSON, its text; the id is "" where the API has none
    thinking    its reasoning, where the wire shows it in the open
    refusal     why it would not answer, where the API says so beside the content
    parts       what else it holds (images, audio, citations, calls of the provider's own tools), each as the wire
                wrote it

`role`, `content` and `tool_calls` are always there, the others when they hold something. Encrypted reasoning and
signatures are not part of it: they belong to the recorded bytes, and `Api.write` takes them from there.
"""

from __future__ import annotations

import math

import msgspec
from msgspec import Struct, field

from replaykit.errors import UsageError
from replaykit.model.events import ErrorInfo, Usage
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import as_count, as_object


class ToolUse(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One call of a tool that an answer asks for."""

    id: str = ""
    name: str
    arguments: Json = field(default_factory=dict)


class ModelAnswer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model's answer: one message."""

    role: str = "assistant"
    content: str | None = None
    tool_calls: tuple[ToolUse, ...] = ()
    thinking: str | None = None
    refusal: str | None = None
    parts: tuple[Json, ...] = ()

    @property
    def message(self) -> JsonObject:
        """As JSON, in the shape this module describes."""
        calls = list(map(msgspec.structs.asdict, self.tool_calls))
        message: JsonObject = {"role": self.role, "content": self.content, "tool_calls": calls}
        more = {"thinking": self.thinking, "refusal": self.refusal, "parts": list(self.parts)}
        return message | {name: value for name, value in more.items() if value}


class ModelOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of a model call."""

    model: str = ""
    """The model that answered."""
    answer: ModelAnswer | None = None
    alternatives: tuple[ModelAnswer, ...] = ()
    """The other answers, where several were asked for."""
    finish_reason: str | None = None
    """Why the answer ended, in the API's own word."""
    usage: Usage | None = None
    """Input tokens count everything the model read, cached or not; output tokens count its thinking too."""
    response_id: str = ""
    """The id that the provider minted for the answer."""
    error: ErrorInfo | None = None
    """The provider's error; an answer beside it is what came before."""
    complete: bool = True
    """False when the answer stopped before its end: a stream that was cut, a response still in progress."""
    problem: str | None = None
    """The part of the exchange that could not be read."""


class ModelCall(ModelOutcome, frozen=True, kw_only=True):
    """One call of a model: what was asked, and how it ended."""

    api: str
    """The API that it speaks, such as `openai.chat`."""
    model: str = ""
    """The model that was asked for; where the request names none, the one that answered."""
    system: Json = None
    """The system prompt, as sent, if the API keeps it apart from the messages."""
    messages: Json = None
    """The conversation, as sent."""
    tools: Json = None
    """The tools on offer, as sent."""
    parameters: JsonObject = field(default_factory=dict)
    """Everything else in the request, as sent."""
    streamed: bool = False

    @property
    def arguments(self) -> JsonObject:
        """The request, as the arguments of the run log's `llm_call`."""
        request = {"system": self.system, "messages": self.messages, "tools": self.tools, "parameters": self.parameters}
        return {name: value for name, value in request.items() if value or name == "messages"}


def answer_of(value: Json) -> ModelAnswer:
    """The answer that a message in the shape above spells; a text alone is its content."""
    if isinstance(value, str):
        return ModelAnswer(content=value)
    try:
        return msgspec.convert(value, ModelAnswer)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"not a model's answer: {error}",
            hint="An answer is {role, content, tool_calls: [{id, name, arguments}], thinking, refusal, parts}.",
        ) from None


_USD_PER_TICK = 1e-10


def usage_of(value: Json, *, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Usage | None:
    """The counts under these names, summed; None when the wire shows neither tokens nor cost."""
    counts = as_object(value)
    if not counts:
        return None
    usage = Usage(
        input_tokens=_sum(counts, inputs),
        output_tokens=_sum(counts, outputs),
        cost_usd=_cost(counts),
    )
    if usage == Usage():
        return None
    return usage


def _sum(counts: JsonObject, names: tuple[str, ...]) -> int | None:
    found = [count for name in names if (count := as_count(counts.get(name))) is not None]
    if found:
        return sum(found)
    return None


def _cost(counts: JsonObject) -> float | None:
    """Return the cost that a gateway reports: a number, an object with a total, or ticks of a dollar."""
    cost = counts.get("cost")
    if type(cost) is dict:
        cost = cost.get("total_cost")
    if type(cost) is int or type(cost) is float:
        return _finite(float(cost))
    ticks = as_count(counts.get("cost_in_usd_ticks"))
    if ticks is None:
        return None
    return _finite(ticks * _USD_PER_TICK)


def _finite(amount: float) -> float | None:
    if math.isfinite(amount) and amount >= 0:
        return amount
    return None
