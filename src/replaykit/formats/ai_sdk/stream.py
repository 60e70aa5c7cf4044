"""Parts of a stream of the AI SDK, `result.fullStream`, put together as steps.

    start, start-step, text-start, text-delta, tool-input-start, tool-input-delta, tool-call, tool-result, tool-error,
    finish-step, finish, error, abort                      version 5 and later
    step-start, text-delta, tool-call, tool-result, step-finish, finish, error      version 4

The stream to a browser has other names for some: tool-input-available, tool-output-available, tool-output-error.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct, field

from replaykit.formats.ai_sdk.content import RESULTS
from replaykit.formats.core.items import TraceItem
from replaykit.model.values import Json
from replaykit.wire.json_fields import as_object, as_text, without

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
    """True for what may be a part of a stream."""
    return _KNOWN.fullmatch(as_text(as_object(value).get("type"))) is not None


def is_certain(value: Json) -> bool:
    """True for a part that no other format has."""
    return as_text(as_object(value).get("type")) in _CERTAIN


class _StreamedStep(Struct):
    """A step of a stream, as far as it was read."""

    fields: dict[str, Json]
    content: list[dict[str, Json]] = field(default_factory=list)
    texts: dict[tuple[str, str], dict[str, Json]] = field(default_factory=dict)
    inputs: dict[str, dict[str, Json]] = field(default_factory=dict)
    """Calls whose arguments are still being written."""
    ended: bool = False


def steps_of(items: Sequence[TraceItem]) -> list[TraceItem]:
    """The steps that the parts tell."""
    steps: list[_StreamedStep] = []
    for item in items:
        part = as_object(item.value)
        kind = _OTHER_NAMES.get(as_text(part.get("type")), as_text(part.get("type")))
        if kind in _BEGINS:
            steps.append(
                _StreamedStep({"request": as_object(part.get("request")), "warnings": part.get("warnings") or []})
            )
        elif kind != "start":
            if not steps or (steps[-1].ended and kind in ("tool-call", *_TEXTS)):
                steps.append(_StreamedStep({}))
            _add(steps[-1], kind, part)
    first = items[0]
    return [TraceItem(first.source, _step_fields(step), first.path) for step in steps]


def _add(step: _StreamedStep, kind: str, part: dict[str, Json]) -> None:
    if kind in _TEXTS:
        _add_text(step, _TEXTS[kind], part)
    elif kind in ("tool-input-start", "tool-input-delta"):
        call_id = as_text(part.get("id")) or as_text(part.get("toolCallId"))
        call = step.inputs.setdefault(call_id, {"type": "tool-call", "toolCallId": call_id, "input": ""})
        call["toolName"] = as_text(call.get("toolName")) or as_text(part.get("toolName"))
        written = (part.get(name) for name in ("delta", "inputTextDelta", "argsTextDelta"))
        call["input"] += next((text for text in map(as_text, written) if text), "")
    elif kind == "tool-call":
        step.inputs.pop(as_text(part.get("toolCallId")), None)
        step.content.append({**part, "type": kind})
    elif kind in RESULTS:
        if "errorText" in part:
            failed = {"error": part["errorText"]}
        else:
            failed = {}
        step.content.append({**part, **failed, "type": kind})
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


def _add_text(step: _StreamedStep, kind: str, part: dict[str, Json]) -> None:
    key = (kind, as_text(part.get("id")))
    if key not in step.texts:
        step.texts[key] = {"type": kind, "text": ""}
        step.content.append(step.texts[key])
    spoken = next((text for name in ("text", "delta", "textDelta") if (text := as_text(part.get(name)))), "")
    step.texts[key]["text"] += spoken


def _step_fields(step: _StreamedStep) -> dict[str, Json]:
    cut = {} if step.ended else {"cut": True}
    content: list[Json] = [*step.content, *step.inputs.values()]
    fields = {name: value for name, value in step.fields.items() if value is not None}
    return {"finishReason": "", "usage": {}, **fields, **cut, "content": content}
