"""Collecting: spans of a document, one by one; one that is wrong is counted and stops no other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from replaykit.formats.spans.span import BadPayload, Span, SpanEvent, SpanReading
from replaykit.model.values import Json

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


def aside(trace: str, span: str, happening: SpanEvent, scope: str, resource: dict[str, Json]) -> Span | None:
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
