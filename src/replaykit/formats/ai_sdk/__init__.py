"""Vercel AI SDK: what `generateText` and `streamText` give, and what apps store of it.

    steps       result.steps, or the result itself: {steps: […], messages?, system?}
    parts       result.fullStream: [{type: start-step}, {type: tool-call, …}, …], also as the text of an event stream
    messages    ModelMessages: [{role, content: [{type: tool-call | tool-result | text, …}]}, …]
    UI messages [{id, role, parts: [{type: text | step-start | tool-NAME, …}]}, …]

A file holds a list of them, or one on each line; a line may also hold a whole list of messages, which is a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum

from replaykit.errors import InvalidFile
from replaykit.formats.ai_sdk.steps import (
    FORMAT,
    RESULTS,
    is_part,
    is_step,
    results_in,
    steps_of,
    tell_answer,
    tell_result,
    unwrapped,
)
from replaykit.formats.ai_sdk.steps import is_certain as is_certain_part
from replaykit.formats.ai_sdk.steps import run_of as run_of_steps
from replaykit.formats.core.items import TraceItem, first_items, items_of, mostly, nothing_of
from replaykit.formats.core.members import object_in, objects_in, text_in, value_in
from replaykit.formats.core.registry import IMPORTERS, Found
from replaykit.formats.core.source import Source
from replaykit.formats.core.talk import Talk, content_id
from replaykit.model.run import TraceRun
from replaykit.model.values import Json, encode
from replaykit.wire.json_fields import as_object, as_objects, as_text

_LOOK_AT = 64
_ROLES = ("system", "user", "assistant", "tool")
_EXPECTED = "expected messages, steps or parts of a stream of the AI SDK"
PROMPT = "The messages leave out the prompt: `response.messages` are only what was said in return. Keep those before."


class _AiSdkShape(Enum):
    STEP = "a step"
    RESULT = "a result with `steps`"
    PART = "a part of a stream"
    MESSAGE = "a message"
    CONVERSATION = "a list of messages"


class AiSdkImporter:
    """Reads what the AI SDK writes."""

    name = FORMAT
    title = "Vercel AI SDK: model and UI messages, `steps`, parts of `fullStream` (versions 4 to 7)"

    def recognises(self, source: Source) -> bool:
        return _shape_of(first_items(source), certain=True) is not None

    def read(self, source: Source) -> Iterator[Found]:
        shape = _shape_of(first_items(source), certain=False)
        if shape is None:
            raise nothing_of(source, _EXPECTED)
        yield from _READERS[shape](items_of(source))


IMPORTERS.register(FORMAT)(AiSdkImporter())


def _shape_of(values: list[Json], *, certain: bool) -> _AiSdkShape | None:
    """What the members of a file are; `certain` when it has to be told from other formats."""
    values = values[:_LOOK_AT]
    if mostly(is_step, values):
        return _AiSdkShape.STEP
    if mostly(_is_result, values):
        return _AiSdkShape.RESULT
    if mostly(is_part, values) and (not certain or any(map(is_certain_part, values))):
        return _AiSdkShape.PART
    if _are_messages(values, certain=certain):
        return _AiSdkShape.MESSAGE
    if mostly(lambda value: isinstance(value, list) and _are_messages(value, certain=certain), values):
        return _AiSdkShape.CONVERSATION
    return None


def _is_result(value: Json) -> bool:
    """True for a result, or for the list of its steps."""
    steps = value if isinstance(value, list) else value_in(value, "steps")
    return isinstance(steps, list) and mostly(is_step, steps)


def _are_messages(values: list[Json], *, certain: bool) -> bool:
    fine = mostly(lambda value: _is_message(value) or is_ui_message(value), values)
    return fine and (not certain or any(is_certain(value) or _is_marked(value) for value in values))


def _is_message(value: Json) -> bool:
    message = as_object(value)
    return message.get("role") in _ROLES and isinstance(message.get("content"), str | list)


def _is_marked(value: Json) -> bool:
    """True for a message with calls or results as only the AI SDK writes them."""
    parts = as_objects(value_in(value, "content"))
    return any(part.get("type") in ("tool-call", *RESULTS) and "toolCallId" in part for part in parts)


def _read_steps(items: Iterator[TraceItem | InvalidFile]) -> Iterator[Found]:
    """Steps with one `callId` after another, or with none, are of one run."""
    steps: list[TraceItem] = []
    for item in items:
        if isinstance(item, InvalidFile):
            yield item
        elif not is_step(item.value):
            yield item.error(f"expected {_AiSdkShape.STEP.value}")
        else:
            if steps and _begins(steps[-1].value, item.value):
                yield from _run_or_problem(steps)
                steps = []
            steps.append(item)
    if steps:
        yield from _run_or_problem(steps)


def _begins(before: dict[str, Json], step: dict[str, Json]) -> bool:
    """True for the first step of the next run."""
    return step.get("callId") != before.get("callId") or (step.get("stepNumber") == 0)


def _run_or_problem(steps: Sequence[TraceItem], result: dict[str, Json] | None = None) -> Iterator[Found]:
    try:
        yield run_of_steps(steps, result)
    except InvalidFile as problem:
        yield problem


def _read_results(items: Iterator[TraceItem | InvalidFile]) -> Iterator[Found]:
    for item in items:
        if isinstance(item, InvalidFile):
            yield item
        elif not _is_result(item.value):
            yield item.error(f"expected {_AiSdkShape.RESULT.value}")
        else:
            result, path = (item.value, ("steps",)) if isinstance(item.value, dict) else ({"steps": item.value}, ())
            steps = [TraceItem(item.source, step, (*item.path, *path, at)) for at, step in enumerate(result["steps"])]
            yield from (step.error(f"expected {_AiSdkShape.STEP.value}") for step in steps if not is_step(step.value))
            yield from _run_or_problem([step for step in steps if is_step(step.value)], result)


def _read_parts(items: Iterator[TraceItem | InvalidFile]) -> Iterator[Found]:
    """A stream ends with `finish`, or where the next one begins."""
    parts: list[TraceItem] = []
    for item in items:
        if isinstance(item, InvalidFile):
            yield item
        elif not is_part(item.value):
            yield item.error(f"expected {_AiSdkShape.PART.value}")
        else:
            if parts and as_text(item.value["type"]) == "start":
                yield from _run_or_problem(steps_of(parts))
                parts = []
            parts.append(item)
    if parts:
        yield from _run_or_problem(steps_of(parts))


def _read_messages(items: Iterable[TraceItem | InvalidFile]) -> Iterator[Found]:
    messages: list[Json] = []
    for item in items:
        if isinstance(item, InvalidFile):
            yield item
        elif not _is_message(item.value) and not is_ui_message(item.value):
            yield item.error(f"expected {_AiSdkShape.MESSAGE.value} of the AI SDK")
        else:
            messages.append(item.value)
    if messages:
        yield _run_of_messages(messages)


def _read_conversations(items: Iterator[TraceItem | InvalidFile]) -> Iterator[Found]:
    for item in items:
        if isinstance(item, InvalidFile):
            yield item
        elif not isinstance(item.value, list) or not _are_messages(item.value, certain=False):
            yield item.error(f"expected {_AiSdkShape.CONVERSATION.value} of the AI SDK")
        else:
            members = (TraceItem(item.source, member, (*item.path, at)) for at, member in enumerate(item.value))
            yield from _read_messages(members)


def _run_of_messages(messages: list[Json]) -> TraceRun:
    talk = Talk()
    for message in messages:
        for model_message in model_messages(message) if is_ui_message(message) else [message]:
            _tell(talk, model_message)
    return talk.run(id=content_id(FORMAT, encode(messages)), format=FORMAT, advice=[PROMPT])


def _tell(talk: Talk, message: dict[str, Json]) -> None:
    role, content = text_in(message, "role"), message.get("content")
    parts: list[Json] = content if isinstance(content, list) else [{"type": "text", "text": content}]
    parts = [unwrapped(part) if isinstance(part, dict) else part for part in parts]
    if role == "assistant":
        tell_answer(talk, parts, {})
    elif role != "tool":
        talk.says(role, content)
    if role in ("assistant", "tool"):
        for part in results_in(parts):
            tell_result(talk, part, {})


_READERS = {
    _AiSdkShape.STEP: _read_steps,
    _AiSdkShape.RESULT: _read_results,
    _AiSdkShape.PART: _read_parts,
    _AiSdkShape.MESSAGE: _read_messages,
    _AiSdkShape.CONVERSATION: _read_conversations,
}


_TOOL = "tool-"
_INVOCATION = "tool-invocation"
_DYNAMIC = "dynamic-tool"
_RETURNED = ("output-available", "output-error", "output-denied", "result")
_UI_ROLES = ("user", "assistant", "system", "data")


def is_ui_message(value: Json) -> bool:
    """True for a message with parts of the AI SDK, or with its `toolInvocations`."""
    message = as_object(value)
    if message.get("role") not in _UI_ROLES:
        return False
    if isinstance(message.get("toolInvocations"), list):
        return True
    parts = objects_in(message, "parts")
    return bool(parts) and all(_is_part(part) for part in parts)


def is_certain(value: Json) -> bool:
    """True for a message that no other format has."""
    message = as_object(value)
    kinds = [text_in(part, "type") for part in objects_in(message, "parts")]
    return bool(message.get("toolInvocations")) or any(
        kind in ("step-start", _DYNAMIC) or kind.startswith(_TOOL) for kind in kinds
    )


def _is_part(part: dict[str, Json]) -> bool:
    kind = part.get("type")
    if kind in ("text", "reasoning"):
        return "text" in part or "reasoning" in part
    return isinstance(kind, str) and (kind in ("file", "step-start", _DYNAMIC) or "-" in kind)


def model_messages(value: dict[str, Json]) -> Iterator[dict[str, Json]]:
    """The messages that a model heard and said, in the AI SDK's own shape."""
    parts = objects_in(value, "parts") or [{"type": "text", "text": text_in(value, "content")}]
    if not any(part.get("type") == _INVOCATION for part in parts):
        old: list[dict[str, Json]] = [
            {"type": _INVOCATION, "toolInvocation": invocation} for invocation in objects_in(value, "toolInvocations")
        ]
        parts = [*old, *parts]
    if value.get("role") != "assistant":
        content = [{**part, "type": "text"} if part.get("type") == "text" else part for part in parts]
        texts = [text_in(part, "text") for part in content if part.get("type") == "text"]
        yield {"role": value.get("role"), "content": texts[0] if len(content) == len(texts) == 1 else content}
        return
    for step in _steps(parts):
        yield from _step(step)


def _steps(parts: list[dict[str, Json]]) -> Iterator[list[dict[str, Json]]]:
    """Parts of one answer each: a mark begins the next, or where there is none, words after a tool's result."""
    marked = any(part.get("type") == "step-start" for part in parts)
    step: list[dict[str, Json]] = []
    for part in parts:
        begins = part.get("type") == "step-start"
        speaks = not marked and _tool(part) is None and any(_tool(other) for other in step)
        if (begins or speaks) and step:
            yield step
            step = []
        if not begins:
            step.append(part)
    if step:
        yield step


def _step(parts: list[dict[str, Json]]) -> Iterator[dict[str, Json]]:
    calls = [tool for part in parts if (tool := _tool(part)) is not None]
    content: list[Json] = []
    for part in parts:
        if part.get("type") == "text":
            content.append({"type": "text", "text": text_in(part, "text")})
        elif part.get("type") == "reasoning":
            content.append({"type": "reasoning", "text": text_in(part, "text", "reasoning")})
        elif _tool(part) is None:
            content.append(part)
    results = [_result(tool) for tool in calls if tool.get("state") in _RETURNED]
    own = [result for result in results if result.get("providerExecuted") is True]
    yield {"role": "assistant", "content": [*content, *({**tool, "type": "tool-call"} for tool in calls), *own]}
    rest = [result for result in results if result.get("providerExecuted") is not True]
    if rest:
        yield {"role": "tool", "content": rest}


def _tool(part: dict[str, Json]) -> dict[str, Json] | None:
    """The call in a part: its name may be in the part's type."""
    kind = text_in(part, "type")
    if kind == _INVOCATION:
        return object_in(part, "toolInvocation")
    if kind == _DYNAMIC:
        return part
    if kind.startswith(_TOOL) and "toolCallId" in part:
        return {**part, "toolName": kind.removeprefix(_TOOL)}
    return None


def _result(tool: dict[str, Json]) -> dict[str, Json]:
    failed = tool.get("state") in ("output-error", "output-denied")
    error = tool.get("errorText") or tool.get("state")
    if failed:
        return {**tool, "type": "tool-error", "error": error}
    return {**tool, "type": "tool-result"}
