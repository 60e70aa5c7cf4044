"""Span: what OTLP says happened, in one form for all its encodings."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Iterable
from enum import StrEnum

import msgspec
from msgspec import Struct, field

from replaykit.formats.core.messages import ConversationCache
from replaykit.formats.core.replayability import stated_usage
from replaykit.model.events import Usage
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import as_count, value_in
from replaykit.wire.model_calls import ModelAnswer

FORMAT = "otlp"


class SpanEvent(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A moment inside of a span: an event of it, or a log record that names it."""

    name: str = ""
    at_ns: int = 0
    attributes: JsonObject = field(default_factory=dict)
    body: Json = None


class Span(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One span. What a log record says of a span whose own record came apart is a span with `is_aside`."""

    trace: str
    id: str
    parent: str = ""
    name: str = ""
    started_ns: int = 0
    ended_ns: int = 0
    """0 while it is under way."""
    failed: bool = False
    message: str = ""
    """The message of its status."""
    attributes: JsonObject = field(default_factory=dict)
    happenings: tuple[SpanEvent, ...] = ()
    scope: str = ""
    """The library that made it."""
    resource: JsonObject = field(default_factory=dict)
    """The program it was made in."""
    is_aside: bool = False


class SpanReading(Struct, frozen=True, kw_only=True):
    """The spans of a document, and why some were rejected."""

    spans: tuple[Span, ...] = ()
    rejected: int = 0
    problem: str = ""
    """The reason why the first span was rejected."""
    line: int | None = None
    """The line of the file that it stands on, where that is known."""


class BadPayload(ValueError):
    """A document that is not OTLP; the message says why."""


encode_spans = msgspec.json.Encoder().encode


_TRACE_BYTES = 16


_SPAN_BYTES = 8


_PLAIN_ID = re.compile("(?:[0-9a-f]{16}){1,2}")


_HEX = frozenset("0123456789abcdef")


def trace_id(value: bytes | Json) -> str:
    """A trace's id in hex; `BadPayload` when it is none."""
    return _id(value, _TRACE_BYTES, "trace id", needed=True)


def span_id(value: bytes | Json) -> str:
    """A span's id in hex; `BadPayload` when it is none."""
    return _id(value, _SPAN_BYTES, "span id", needed=True)


def link_id(value: bytes | Json, *, of_trace: bool = False) -> str:
    """An id that may be missing: that of a parent, or those in a log record."""
    size, what = (_TRACE_BYTES, "trace id") if of_trace else (_SPAN_BYTES, "link to a span")
    return _id(value, size, what, needed=False)


def _id(value: bytes | Json, size: int, what: str, *, needed: bool) -> str:
    if type(value) is str and len(value) == 2 * size and _PLAIN_ID.fullmatch(value):
        text = value  # as nearly all are written
    else:
        if isinstance(value, bytes):
            text = value.hex()
        else:
            text = _hex_of(value, size, what)
    if text and len(text) != 2 * size:
        raise BadPayload(f"a {what} of {len(text) // 2} bytes; it has {size}")
    if text.strip("0"):
        return text
    if needed:
        raise BadPayload(f"a span without a {what}")
    return ""


def _hex_of(value: Json, size: int, what: str) -> str:
    """OTLP/JSON writes ids in hex; JSON that protobuf libraries write has base64; SDKs that print spans, 0x and hex."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadPayload(f"a {what} that is no text")
    text = value.lower().removeprefix("0x")
    if _HEX.issuperset(text) and len(text) in (0, 2 * size):
        return text
    try:
        return base64.b64decode(value, validate=True).hex()
    except (binascii.Error, ValueError):
        raise BadPayload(f"not a {what}: {value[:40]!r}") from None


MAX_DEPTH = 64
MAX_SPANS = 100_000
MAX_ATTRIBUTES = 4096
_MAX_TIME_NS = 2**63
INT64_DIGITS = 19
"""A whole number with fewer is one of 64 bits."""


class Collector:
    """Takes spans and log records as they are read."""

    def __init__(self) -> None:
        self._spans: list[Span] = []
        self._rejected = 0
        self._problem = ""
        self._line: int | None = None

    def add(self, read: Callable[[], Span | None], line: int | None = None) -> None:
        """A span, or a log record, and its line; None for a record that belongs to no span."""
        if len(self._spans) + self._rejected >= MAX_SPANS:
            raise BadPayload(f"more than {MAX_SPANS:,} spans in one document")
        try:
            span = read()
        except BadPayload as error:
            if not self._rejected:
                self._problem, self._line = str(error), line
            self._rejected += 1
            return
        if span is not None:
            self._spans.append(span)

    @property
    def reading(self) -> SpanReading:
        return SpanReading(spans=tuple(self._spans), rejected=self._rejected, problem=self._problem, line=self._line)


def merged(readings: Iterable[SpanReading]) -> SpanReading:
    """Several readings as one."""
    found = list(readings)
    if len(found) == 1:
        return found[0]
    wrong = [reading for reading in found if reading.rejected]
    return SpanReading(
        spans=tuple(span for reading in found for span in reading.spans),
        rejected=sum(reading.rejected for reading in wrong),
        problem=wrong[0].problem if wrong else "",
        line=wrong[0].line if wrong else None,
    )


def aside(trace: str, span: str, happening: SpanEvent, scope: str, resource: JsonObject) -> Span | None:
    """Return a log record as a part of its span; None where it names none, as most do."""
    if not trace or not span or not happening.name.startswith("gen_ai."):
        return None
    return Span(trace=trace, id=span, happenings=(happening,), scope=scope, resource=resource, is_aside=True)


def whole(value: Json, what: str) -> int:
    """A count of nanoseconds or the like: OTLP/JSON writes 64-bit numbers as text."""
    if type(value) is str and len(value) < INT64_DIGITS and value.isdecimal():
        return int(value)  # as nearly all are written
    if value is None or value == "":
        return 0
    try:
        if (isinstance(value, str) and len(value) <= 20) or (isinstance(value, float) and value.is_integer()):
            value = int(value)
    except ValueError:
        pass
    if type(value) is not int or not 0 <= value < _MAX_TIME_NS:
        raise BadPayload(f"{what}: expected a whole number, got {str(value)[:40]!r}")
    return value


def number(value: float) -> Json:
    """A float as JSON can say it."""
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    if value > 0:
        return "Infinity"
    return "-Infinity"


UNSET = msgspec.UNSET


class SpanKind(StrEnum):
    """The kind of thing that a span traces."""

    AGENT = "agent"  # an agent, a chain or a workflow: what it was given, and what it gave
    MODEL = "model"
    TOOL = "tool"
    STEP = "step"  # a stretch of an agent's own loop
    NOTE = "note"  # worth keeping, and no call that could be served
    NOTHING = "nothing"  # no part of an agent, or told by another span as well


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


NOTHING = Meaning(kind=SpanKind.NOTHING)


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
