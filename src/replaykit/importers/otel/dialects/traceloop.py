"""OpenLLMetry (Traceloop): workflows, agents, tasks and tools. Its model calls speak GenAI."""

from __future__ import annotations

from replaykit.importers.otel.meaning import UNSET, Heard, Kind, Meaning, decoded, text
from replaykit.importers.otel.span import Span
from replaykit.model.values import Json

_KINDS = {"workflow": Kind.AGENT, "agent": Kind.AGENT, "task": Kind.AGENT, "tool": Kind.TOOL}


class Traceloop:
    """Reads spans with a `traceloop.span.kind`."""

    name = "traceloop"
    mark = "traceloop.span.kind"

    def read(self, span: Span, heard: Heard) -> Meaning | None:
        said = span.attributes
        kind = _KINDS.get(text(said, "traceloop.span.kind"))
        if kind is None:
            return None
        given = called_with(decoded(said.get("traceloop.entity.input", UNSET)))
        return Meaning(
            kind=kind,
            name=text(said, "traceloop.entity.name") or span.name,
            is_agent=said["traceloop.span.kind"] == "agent",
            input=given if kind is Kind.TOOL else alone(given),
            output=decoded(said.get("traceloop.entity.output", UNSET)),
        )


def called_with(given: Json) -> Json:
    """How a function was called, as the arguments of a call: `{args, kwargs}` with one of them empty is the other."""
    if not isinstance(given, dict) or not given.keys() <= {"args", "kwargs"}:
        return given
    if not given.get("args"):
        return given.get("kwargs", {})
    return given["args"] if not given.get("kwargs") else given


def alone(given: Json) -> Json:
    """What an agent was given: the one argument where it is one, nothing where it is none."""
    if isinstance(given, list) and len(given) == 1:
        return given[0]
    if given in ({}, []):
        return UNSET
    return next(iter(given.values())) if isinstance(given, dict) and len(given) == 1 else given
