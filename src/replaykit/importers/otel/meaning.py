"""Meaning: what a span stands for, whatever dialect it speaks."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

import msgspec
import orjson
from msgspec import Struct, field

from replaykit.importers.otel.span import Span
from replaykit.model.events import Usage
from replaykit.model.values import Json
from replaykit.wire.call import Answer
from replaykit.wire.fields import as_count

UNSET = msgspec.UNSET


class Kind(StrEnum):
    """What sort of thing happened."""

    AGENT = "agent"  # an agent, a chain or a workflow: what it was given, and what it gave
    MODEL = "model"
    TOOL = "tool"
    STEP = "step"  # a stretch of an agent's own loop
    NOTE = "note"  # worth keeping, and no call that could be served


class Meaning(Struct, frozen=True, kw_only=True):
    """A span, read. What the span does not say is unset, empty or None."""

    kind: Kind
    name: str = ""
    """Of the agent, the tool, the model or the step."""
    is_agent: bool = True
    """Of an agent: False for what only holds others together, such as a chain."""
    version: str = ""
    input: Json = UNSET
    """What an agent was given, or a tool: its arguments."""
    output: Json = UNSET
    """What an agent gave, or a tool: its result."""
    tool_failed: bool = False
    """The result is the text of an error."""
    call_id: str = ""
    """The id that the model gave to the call of a tool."""
    system: Json = None
    messages: list[Json] | None = None
    tools: Json = None
    parameters: dict[str, Json] = field(default_factory=dict)
    answer: Answer | None = None
    finish_reason: str | None = None
    usage: Usage | None = None


class Dialect(Protocol):
    """How one vendor writes a span."""

    @property
    def name(self) -> str: ...

    def read(self, span: Span) -> Meaning | None:
        """What the span stands for; None when it does not speak this dialect, or says nothing in it."""


def loaded(value: Json) -> Json:
    """A value that may have been written as JSON text: the object or list it is, or the text that was quoted.

    Any other text stays one: whether `5` was a number or a text, nobody can tell.
    """
    if not isinstance(value, str) or value[:20].lstrip()[:1] not in _OPENING:
        return value
    try:
        found = orjson.loads(value)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return value
    return found


_OPENING = ("{", "[", '"')


def decoded(value: Json) -> Json:
    """A value that was certainly written as JSON text, whatever it is; the text itself where it is none."""
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return value


def first(values: dict[str, Json], *names: str) -> Json:
    """The value under the first of the names that is there; UNSET when none is."""
    return next((values[name] for name in names if values.get(name) is not None), UNSET)


def text(values: dict[str, Json], *names: str) -> str:
    """The first of these that is a text with something in it."""
    return next((found for name in names if isinstance(found := values.get(name), str) and found), "")


def usage(values: dict[str, Json], inputs: tuple[str, ...], outputs: tuple[str, ...], *costs: str) -> Usage | None:
    """Tokens and money, by the names that a dialect has for them."""
    given = first(values, *costs)
    found = Usage(
        input_tokens=_count(first(values, *inputs)),
        output_tokens=_count(first(values, *outputs)),
        cost_usd=float(given) if type(given) in (int, float) else None,
    )
    return None if found == Usage() else found


def _count(value: Json) -> int | None:
    return as_count(int(value) if isinstance(value, float) and value.is_integer() else value)


def unflattened(values: dict[str, Json], prefix: str) -> Json:
    """What stands under a prefix as `a.0.b`, as the lists and objects that it was flattened from."""
    found: dict[str, Json] = {}
    for name, value in values.items():
        if name.startswith(prefix):
            _put(found, name[len(prefix) :].split("."), value)
    return _lists(found)


def _put(found: dict[str, Json], path: list[str], value: Json) -> None:
    for step in path[:-1][:_MAX_PATH]:
        inner = found.setdefault(step, {})
        if not isinstance(inner, dict):
            return
        found = inner
    found.setdefault(path[-1], value)


_MAX_PATH = 32


def _lists(value: Json) -> Json:
    if not isinstance(value, dict):
        return value
    if value and all(name.isdecimal() and len(name) < 8 for name in value):
        return [_lists(value[name]) for name in sorted(value, key=int)]
    return {name: _lists(item) for name, item in value.items()}
