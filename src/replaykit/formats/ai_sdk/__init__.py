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
from replaykit.formats.ai_sdk.content import RESULTS, results_in, tell_answer, tell_result, unwrapped
from replaykit.formats.ai_sdk.steps import FORMAT, is_step
from replaykit.formats.ai_sdk.steps import run_of as run_of_steps
from replaykit.formats.ai_sdk.stream import is_certain as is_certain_part
from replaykit.formats.ai_sdk.stream import is_part, steps_of
from replaykit.formats.ai_sdk.ui import is_certain, is_ui_message, model_messages
from replaykit.formats.core.items import TraceItem, first_items, items_of, mostly, nothing_of
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
    steps = value if isinstance(value, list) else as_object(value).get("steps")
    return isinstance(steps, list) and mostly(is_step, steps)


def _are_messages(values: list[Json], *, certain: bool) -> bool:
    fine = mostly(lambda value: _is_message(value) or is_ui_message(value), values)
    return fine and (not certain or any(is_certain(value) or _is_marked(value) for value in values))


def _is_message(value: Json) -> bool:
    message = as_object(value)
    return message.get("role") in _ROLES and isinstance(message.get("content"), str | list)


def _is_marked(value: Json) -> bool:
    """True for a message with calls or results as only the AI SDK writes them."""
    parts = as_objects(as_object(value).get("content"))
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
    role, content = as_text(message.get("role")), message.get("content")
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
