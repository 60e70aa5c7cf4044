"""The parts of Pydantic AI's messages: what each says, in the words of the model."""

from __future__ import annotations

import math
from collections.abc import Iterator

from replaykit.formats.core.errors import error_of
from replaykit.formats.core.fields import Fields
from replaykit.formats.core.json_text import read_arguments
from replaykit.model.events import ErrorInfo, Usage
from replaykit.model.values import Json, encode
from replaykit.wire.json_fields import as_count, as_objects, as_text, joined
from replaykit.wire.model_calls import ModelAnswer, ToolUse

OWN_CALLS = ("builtin-tool-call", "native-tool-call")
OWN_RETURNS = ("builtin-tool-return", "native-tool-return")
"""Of tools that the provider runs."""
_KNOWN_PARTS = ("text", "thinking", "tool-call", *OWN_CALLS, *OWN_RETURNS)
_INPUTS, _OUTPUTS = ("input_tokens", "request_tokens"), ("output_tokens", "response_tokens")


def parts_of(fields: Fields) -> list[Fields]:
    """The parts of a message."""
    values = enumerate(fields.items("parts"))
    return [
        Fields(fields.source, value, (*fields.path, "parts", index), "a part of a message") for index, value in values
    ]


def of_kind(parts: list[Fields], *kinds: str) -> Iterator[Fields]:
    """Those of these kinds."""
    return (part for part in parts if part.value.get("part_kind") in kinds)


def answer_of(parts: list[Fields]) -> ModelAnswer:
    """What a response says."""
    return ModelAnswer(
        content=joined(part.text("content") or "" for part in of_kind(parts, "text")),
        tool_calls=tuple(map(use_of, of_kind(parts, "tool-call"))),
        thinking=joined(part.text("content") or "" for part in of_kind(parts, "thinking")),
        parts=tuple(part.value for part in parts if part.required_text("part_kind") not in _KNOWN_PARTS),
    )


def use_of(part: Fields) -> ToolUse:
    """A call that is asked for."""
    arguments = read_arguments(part.take("args"))
    return ToolUse(id=part.text("tool_call_id") or "", name=part.text("tool_name") or "", arguments=arguments)


def plain(part: Fields) -> dict[str, Json]:
    """A part of an earlier request, as a message."""
    kind, content = part.required_text("part_kind"), part.take("content")
    if kind == "tool-return" or (kind == "retry-prompt" and part.text("tool_name")):
        return {"role": "tool", "content": content, "tool_call_id": part.text("tool_call_id") or ""}
    return {"role": "system" if kind == "system-prompt" else "user", "content": content}


def error_in(content: Json, kind: str) -> ErrorInfo:
    """What went wrong: a text, or what Pydantic's validation says of each value."""
    problems = [
        f"{as_text(problem.get('msg'))} at {encode(problem.get('loc')).decode()}" for problem in as_objects(content)
    ]
    return error_of("; ".join(problems) or content, kind)


def usage_in(counts: dict[str, Json]) -> Usage | None:
    """Tokens and money: input tokens count cached ones in."""
    usage = Usage(
        input_tokens=next((found for name in _INPUTS if (found := as_count(counts.get(name))) is not None), None),
        output_tokens=next((found for name in _OUTPUTS if (found := as_count(counts.get(name))) is not None), None),
        cost_usd=_cost(counts.get("cost")),
    )
    if usage == Usage():
        return None
    return usage


def _cost(value: Json) -> float | None:
    """Dollars: a number, or a decimal as text."""
    try:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            amount = float(value)
        else:
            amount = math.nan
    except (ValueError, OverflowError):
        return None
    if math.isfinite(amount) and amount >= 0:
        return amount
    return None
