"""Span: what OTLP says happened, in one form for all its encodings."""

from __future__ import annotations

import base64
import binascii
import re

import msgspec
from msgspec import Struct, field

from replaykit.model.values import Json

FORMAT = "otlp"


class SpanEvent(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A moment inside of a span: an event of it, or a log record that names it."""

    name: str = ""
    at_ns: int = 0
    attributes: dict[str, Json] = field(default_factory=dict)
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
    attributes: dict[str, Json] = field(default_factory=dict)
    happenings: tuple[SpanEvent, ...] = ()
    scope: str = ""
    """The library that made it."""
    resource: dict[str, Json] = field(default_factory=dict)
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
decode_spans = msgspec.json.Decoder(list[Span]).decode
"""Return the spans that `encode_spans` was given; raises `msgspec.MsgspecError`."""


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
