"""Vercel AI SDK: results of `generateText` and `streamText`, and the messages that apps store.

    steps       result.steps, or the result itself: {steps: […], messages?, system?}
    parts       result.fullStream: [{type: start-step}, {type: tool-call, …}, …], or an event stream of these
    messages    ModelMessages: [{role, content: [{type: tool-call | tool-result | text, …}]}, …]
    UI messages [{id, role, parts: [{type: text | step-start | tool-NAME, …}]}, …]

A file holds a list of them, or one on each line; a line may also hold a whole list of messages, which is a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
from replaykit.formats.core.fields import TraceItem
from replaykit.formats.core.registry import (
    Found,
    ItemReader,
    first_items,
    items_of,
    mostly,
    nothing_of,
    register_format,
)
from replaykit.formats.core.source import Source
from replaykit.formats.core.talk import Talk, content_id
from replaykit.model.values import Json, JsonObject, encode
from replaykit.wire.json_fields import as_object, filled_in, has_list, object_in, objects_in, of_type, text_in, value_in

_LOOK_AT = 64
_ROLES = ("system", "user", "assistant", "tool")
_EXPECTED = "expected messages, steps or parts of a stream of the AI SDK"
PROMPT = "The messages leave out the prompt: `response.messages` are only what was said in return. Keep those before."


def _read_file(source: Source) -> Iterator[Found]:
    reader = _reader_of(first_items(source), certain=False)
    if reader is None:
        raise nothing_of(source, _EXPECTED)
    yield from reader.read(items_of(source))


register_format(
    FORMAT,
    "Vercel AI SDK: model and UI messages, `steps`, parts of `fullStream` (versions 4 to 7)",
    lambda source: _reader_of(first_items(source), certain=True) is not None,
    _read_file,
)


def _reader_of(values: list[Json], *, certain: bool) -> ItemReader | None:
    """Return the reader for a file with these items; with `certain`, only if no other format has them."""
    values = values[:_LOOK_AT]
    if mostly(is_step, values):
        return _STEPS
    if mostly(_is_result, values):
        return _RESULTS
    if mostly(is_part, values) and (not certain or any(map(is_certain_part, values))):
        return _PARTS
    if _are_messages(values, certain=certain):
        return _MESSAGES
    if mostly(lambda value: _are_messages(value, certain=certain), values):
        return _CONVERSATIONS
    return None


def _is_result(value: Json) -> bool:
    """Return whether this is a result, or the list of its steps."""
    steps = value if isinstance(value, list) else value_in(value, "steps")
    return isinstance(steps, list) and mostly(is_step, steps)


def _are_messages(values: Json, *, certain: bool = False) -> bool:
    if not isinstance(values, list) or not mostly(_is_any_message, values):
        return False
    return not certain or any(map(is_certain, values)) or any(map(_has_sdk_parts, values))


def _is_any_message(value: Json) -> bool:
    return _is_message(value) or is_ui_message(value)


def _is_message(value: Json) -> bool:
    message = as_object(value)
    return message.get("role") in _ROLES and isinstance(message.get("content"), str | list)


def _has_sdk_parts(value: Json) -> bool:
    """Return whether a message has calls or results in a form that only the AI SDK writes."""
    return any("toolCallId" in part for part in of_type(value_in(value, "content"), "tool-call", *RESULTS))


def _begins(before: JsonObject, step: JsonObject) -> bool:
    """Return whether a step starts another run: consecutive steps with the same `callId`, or none, form one run."""
    return step.get("callId") != before.get("callId") or step.get("stepNumber") == 0


def _runs_of_steps(steps: Sequence[TraceItem]) -> list[Found]:
    return [run_of_steps(steps)]


def _runs_of_result(items: list[TraceItem]) -> Iterator[Found]:
    (item,) = items
    steps: list[TraceItem] = []
    for step in item.members("steps"):
        if is_step(step.value):
            steps.append(step)
        else:
            yield step.error(_STEPS.expected)
    yield run_of_steps(steps, as_object(item.value))


def _runs_of_messages(items: list[TraceItem]) -> Iterator[Found]:
    talk = Talk()
    messages = [item.value for item in items]
    for message in messages:
        if is_ui_message(message):
            for model_message in model_messages(message):
                _add_message(talk, model_message)
        else:
            _add_message(talk, message)
    yield talk.run(id=content_id(FORMAT, encode(messages)), format=FORMAT, advice=[PROMPT])


def _add_message(talk: Talk, message: JsonObject) -> None:
    role, content = text_in(message, "role"), message.get("content")
    parts: list[Json] = [{"type": "text", "text": content}]
    if isinstance(content, list):
        parts = list(map(unwrapped, content))
    if role == "assistant":
        tell_answer(talk, parts, {})
    elif role != "tool":
        talk.says(role, content)
        return
    for part in results_in(parts):
        tell_result(talk, part, {})


_STEPS = ItemReader(is_item=is_step, expected="expected a step", runs=_runs_of_steps, begins=_begins)
_RESULTS = ItemReader(is_item=_is_result, expected="expected a result with `steps`", runs=_runs_of_result, is_run=True)
_PARTS = ItemReader(
    is_item=is_part,
    expected="expected a part of a stream",
    runs=lambda parts: _runs_of_steps(steps_of(parts)),
    # A stream ends where the next one begins.
    begins=lambda _before, part: part["type"] == "start",
)
_MESSAGES = ItemReader(is_item=_is_any_message, expected="expected a message of the AI SDK", runs=_runs_of_messages)
_CONVERSATIONS = ItemReader(
    is_item=_are_messages,
    expected="expected a list of messages of the AI SDK",
    runs=lambda items: _MESSAGES.read(items[0].members()),
    is_run=True,
)


_TOOL = "tool-"
_INVOCATION = "tool-invocation"
_DYNAMIC = "dynamic-tool"
_RETURNED = ("output-available", "output-error", "output-denied", "result")
_UI_ROLES = ("user", "assistant", "system", "data")


def is_ui_message(value: Json) -> bool:
    """Return whether a message has the AI SDK's parts, or `toolInvocations`."""
    message = as_object(value)
    if message.get("role") not in _UI_ROLES:
        return False
    if has_list(message, "toolInvocations"):
        return True
    parts = objects_in(message, "parts")
    return bool(parts) and all(map(_is_part, parts))


def is_certain(value: Json) -> bool:
    """Return whether no other format has such messages."""
    if filled_in(value, "toolInvocations"):
        return True
    kinds = [text_in(part, "type") for part in objects_in(value, "parts")]
    return any(kind in ("step-start", _DYNAMIC) or kind.startswith(_TOOL) for kind in kinds)


def _is_part(part: JsonObject) -> bool:
    kind = part.get("type")
    if kind in ("text", "reasoning"):
        return "text" in part or "reasoning" in part
    return isinstance(kind, str) and (kind in ("file", "step-start", _DYNAMIC) or "-" in kind)


def model_messages(value: JsonObject) -> Iterator[JsonObject]:
    """Yield the model messages in a UI message, in the AI SDK's own shape."""
    parts = objects_in(value, "parts") or [{"type": "text", "text": text_in(value, "content")}]
    if not of_type(parts, _INVOCATION):
        invocations = objects_in(value, "toolInvocations")
        parts = [*({"type": _INVOCATION, "toolInvocation": invocation} for invocation in invocations), *parts]
    if value.get("role") == "assistant":
        for step in _steps(parts):
            yield from _step(step)
        return
    content: Json = parts
    if len(parts) == 1 and parts[0].get("type") == "text":
        content = text_in(parts[0], "text")
    yield {"role": value.get("role"), "content": content}


def _steps(parts: list[JsonObject]) -> Iterator[list[JsonObject]]:
    """Split parts into answers: at `step-start` marks, or without marks, at text after a tool's result."""
    is_marked = bool(of_type(parts, "step-start"))
    step: list[JsonObject] = []
    for part in parts:
        begins = part.get("type") == "step-start"
        speaks = not is_marked and _tool(part) is None and any(map(_tool, step))
        if (begins or speaks) and step:
            yield step
            step = []
        if not begins:
            step.append(part)
    if step:
        yield step


def _step(parts: list[JsonObject]) -> Iterator[JsonObject]:
    content: list[Json] = []
    calls: list[Json] = []
    own: list[Json] = []
    rest: list[Json] = []
    for part in parts:
        tool = _tool(part)
        if tool is not None:
            calls.append({**tool, "type": "tool-call"})
            if tool.get("state") in _RETURNED:
                (own if tool.get("providerExecuted") is True else rest).append(_result(tool))
        elif part.get("type") == "text":
            content.append({"type": "text", "text": text_in(part, "text")})
        elif part.get("type") == "reasoning":
            content.append({"type": "reasoning", "text": text_in(part, "text", "reasoning")})
        else:
            content.append(part)
    yield {"role": "assistant", "content": [*content, *calls, *own]}
    if rest:
        yield {"role": "tool", "content": rest}


def _tool(part: JsonObject) -> JsonObject | None:
    """Return the call in a part; the tool's name may be in the part's type."""
    kind = text_in(part, "type")
    if kind == _INVOCATION:
        return object_in(part, "toolInvocation")
    if kind == _DYNAMIC:
        return part
    if kind.startswith(_TOOL) and "toolCallId" in part:
        return {**part, "toolName": kind.removeprefix(_TOOL)}
    return None


def _result(tool: JsonObject) -> JsonObject:
    if tool["state"] in ("output-error", "output-denied"):
        return {**tool, "type": "tool-error", "error": filled_in(tool, "errorText", "state")}
    return {**tool, "type": "tool-result"}
