"""Steps of the AI SDK, `result.steps`: each is one answer of a model with its calls and their results.

    {content, finishReason, usage, request: {body}, response: {id, modelId, timestamp, messages}, model, callId}
    {text, toolCalls, toolResults, finishReason, usage, request, response}          up to version 4

The request's body, if it was kept, is the provider's own, with prompt and tools.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, field

from replaykit.formats.core.fields import Fields, TraceItem, error_of
from replaykit.formats.core.json_text import read_arguments
from replaykit.formats.core.messages import messages_of
from replaykit.formats.core.replayability import Lack, stated_usage
from replaykit.formats.core.talk import UNSET, Talk, Turn, content_id
from replaykit.formats.gemini import read_messages as read_gemini_messages
from replaykit.formats.openai_responses import read_messages as read_responses_messages
from replaykit.model.events import ErrorInfo, Usage
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json, JsonObject, encode
from replaykit.wire.json_fields import (
    as_object,
    as_objects,
    as_text,
    by_text,
    count_in,
    filled_in,
    has_list,
    has_text,
    joined_texts,
    list_in,
    load_object,
    not_of_type,
    object_in,
    objects_in,
    of_role,
    of_type,
    text_in,
    value_in,
    without,
    without_nulls,
)
from replaykit.wire.model_calls import ModelAnswer, ToolUse

FORMAT = "ai_sdk"
PROMPT = "The steps leave out the prompt: keep the messages that you give to the model as `messages` beside `steps`."
_SYSTEMS = ("system", "instructions", "systemInstruction")
_READ_ELSEWHERE = ("messages", "input", "contents", "tools", "model", "stream", *_SYSTEMS)
_INPUTS, _OUTPUTS = ("inputTokens", "promptTokens"), ("outputTokens", "completionTokens")
_MS = 1000.0


def is_step(value: Json) -> bool:
    step = as_object(value)
    has_content = has_list(step, "content") or has_list(step, "toolCalls")
    return has_content and has_text(step, "finishReason") and "type" not in step and "usage" in step


def run_of(items: Sequence[TraceItem], result: JsonObject | None = None) -> TraceRun:
    """Return the run in a list of steps; `result` holds the members around them."""
    talk = Talk()
    steps = [item.fields("a step") for item in items]
    error_texts = _error_texts(steps)
    _begin(talk, result or {})
    advice, warnings = [PROMPT], list[Json]()
    for number, step in enumerate(steps):
        if _add_step(talk, step, error_texts, f"step_{number}") and HIDDEN not in advice:
            advice.append(HIDDEN)
        warnings += step.items("warnings")
    values = [step.value for step in steps]
    first, last = (values or [{}])[0], (values or [{}])[-1]
    return talk.run(
        id=text_in(first, "callId") or content_id(FORMAT, encode(values)),
        format=FORMAT,
        name=text_in(first, "functionId"),
        status=RunStatus.CANCELLED if last.get("aborted") is True else None,
        error=_error(last),
        metadata=object_in(first, "metadata") | {"warnings": warnings},
        advice=advice,
    )


def _begin(talk: Talk, around: JsonObject) -> None:
    """Add the prompt, if it was kept."""
    system = filled_in(around, "system", "instructions")
    if system:
        talk.instructs(system)
    prompt = around.get("messages")
    if not isinstance(prompt, list):
        prompt = around.get("prompt")
    talk.catches_up(messages_of(prompt) or ())


def _add_step(talk: Talk, step: Fields, error_texts: JsonObject, name: str) -> bool:
    """Add a step; return True if the file hides the result of a call."""
    response, performance = step.object("response"), step.object("performance")
    at = Fields(step.source, response, (*step.path, "response")).time("timestamp") or 0.0
    parameters = _apply_request(talk, step.object("request").get("body"))
    content = content_of(step)
    duration_s = _seconds(performance.get("responseTimeMs"))
    tell_answer(
        talk,
        content,
        error_texts,
        model=text_in(response, "modelId") or text_in(step.object("model"), "modelId"),
        usage=_usage(step),
        finish_reason=as_text(step.take("rawFinishReason")) or step.text("finishReason"),
        parameters=parameters,
        at=at,
        duration_s=duration_s,
        step=name,
        complete=step.value.get("cut") is not True,
    )
    spent, hidden = object_in(performance, "toolExecutionMs"), False
    for part in results_in(content):
        tool_s = _seconds(spent.get(text_in(part, "toolCallId")))
        ended = at + duration_s + tool_s if at else 0.0
        hidden |= tell_result(talk, part, error_texts, at=ended, duration_s=tool_s)
    return hidden


def content_of(step: Fields) -> list[Json]:
    """Return the content of a step in the shape of version 5 and later."""
    if has_list(step.value, "content"):
        return step.items("content")
    parts: list[Json] = [{"type": "reasoning", "text": text_in(step.value, "reasoning")}]
    parts.append({"type": "text", "text": text_in(step.value, "text")})
    parts += ({**as_object(call), "type": "tool-call"} for call in step.items("toolCalls"))
    return parts + [{**as_object(result), "type": "tool-result"} for result in step.items("toolResults")]


def body_of(value: Json) -> JsonObject:
    """Return a request's body, which may be an object or JSON text."""
    if isinstance(value, str):
        value = load_object(value)
    return as_object(value)


def _apply_request(talk: Talk, body: Json) -> JsonObject:
    """Add a request body to the talk; return the parameters beside the conversation."""
    request = body_of(body)
    messages = _request_messages(request)
    if messages:
        talk.instructs(filled_in(request, *_SYSTEMS))
        talk.catches_up(messages)
    if has_list(request, "tools"):
        talk.offers(request["tools"])
    return without(request, *_READ_ELSEWHERE)


def _request_messages(request: JsonObject) -> list[Json]:
    """Return the conversation in a body of any API."""
    if has_list(request, "messages"):
        return messages_of(request["messages"]) or []
    if "input" in request:
        return read_responses_messages(request["input"])
    return read_gemini_messages(list_in(request, "contents"))


def _error_texts(steps: Sequence[Fields]) -> JsonObject:
    """Return the texts that the model saw of each call. Error objects may be empty in JSON; the texts are not."""
    found: JsonObject = {}
    for step in steps:
        for message in of_role(_request_messages(body_of(step.object("request").get("body"))), "tool"):
            found[text_in(message, "tool_call_id")] = message.get("content")
        for message in objects_in(step.object("response"), "messages"):
            for part in map(unwrapped, objects_in(message, "content")):
                if part.get("error"):
                    found[text_in(part, "toolCallId")] = part["error"]
    return found


def _usage(step: Fields) -> Usage | None:
    counts = step.object("usage")
    tokens = count_in(counts, *_INPUTS)
    own = object_in(step.object("providerMetadata"), "anthropic")
    if own and tokens is not None and not counts.get("inputTokenDetails"):
        # Up to version 5, this is Anthropic's own count, which excludes tokens read from or written to the cache.
        tokens += count_in(counts, "cachedInputTokens") or 0
        tokens += count_in(own, "cacheCreationInputTokens") or 0
    return stated_usage(tokens, count_in(counts, *_OUTPUTS))


def _error(last: JsonObject) -> ErrorInfo | None:
    """Return the error that ended the run: the stream's own, or a model's finish reason."""
    if "error" in last:
        return javascript_error(last["error"])
    if last.get("finishReason") == "error":
        return ErrorInfo(type="ModelError", message="the model's answer ended with an error")
    return None


def _seconds(milliseconds: Json) -> float:
    if type(milliseconds) in (int, float) and 0 <= milliseconds < 1e12:
        return float(milliseconds / _MS)
    return 0.0


RESULTS = ("tool-result", "tool-error")
HIDDEN = (
    "A tool's error says nothing in JSON: write `error.message` of a tool-error, or keep `response.messages`, "
    "which have it as text."
)
_ERRORS = ("error-text", "error-json", "execution-denied")
_OUTPUT_TYPES = ("text", "json", "content", *_ERRORS)
_KNOWN_PARTS = ("text", "reasoning", "tool-call", *RESULTS)


class ToolOutcome(NamedTuple):
    content: Json
    error: ErrorInfo | None = None
    hidden: bool = False


def tell_answer(talk: Talk, content: list[Json], error_texts: Mapping[str, Json], **details: Any) -> Turn:
    """Add the model's answer, and the provider's own calls. `error_texts` are messages that the part itself may
    lack."""
    own = _own(content)
    calls = of_type(content, "tool-call")
    turn = talk.answers(
        ModelAnswer(
            content=joined_texts(of_type(content, "text"), "") or None,
            thinking=joined_texts(of_type(content, "reasoning"), "") or None,
            tool_calls=tuple(use_of(part) for part in calls if text_in(part, "toolCallId") not in own),
            parts=not_of_type(content, *_KNOWN_PARTS),
        ),
        **details,
    )
    results = by_text(of_type(content, *RESULTS), "toolCallId")
    for part in calls:
        call_id, outcome = text_in(part, "toolCallId"), ToolOutcome(UNSET)
        if call_id in own:
            if call_id in results:
                outcome = outcome_of(results[call_id], error_texts)
            talk.uses(turn, use_of(part), outcome.content, error=outcome.error)
    return turn


def results_in(content: list[Json]) -> Iterator[JsonObject]:
    """Yield the results of tools that the agent ran, without intermediate progress."""
    own = _own(content)
    for part in of_type(content, *RESULTS):
        if part.get("preliminary") is not True and text_in(part, "toolCallId") not in own:
            yield part


def _own(content: list[Json]) -> set[str]:
    """Return the ids of calls that the provider made itself."""
    return {text_in(part, "toolCallId") for part in as_objects(content) if part.get("providerExecuted") is True}


def tell_result(talk: Talk, part: JsonObject, error_texts: Mapping[str, Json], **details: Any) -> bool:
    """Add the result of a tool call; return True if the file hides it."""
    outcome = outcome_of(part, error_texts)
    turn = talk.returns(
        outcome.content,
        call_id=text_in(part, "toolCallId"),
        name=text_in(part, "toolName"),
        failed=outcome.error is not None,
        error=outcome.error,
        **details,
    )
    if outcome.hidden:
        turn.lacks.add(Lack.HIDDEN)
    return outcome.hidden


def outcome_of(part: JsonObject, error_texts: Mapping[str, Json]) -> ToolOutcome:
    """Return the result or the error in a part."""
    if part.get("type") == "tool-error":
        error = part.get("error") or error_texts.get(text_in(part, "toolCallId"))
        return ToolOutcome(error, javascript_error(error), hidden=not error)
    output = part.get("output", part.get("result"))
    if part.get("isError") is True:
        return ToolOutcome(output, javascript_error(output))
    return ToolOutcome(output)


def unwrapped(part: JsonObject) -> JsonObject:
    """Return a message's part with the output as the tool returned it."""
    output = object_in(part, "output")
    if output.get("type") not in _OUTPUT_TYPES:
        return part
    value = output.get("value", output.get("reason"))
    if output["type"] in _ERRORS:
        return {**part, "type": "tool-error", "error": value or output["type"]}
    return {**part, "output": value}


def use_of(part: JsonObject) -> ToolUse:
    """Return a call that the model requested."""
    arguments = read_arguments(part.get("input", part.get("args")))
    return ToolUse(id=text_in(part, "toolCallId"), name=text_in(part, "toolName"), arguments=arguments)


def javascript_error(value: Json) -> ErrorInfo:
    """Return an error in JavaScript's notation: `Error: message`, or what `JSON.stringify` leaves of one."""
    if isinstance(value, str) and value.startswith("Error: "):
        return ErrorInfo(type="Error", message=value.removeprefix("Error: "))
    return error_of(value, "ToolError")


_BEGINS, _ENDS = ("start-step", "step-start"), ("finish-step", "step-finish")
_CERTAIN = frozenset(
    {*_BEGINS, *_ENDS, "tool-input-start", "tool-input-delta", "tool-input-available", "text-start", "text-end"}
)
_KNOWN = re.compile(
    r"start|finish|error|abort|raw|file|message-metadata|redacted-reasoning|(start|finish)-step|step-(start|finish)"
    r"|(text|tool|data)-.+|(reasoning|source)(-\w+)?"
)
_OTHER_NAMES = {
    "tool-input-available": "tool-call",
    "tool-output-available": "tool-result",
    "tool-output-error": "tool-error",
    "tool-call-streaming-start": "tool-input-start",
    "tool-call-delta": "tool-input-delta",
}
_TEXTS = {"text-delta": "text", "reasoning-delta": "reasoning", "reasoning": "reasoning"}


def is_part(value: Json) -> bool:
    """Return whether this may be a part of a stream."""
    return _KNOWN.fullmatch(as_text(value_in(value, "type"))) is not None


def is_certain(value: Json) -> bool:
    """Return whether no other format has such parts."""
    return as_text(value_in(value, "type")) in _CERTAIN


class _StreamedStep(Struct):
    """A step of a stream, as far as it was read."""

    fields: JsonObject
    content: list[JsonObject] = field(default_factory=list)
    texts: dict[tuple[str, str], JsonObject] = field(default_factory=dict)
    inputs: dict[str, JsonObject] = field(default_factory=dict)
    """Calls whose arguments are still being streamed."""
    ended: bool = False


def steps_of(items: Sequence[TraceItem]) -> list[TraceItem]:
    """Join the parts of a stream into steps."""
    steps: list[_StreamedStep] = []
    for item in items:
        part = as_object(item.value)
        kind = _OTHER_NAMES.get(text_in(part, "type"), text_in(part, "type"))
        if kind in _BEGINS:
            steps.append(_StreamedStep({"request": object_in(part, "request"), "warnings": part.get("warnings") or []}))
        elif kind != "start":
            if not steps or (steps[-1].ended and kind in ("tool-call", *_TEXTS)):
                steps.append(_StreamedStep({}))
            _add(steps[-1], kind, part)
    first = items[0]
    return [TraceItem(first.source, _step_fields(step), first.path) for step in steps]


def _add(step: _StreamedStep, kind: str, part: JsonObject) -> None:
    if kind in _TEXTS:
        _add_text(step, _TEXTS[kind], part)
    elif kind in ("tool-input-start", "tool-input-delta"):
        call_id = text_in(part, "id", "toolCallId")
        call = step.inputs.setdefault(call_id, {"type": "tool-call", "toolCallId": call_id, "input": ""})
        call["toolName"] = text_in(call, "toolName") or text_in(part, "toolName")
        call["input"] += text_in(part, "delta", "inputTextDelta", "argsTextDelta")
    elif kind == "tool-call":
        step.inputs.pop(text_in(part, "toolCallId"), None)
        step.content.append({**part, "type": kind})
    elif kind in RESULTS:
        if "errorText" in part:
            part = {**part, "error": part["errorText"]}
        step.content.append({**part, "type": kind})
    elif kind in ("file", "source", "source-url", "source-document", "tool-approval-request"):
        step.content.append(part)
    elif kind in _ENDS:
        step.fields |= without(part, "type")
        step.ended = True
    elif kind == "finish" and not step.ended:
        step.fields |= {"finishReason": part.get("finishReason"), "usage": part.get("usage", part.get("totalUsage"))}
        step.ended = True
    elif kind == "error":
        step.fields["error"] = part.get("error", part.get("errorText"))
    elif kind == "abort":
        step.fields["aborted"] = True


def _add_text(step: _StreamedStep, kind: str, part: JsonObject) -> None:
    key = (kind, text_in(part, "id"))
    if key not in step.texts:
        step.texts[key] = {"type": kind, "text": ""}
        step.content.append(step.texts[key])
    javascript_error = text_in(part, "text", "delta", "textDelta")
    step.texts[key]["text"] += javascript_error


def _step_fields(step: _StreamedStep) -> JsonObject:
    fields = {"finishReason": "", "usage": {}, **without_nulls(step.fields)}
    if not step.ended:
        fields["cut"] = True
    return {**fields, "content": [*step.content, *step.inputs.values()]}
