"""Meaning: what a span stands for, whatever dialect it speaks."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import msgspec
from msgspec import Struct, field

from replaykit.formats.core.messages import ConversationCache
from replaykit.formats.core.totals import stated_usage
from replaykit.formats.spans.span import Span
from replaykit.model.events import Usage
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import as_count, value_in
from replaykit.wire.model_calls import ModelAnswer

UNSET = msgspec.UNSET


class SpanKind(StrEnum):
    """The kind of thing that a span traces."""

    AGENT = "agent"  # an agent, a chain or a workflow: what it was given, and what it gave
    MODEL = "model"
    TOOL = "tool"
    STEP = "step"  # a stretch of an agent's own loop
    NOTE = "note"  # worth keeping, and no call that could be served


class Meaning(Struct, frozen=True, kw_only=True, gc=False):
    """A span, read. What the span does not say is unset, empty or None."""

    kind: SpanKind
    name: str = ""
    """The name of the agent, the tool, the model or the step."""
    is_agent: bool = True
    """False for a span that only groups others, such as a chain."""
    version: str = ""
    input: Json = UNSET
    """The input of an agent, or the arguments of a tool."""
    output: Json = UNSET
    """The output of an agent, or the result of a tool."""
    tool_failed: bool = False
    """The result is the text of an error."""
    call_id: str = ""
    """The id that the model gave to the call of a tool."""
    system: Json = None
    messages: list[Json] | None = None
    tools: Json = None
    parameters: JsonObject = field(default_factory=dict)
    answer: ModelAnswer | None = None
    finish_reason: str | None = None
    usage: Usage | None = None


class SpanDialect(Struct, frozen=True):
    """A vendor's way to write spans."""

    name: str
    mark: str
    """The attribute that every span of it has; empty where any may speak it."""
    read: Callable[[Span, ConversationCache], Meaning | None]
    """Return the meaning of a span; None when it is not of this dialect."""


def first(values: JsonObject, *names: str) -> Json:
    """The value under the first of the names that is there; UNSET when none is."""
    for name in names:
        found = values.get(name)
        if found is not None:
            return found
    return UNSET


def usage(values: JsonObject, inputs: tuple[str, ...], outputs: tuple[str, ...], *costs: str) -> Usage | None:
    """Tokens and money, by the names that a dialect has for them."""
    cost = value_in(values, *costs)
    cost_usd = None
    if type(cost) in (int, float):
        cost_usd = float(cost)
    return stated_usage(_count(value_in(values, *inputs)), _count(value_in(values, *outputs)), cost_usd)


def _count(value: Json) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return as_count(value)


def unflattened(values: JsonObject, prefix: str) -> Json:
    """Return the lists and objects that were flattened into names such as `a.0.b` below a prefix."""
    found: JsonObject = {}
    for name, value in values.items():
        if name.startswith(prefix):
            _put(found, name[len(prefix) :].split("."), value)
    return _lists(found, _MAX_PATH)


def _put(found: JsonObject, path: list[str], value: Json) -> None:
    for step in path[:-1][:_MAX_PATH]:
        inner = found.setdefault(step, {})
        if not isinstance(inner, dict):
            return
        found = inner
    found.setdefault(path[-1], value)


_MAX_PATH = 32


def _lists(value: Json, depth: int) -> Json:
    """Objects whose names are numbers as lists, down to where `_put` has made any."""
    if not isinstance(value, dict) or depth < 0:
        return value
    if value and all(name.isdecimal() and len(name) < 8 for name in value):
        return [_lists(value[name], depth - 1) for name in sorted(value, key=int)]
    return {name: _lists(item, depth - 1) for name, item in value.items()}
