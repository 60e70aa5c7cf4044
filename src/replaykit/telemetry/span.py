"""Spans as values, and the ids of a run's spans."""

from __future__ import annotations

import re
from enum import IntEnum
from hashlib import blake2b
from typing import TypeAlias

import msgspec
from msgspec import Struct

from replaykit.model.events import ErrorInfo
from replaykit.model.run import RunHeader
from replaykit.model.values import JsonObject, raw

Attribute: TypeAlias = str | bool | int | float | tuple[str, ...]
Attributes: TypeAlias = dict[str, Attribute]

TRACE_ID = "trace_id"
"""The metadata key of a run's trace id."""
ORIGIN_TRACE_ID = "origin_trace_id"
"""The metadata key of the trace id of a fork's origin."""
_SECOND_NS = 1_000_000_000
_ID = 2**64 - 1
_STRIDE = 0x9E3779B97F4A7C15  # odd, so that no two numbers give the same id
_TRACE = re.compile("(?!0{32})[0-9a-f]{32}")


class TelemetrySpanKind(IntEnum):
    """The kinds of spans, by their numbers in OTLP."""

    INTERNAL = 1
    CLIENT = 3


class ExportedSpanEvent(Struct, frozen=True):
    """An event of a span."""

    name: str
    at_ns: int
    attributes: Attributes


class TelemetrySpan(Struct, frozen=True, kw_only=True):
    """One span of a run's trace."""

    id: int
    parent: int
    """0 for the run's own span."""
    name: str
    kind: TelemetrySpanKind = TelemetrySpanKind.INTERNAL
    started_ns: int
    ended_ns: int
    attributes: Attributes
    happenings: tuple[ExportedSpanEvent, ...] = ()
    failure: str | None = None
    """The text of an error status."""


def trace_id_of(run: RunHeader) -> str:
    """Return the id of a run's trace: the one it was recorded in, or else one derived from the run's id."""
    found = recorded_trace(run)
    if found is not None:
        return found
    if _TRACE.fullmatch(run.id):
        return run.id  # an imported trace
    return f"{_hashed(trace_key(run), 16):032x}"


def recorded_trace(run: RunHeader) -> str | None:
    """Return the trace that a run was reported in, or imported from."""
    return _trace_in(run, TRACE_ID)


def trace_key(run: RunHeader) -> str:
    """Return the text that span ids derive from. Replays of a case share an id, so the time is added."""
    if run.origin.kind == "replayed":
        return f"{run.id}@{run.started_at!r}"
    return run.id


def root_id(key: str) -> int:
    """Return the id of the run's own span."""
    return _hashed(key, 8)


def step_id(key: str, name: str) -> int:
    """Return the id of a step's span."""
    return _hashed(f"{key}/{name}", 8)


def call_id(root: int, seq: int) -> int:
    """Return the id of an event's span; the ids of a run's events are far apart."""
    return (root + (seq + 1) * _STRIDE) & _ID or 1


def with_trace(run: RunHeader, trace: str) -> RunHeader:
    """Return the header with the trace's id."""
    return msgspec.structs.replace(run, metadata_json=raw({**_metadata(run), TRACE_ID: trace}))


def of_origin(run: RunHeader) -> RunHeader:
    """Return the parent's header for a fork, with the trace id moved to the origin's."""
    metadata = dict(_metadata(run))
    if TRACE_ID not in metadata:
        return run
    trace = metadata.pop(TRACE_ID)
    return msgspec.structs.replace(run, metadata_json=raw({**metadata, ORIGIN_TRACE_ID: trace}))


def origin_trace(run: RunHeader) -> str | None:
    """Return the trace of the run that a fork comes from, if it is known."""
    return _trace_in(run, ORIGIN_TRACE_ID)


def _trace_in(run: RunHeader, member: str) -> str | None:
    found = _metadata(run).get(member)
    if isinstance(found, str) and _TRACE.fullmatch(found):
        return found
    return None


def nanoseconds(seconds: float) -> int:
    """Return a time or a duration in nanoseconds; dividing gives the same seconds again."""
    whole = int(seconds)
    return whole * _SECOND_NS + round((seconds - whole) * _SECOND_NS)


def error_type(error: ErrorInfo) -> str:
    """Return the full name of an exception's class; builtins without their module."""
    if error.module in ("", "builtins"):
        return error.type
    return f"{error.module}.{error.type}"


def exception(error: ErrorInfo, at_ns: int) -> ExportedSpanEvent:
    """Return the event for an exception."""
    attributes: Attributes = {"exception.type": error_type(error)}
    if error.message:
        attributes["exception.message"] = error.message
    if error.traceback:
        attributes["exception.stacktrace"] = error.traceback
    return ExportedSpanEvent("exception", at_ns, attributes)


def _metadata(run: RunHeader) -> JsonObject:
    known = run.metadata
    if isinstance(known, dict):
        return known
    return {}


def _hashed(text: str, size: int) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest(), "big") or 1
