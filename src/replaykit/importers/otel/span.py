"""Span: what OTLP says happened, in one form for all its encodings."""

from __future__ import annotations

import msgspec
from msgspec import Struct, field

from replaykit.model.values import Json

FORMAT = "otlp"


class Happening(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
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
    """What its status says beside that."""
    attributes: dict[str, Json] = field(default_factory=dict)
    happenings: tuple[Happening, ...] = ()
    scope: str = ""
    """The library that made it."""
    resource: dict[str, Json] = field(default_factory=dict)
    """The program it was made in."""
    is_aside: bool = False


class Reading(Struct, frozen=True, kw_only=True):
    """What a document held: spans, and in words what of it was none."""

    spans: tuple[Span, ...] = ()
    rejected: int = 0
    problem: str = ""
    """What was wrong with the first that was rejected."""
    line: int | None = None
    """The line of the file that it stands on, where that is known."""


class BadPayload(ValueError):
    """A document that is not OTLP; the message says why."""


encode_spans = msgspec.json.Encoder().encode
decode_spans = msgspec.json.Decoder(list[Span]).decode
"""What `encode_spans` was given; raises `msgspec.MsgspecError`."""
