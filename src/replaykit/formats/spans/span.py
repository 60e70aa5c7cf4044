"""A span of OTLP in one form for all encodings."""

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
    """A moment inside a span: an event, or a log record that refers to the span."""

    name: str = ""
    at_ns: int = 0
    attributes: JsonObject = field(default_factory=dict)
    body: Json = None


class Span(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One span. `is_aside` marks the part that a log record adds to a span recorded elsewhere."""

    trace: str
    id: str
    parent: str = ""
    name: str = ""
    started_ns: int = 0
    ended_ns: int = 0
    """0 while the span is open."""
    failed: bool = False
    message: str = ""
    """The message of the status."""
    attributes: JsonObject = field(default_factory=dict)
    happenings: tuple[SpanEvent, ...] = ()
    scope: str = ""
    """The library that created the span."""
    resource: JsonObject = field(default_factory=dict)
    """The program in which it was created."""
    is_aside: bool = False


class SpanReading(Struct, frozen=True, kw_only=True):
    """The spans of a document, and why others were rejected."""

    spans: tuple[Span, ...] = ()
    rejected: int = 0
    problem: str = ""
    """Why the first rejected span was rejected."""
    line: int | None = None
    """The line of that span in the file, if known."""


class BadPayload(ValueError):
    """A document that is not OTLP."""


encode_spans = msgspec.json.Encoder().encode


_TRACE_BYTES = 16


_SPAN_BYTES = 8


_PLAIN_ID = re.compile("(?:[0-9a-f]{16}){1,2}")


_HEX = frozenset("0123456789abcdef")


def trace_id(value: bytes | Json) -> str:
    """Return a trace's id in hex; raise `BadPayload` if it is invalid."""
    return _id(value, _TRACE_BYTES, "trace id", needed=True)


def span_id(value: bytes | Json) -> str:
    """Return a span's id in hex; raise `BadPayload` if it is invalid."""
    return _id(value, _SPAN_BYTES, "span id", needed=True)


def link_id(value: bytes | Json, *, of_trace: bool = False) -> str:
    """Return an id that may be missing: that of a parent span, or those in a log record."""
    size, what = (_TRACE_BYTES, "trace id") if of_trace else (_SPAN_BYTES, "link to a span")
    return _id(value, size, what, needed=False)


def _id(value: bytes | Json, size: int, what: str, *, needed: bool) -> str:
    if type(value) is str and len(value) == 2 * size and _PLAIN_ID.fullmatch(value):
        text = value  # the fast path: nearly all ids are written this way
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
    """OTLP/JSON has ids in hex, protobuf libraries write base64 in JSON, and SDKs that print spans write 0x and hex."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadPayload(f"a {what} that is not text")
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
"""A whole number with fewer digits fits 64 bits."""


class Collector:
    """Collects spans and log records as they are read."""

    def __init__(self) -> None:
        self._spans: list[Span] = []
        self._rejected = 0
        self._problem = ""
        self._line: int | None = None

    def add(self, read: Callable[[], Span | None], line: int | None = None) -> None:
        """Add the span or log record that `read` returns; None stands for a record of no span."""
        if len(self._spans) + self._rejected >= MAX_SPANS:
            raise BadPayload(f"more than {MAX_SPANS:,} spans in one document")
        try:
            span = read()
        except BadPayload as error:
            if not self._rejected:
                self._problem, self._line = str(error), line
            self._rejected += 1
            return
        # Log records without a span are the rule, not an error.
        if span is not None:
            self._spans.append(span)

    @property
    def reading(self) -> SpanReading:
        return SpanReading(spans=tuple(self._spans), rejected=self._rejected, problem=self._problem, line=self._line)


def merged(readings: Iterable[SpanReading]) -> SpanReading:
    """Merge readings into one."""
    parts = list(readings)
    if len(parts) == 1:
        return parts[0]
    rejecting = [reading for reading in parts if reading.rejected]
    return SpanReading(
        spans=tuple(span for reading in parts for span in reading.spans),
        rejected=sum(reading.rejected for reading in rejecting),
        problem=rejecting[0].problem if rejecting else "",
        line=rejecting[0].line if rejecting else None,
    )


def aside(trace: str, span: str, happening: SpanEvent, scope: str, resource: JsonObject) -> Span | None:
    """Return a log record as a part of its span; None if it names none, as most do."""
    # Applications log much else; only GenAI's records belong to the conversation.
    if not trace or not span or not happening.name.startswith("gen_ai."):
        return None
    return Span(trace=trace, id=span, happenings=(happening,), scope=scope, resource=resource, is_aside=True)


def whole(value: Json, what: str) -> int:
    """Return a count, such as nanoseconds: OTLP/JSON writes 64-bit numbers as text."""
    if type(value) is str and len(value) < INT64_DIGITS and value.isdecimal():
        return int(value)  # the fast path: nearly all numbers are written this way
    if value is None or value == "":
        return 0
    try:
        # Some exporters write nanoseconds as numbers with an exponent.
        if (isinstance(value, str) and len(value) <= 20) or (isinstance(value, float) and value.is_integer()):
            value = int(value)
    except ValueError:
        pass
    if type(value) is not int or not 0 <= value < _MAX_TIME_NS:
        raise BadPayload(f"{what}: expected a whole number, got {str(value)[:40]!r}")
    return value


def number(value: float) -> Json:
    """Return a float, or its name if JSON cannot express it."""
    if math.isfinite(value):
        return value
    # The names are those of protobuf's JSON.
    if math.isnan(value):
        return "NaN"
    if value > 0:
        return "Infinity"
    return "-Infinity"


UNSET = msgspec.UNSET


class SpanKind(StrEnum):
    """The kind of work that a span traces."""

    AGENT = "agent"  # an agent, a chain or a workflow
    MODEL = "model"
    TOOL = "tool"
    STEP = "step"  # a stretch of an agent's own loop
    NOTE = "note"  # worth keeping, but not a call that a replay could serve
    NOTHING = "nothing"  # not part of an agent, or a duplicate of another span


class Meaning(Struct, frozen=True, kw_only=True, gc=False):
    """The content of a span. Whatever the span does not state is unset, empty or None."""

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
    """True if the result is the text of an error."""
    call_id: str = ""
    """The id that the model gave the tool call."""
    system: Json = None
    messages: list[Json] | None = None
    tools: Json = None
    parameters: JsonObject = field(default_factory=dict)
    answer: ModelAnswer | None = None
    finish_reason: str | None = None
    usage: Usage | None = None


NOTHING = Meaning(kind=SpanKind.NOTHING)


class SpanDialect(Struct, frozen=True):
    """A vendor's conventions for spans."""

    name: str
    mark: str
    """An attribute that all spans of the dialect have; empty if there is none."""
    read: Callable[[Span, ConversationCache], Meaning | None]
    """Return the meaning of a span, or None if it is not of this dialect."""


def first(values: JsonObject, *names: str) -> Json:
    """Return the first value that is not null under one of the names, or UNSET."""
    for name in names:
        value = values.get(name)
        if value is not None:
            return value
    return UNSET


def usage(values: JsonObject, inputs: tuple[str, ...], outputs: tuple[str, ...], *costs: str) -> Usage | None:
    """Return tokens and cost, by the dialect's names for them."""
    cost = value_in(values, *costs)
    cost_usd = None
    if type(cost) in (int, float):
        cost_usd = float(cost)
    return stated_usage(_count(value_in(values, *inputs)), _count(value_in(values, *outputs)), cost_usd)


def _count(value: Json) -> int | None:
    # JavaScript exporters write whole numbers as floats.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return as_count(value)


def unflattened(values: JsonObject, prefix: str) -> Json:
    """Rebuild lists and objects that were flattened into names such as `a.0.b` below a prefix."""
    tree: JsonObject = {}
    for name, value in values.items():
        if name.startswith(prefix):
            _put(tree, name[len(prefix) :].split("."), value)
    return _lists(tree, _MAX_PATH)


def _put(tree: JsonObject, path: list[str], value: Json) -> None:
    for step in path[:-1][:_MAX_PATH]:
        inner = tree.setdefault(step, {})
        if not isinstance(inner, dict):
            return
        tree = inner
    tree.setdefault(path[-1], value)


_MAX_PATH = 32


def _lists(value: Json, depth: int) -> Json:
    """Turn objects whose names are numbers into lists, down to the depth that `_put` creates."""
    if not isinstance(value, dict) or depth < 0:
        return value
    if value and all(name.isdecimal() and len(name) < 8 for name in value):
        return [_lists(value[name], depth - 1) for name in sorted(value, key=int)]
    return {name: _lists(item, depth - 1) for name, item in value.items()}
