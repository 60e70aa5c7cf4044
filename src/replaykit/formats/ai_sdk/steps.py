"""Steps of the AI SDK, `result.steps`: each is one answer of a model and what came of the calls it asked for.

    {content, finishReason, usage, request: {body}, response: {id, modelId, timestamp, messages}, model, callId}
    {text, toolCalls, toolResults, finishReason, usage, request, response}          up to version 4

The request's body is the provider's own, where it was kept: it has the prompt and the tools.
"""

from __future__ import annotations

from collections.abc import Sequence

from replaykit.formats.ai_sdk.content import HIDDEN, results_in, spoken, tell_answer, tell_result, unwrapped
from replaykit.formats.core.fields import Fields
from replaykit.formats.core.items import TraceItem
from replaykit.formats.core.messages import messages_of
from replaykit.formats.core.talk import Talk, content_id
from replaykit.formats.gemini import read_messages as read_gemini_messages
from replaykit.formats.openai_responses import read_messages as read_responses_messages
from replaykit.model.events import ErrorInfo, Usage
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json, encode
from replaykit.wire.json_fields import as_count, as_object, as_objects, as_text, load_object, without

FORMAT = "ai_sdk"
PROMPT = "The steps leave out the prompt: keep the messages that you give to the model as `messages` beside `steps`."
_SYSTEMS = ("system", "instructions", "systemInstruction")
_APART = ("messages", "input", "contents", "tools", "model", "stream", *_SYSTEMS)
_INPUTS, _OUTPUTS = ("inputTokens", "promptTokens"), ("outputTokens", "completionTokens")
_MS = 1000.0


def is_step(value: Json) -> bool:
    """True for a step."""
    step = as_object(value)
    has_content = isinstance(step.get("content"), list) or isinstance(step.get("toolCalls"), list)
    return has_content and isinstance(step.get("finishReason"), str) and "type" not in step and "usage" in step


def run_of(items: Sequence[TraceItem], result: dict[str, Json] | None = None) -> TraceRun:
    """The run that steps tell; `result` is what was kept around them."""
    talk, around = Talk(), result or {}
    steps = [item.fields("a step") for item in items]
    words = _words(steps)
    _begin(talk, around)
    hidden = [_tell(talk, step, words, f"step_{number}") for number, step in enumerate(steps)]
    first, last = (steps[0].value, steps[-1].value) if steps else ({}, {})
    error = _error(last)
    return talk.run(
        id=as_text(first.get("callId")) or content_id(FORMAT, encode([step.value for step in steps])),
        format=FORMAT,
        name=as_text(first.get("functionId")),
        status=RunStatus.CANCELLED if last.get("aborted") is True else None,
        error=error,
        metadata=as_object(first.get("metadata")) | {"warnings": [w for s in steps for w in s.items("warnings")]},
        advice=[PROMPT, *([HIDDEN] if any(hidden) else [])],
    )


def _begin(talk: Talk, around: dict[str, Json]) -> None:
    """The prompt, where somebody kept it."""
    if around.get("system") or around.get("instructions"):
        talk.instructs(around.get("system") or around.get("instructions"))
    prompt = around.get("messages") if isinstance(around.get("messages"), list) else around.get("prompt")
    talk.catches_up(messages_of(prompt) or ())


def _tell(talk: Talk, step: Fields, words: dict[str, Json], name: str) -> bool:
    """One step; True when the file hides what came of a call."""
    response, took = step.object("response"), step.object("performance")
    at = Fields(step.source, response, (*step.path, "response")).time("timestamp") or 0.0
    parameters = _apply_request(talk, step.object("request").get("body"))
    content = content_of(step)
    duration_s = _seconds(took.get("responseTimeMs"))
    tell_answer(
        talk,
        content,
        words,
        model=as_text(response.get("modelId")) or as_text(step.object("model").get("modelId")),
        usage=_usage(step),
        finish_reason=as_text(step.take("rawFinishReason")) or step.text("finishReason"),
        parameters=parameters,
        at=at,
        duration_s=duration_s,
        step=name,
        complete=step.value.get("cut") is not True,
    )
    spent, hidden = as_object(took.get("toolExecutionMs")), False
    for part in results_in(content):
        tool_s = _seconds(spent.get(as_text(part.get("toolCallId"))))
        ended = at + duration_s + tool_s if at else 0.0
        hidden |= tell_result(talk, part, words, at=ended, duration_s=tool_s)
    return hidden


def content_of(step: Fields) -> list[Json]:
    """What a step holds, in the words of version 5 and later."""
    if isinstance(step.value.get("content"), list):
        return step.items("content")
    parts: list[Json] = [{"type": "reasoning", "text": as_text(step.value.get("reasoning"))}]
    parts.append({"type": "text", "text": as_text(step.value.get("text"))})
    parts += ({**as_object(call), "type": "tool-call"} for call in step.items("toolCalls"))
    return parts + [{**as_object(result), "type": "tool-result"} for result in step.items("toolResults")]


def body_of(value: Json) -> dict[str, Json]:
    """A request's body: an object, or its JSON text."""
    return (load_object(value) or {}) if isinstance(value, str) else as_object(value)


def _apply_request(talk: Talk, body: Json) -> dict[str, Json]:
    """Add a request body to the talk; return the parameters beside the conversation."""
    request = body_of(body)
    messages = _request_messages(request)
    if messages:
        talk.instructs(next((request[name] for name in _SYSTEMS if request.get(name)), None))
        talk.catches_up(messages)
    if isinstance(request.get("tools"), list):
        talk.offers(request["tools"])
    return without(request, *_APART)


def _request_messages(request: dict[str, Json]) -> list[Json]:
    """The conversation in a body, whichever API it is of."""
    if isinstance(request.get("messages"), list):
        return messages_of(request["messages"]) or []
    if "input" in request:
        return read_responses_messages(request["input"])
    return read_gemini_messages(request["contents"]) if isinstance(request.get("contents"), list) else []


def _words(steps: Sequence[Fields]) -> dict[str, Json]:
    """What the model was told of each call: an error that is empty in JSON is said there."""
    found: dict[str, Json] = {}
    for step in steps:
        messages = _request_messages(body_of(step.object("request").get("body")))
        found |= {as_text(m.get("tool_call_id")): m.get("content") for m in messages if m.get("role") == "tool"}
        for message in as_objects(step.object("response").get("messages")):
            parts = [unwrapped(part) for part in as_objects(message.get("content"))]
            found |= {as_text(part.get("toolCallId")): part["error"] for part in parts if part.get("error")}
    return found


def _usage(step: Fields) -> Usage | None:
    counts = step.object("usage")
    tokens = next((found for name in _INPUTS if (found := as_count(counts.get(name))) is not None), None)
    own = as_object(step.object("providerMetadata").get("anthropic"))
    if own and tokens is not None and not counts.get("inputTokenDetails"):
        # Up to version 5 Anthropic's own count, which leaves out what came from a cache or went to one.
        read, written = as_count(counts.get("cachedInputTokens")), as_count(own.get("cacheCreationInputTokens"))
        tokens += (read or 0) + (written or 0)
    usage = Usage(
        input_tokens=tokens,
        output_tokens=next((found for name in _OUTPUTS if (found := as_count(counts.get(name))) is not None), None),
    )
    return None if usage == Usage() else usage


def _error(last: dict[str, Json]) -> ErrorInfo | None:
    """What ended the run: an error of the stream, or a model that stopped with one."""
    if "error" in last:
        return spoken(last["error"])
    if last.get("finishReason") == "error":
        return ErrorInfo(type="ModelError", message="the model's answer ended with an error")
    return None


def _seconds(milliseconds: Json) -> float:
    number = type(milliseconds) in (int, float) and 0 <= milliseconds < 1e12
    return milliseconds / _MS if number else 0.0
