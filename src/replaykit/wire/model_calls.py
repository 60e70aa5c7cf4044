"""Model calls read from the wire: request and answer, in one shape for all APIs.

An answer is one message:

    role        the speaker: "assistant"
    content     the whole text; null if there is none
    tool_calls  [{id, name, arguments}], in order; the arguments are an object (or list), or, if the model did not
                write JSON, its text; the id is "" if the API has none
    thinking    the reasoning, if the API shows it in clear text
    refusal     why it refuses, if the API says so beside the content
    parts       everything else (images, audio, citations, calls of the provider's own tools), each as the API
                sent it

`role`, `content` and `tool_calls` are always present, the others only if they are not empty. Encrypted reasoning and
signatures are not included: they are in the recorded bytes, and `ModelApi.write` takes them from there.
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
    """A tool call that an answer requests."""

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
        """The message as JSON, in the shape that this module describes."""
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
    """The other answers, if several were requested."""
    finish_reason: str | None = None
    """Why the answer ended, in the API's own words."""
    usage: Usage | None = None
    """Input tokens include cached ones; output tokens include the thinking."""
    response_id: str = ""
    """The id that the provider minted for the answer."""
    error: ErrorInfo | None = None
    """The provider's error; an answer beside it came before."""
    complete: bool = True
    """False if the answer stopped early: a cut stream, or a response in progress."""
    problem: str | None = None
    """What could not be read in the exchange."""


class ModelCall(ModelOutcome, frozen=True, kw_only=True):
    """One call of a model: the request and the outcome."""

    api: str
    """The API, such as `openai.chat`."""
    model: str = ""
    """The requested model; if the request names none, the one that answered."""
    system: Json = None
    """The system prompt as sent, if the API keeps it apart from the messages."""
    messages: Json = None
    """The conversation as sent."""
    tools: Json = None
    """The tools on offer as sent."""
    parameters: JsonObject = field(default_factory=dict)
    """Everything else in the request, as sent."""
    streamed: bool = False

    @property
    def arguments(self) -> JsonObject:
        """The request, as the arguments of the run log's `llm_call`."""
        request = {"system": self.system, "messages": self.messages, "tools": self.tools, "parameters": self.parameters}
        return {name: value for name, value in request.items() if value or name == "messages"}


def answer_of(value: Json) -> ModelAnswer:
    """Return the answer in a message of the above shape; a plain text is its content."""
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
    """Return the sums of these counts; None if there are neither tokens nor a cost."""
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
