"""Meaning: what a span stands for, whatever dialect it speaks."""

from __future__ import annotations

from enum import StrEnum
from operator import is_
from typing import Protocol

import msgspec
import orjson
from msgspec import Struct, field

from replaykit.importers import mending
from replaykit.importers.otel.span import Span
from replaykit.model.events import Usage
from replaykit.model.values import Json, canonical_read
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


class Meaning(Struct, frozen=True, kw_only=True, gc=False):
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

    @property
    def mark(self) -> str:
        """The attribute that every span of it has; empty where any may speak it."""

    def read(self, span: Span, heard: Heard) -> Meaning | None:
        """What the span stands for; None when it does not speak this dialect, or says nothing in it."""


class Heard:
    """What spans were heard to say last, as text and as what it was read into.

    Each call of a model repeats the conversation before it, and the tools on offer: what was read once is not read
    again. Owned by whoever reads the spans, one after another; nobody may change what it gives.
    """

    __slots__ = ("_canonical", "_offered", "_offered_text", "said", "said_text")

    def __init__(self) -> None:
        self.said_text = ""
        """A conversation, without its end: what goes on begins with it."""
        self.said: list[Json] = []
        self._offered_text = ""
        self._offered: Json = None
        self._canonical = b""

    def offered(self, value: Json) -> Json:
        """`loaded` of what many spans repeat, such as the definitions of tools."""
        if not isinstance(value, str):
            return value
        if value != self._offered_text:
            self._offered_text, self._offered, self._canonical = value, loaded(value), b""
        return self._offered

    def canonical(self, value: Json) -> bytes:
        """Its canonical text; written once for what was offered last."""
        if value is not self._offered:
            return canonical_read(value)
        self._canonical = self._canonical or canonical_read(value)
        return self._canonical


def goes_on(said: list[Json], messages: list[Json]) -> bool:
    """True when a conversation begins with all of another: the same objects, as `Heard` gives them."""
    return len(said) <= len(messages) and all(map(is_, said, messages))


def loaded(value: Json) -> Json:
    """A value that may have been written as JSON text: the object or list it is, or the text that was quoted.

    Any other text stays one: whether `5` was a number or a text, nobody can tell.
    """
    if not isinstance(value, str) or value[:20].lstrip()[:1] not in _OPENING:
        return value
    return decoded(value)


_OPENING = ("{", "[", '"')


def decoded(value: Json) -> Json:
    """A value that was certainly written as JSON text, whatever it is; the text itself where it is none."""
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return _half_decoded(value)


def _half_decoded(value: str) -> Json:
    """What was cut within a character before it was written as JSON."""
    try:
        return mending.decoded(value.encode()) if "\\u" in value else value
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return value


def first(values: dict[str, Json], *names: str) -> Json:
    """The value under the first of the names that is there; UNSET when none is."""
    for name in names:
        found = values.get(name)
        if found is not None:
            return found
    return UNSET


def text(values: dict[str, Json], *names: str) -> str:
    """The first of these that is a text with something in it."""
    for name in names:
        found = values.get(name)
        if type(found) is str and found:
            return found
    return ""


def usage(values: dict[str, Json], inputs: tuple[str, ...], outputs: tuple[str, ...], *costs: str) -> Usage | None:
    """Tokens and money, by the names that a dialect has for them."""
    given = first(values, *costs)
    found = Usage(
        input_tokens=_count(first(values, *inputs)),
        output_tokens=_count(first(values, *outputs)),
        cost_usd=float(given) if type(given) in (int, float) else None,
    )
    return None if found == _UNCOUNTED else found


_UNCOUNTED = Usage()


def _count(value: Json) -> int | None:
    return as_count(int(value) if isinstance(value, float) and value.is_integer() else value)


def unflattened(values: dict[str, Json], prefix: str) -> Json:
    """What stands under a prefix as `a.0.b`, as the lists and objects that it was flattened from."""
    found: dict[str, Json] = {}
    for name, value in values.items():
        if name.startswith(prefix):
            _put(found, name[len(prefix) :].split("."), value)
    return _lists(found, _MAX_PATH)


def _put(found: dict[str, Json], path: list[str], value: Json) -> None:
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
