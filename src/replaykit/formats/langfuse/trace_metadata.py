"""What Langfuse says of a trace beside its observations: who it was of, what came of it, how people judged it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from replaykit.formats.core.json_text import load_json
from replaykit.formats.core.labels import Label
from replaykit.formats.core.replayability import Lack
from replaykit.formats.core.scores import says_failure
from replaykit.formats.spans.dialects.langfuse import OBSERVATION, kind_of
from replaykit.formats.spans.dialects.payloads import agent_input, agent_output
from replaykit.formats.spans.exports import TraceSummary
from replaykit.formats.spans.meaning import UNSET, SpanKind
from replaykit.formats.spans.span import Span
from replaykit.model.values import Json
from replaykit.wire.json_fields import as_object, as_text

FORMAT = "langfuse"
_SHORT = 500
_NO_INPUT = (
    "Observations came without input or output: ask the API for these fields (fields=core,basic,time,io,metadata,model,"
    "usage), and see that the SDK does not leave them out (capture_input, capture_output) or mask them."
)
_LOST_INPUT = (
    "Where a model's input holds no messages, the instrumentation lost them: one of Langfuse's own for that framework "
    "keeps them."
)


def trace_summary(trace_fields: dict[str, Json], spans: list[Span], scores: Iterable[dict[str, Json]]) -> TraceSummary:
    """Of the trace itself where the file holds it, else of what its observations repeat of it."""
    owned = [as_object(span.attributes[OBSERVATION]) for span in spans]
    output = agent_output(load_json(load_json(trace_fields.get("output"))))
    return TraceSummary(
        format=FORMAT,
        name=as_text(trace_fields.get("name")) or _first(owned, "traceName"),
        version=as_text(trace_fields.get("version")),
        tags=_tags(trace_fields, owned),
        input=agent_input(load_json(load_json(trace_fields.get("input")))),
        output=output,
        metadata={
            "conversation": as_text(trace_fields.get("sessionId")) or _first(owned, "sessionId"),
            "user": as_text(trace_fields.get("userId")) or _first(owned, "userId"),
            "environment": as_text(trace_fields.get("environment")) or _first(owned, "environment"),
            "release": as_text(trace_fields.get("release")) or _first(owned, "release"),
            "trace_metadata": _plain(trace_fields.get("metadata")),
            "prompts": sorted(
                {f"{own['promptName']} v{own.get('promptVersion')}" for own in owned if "promptName" in own}
            ),
            "warnings": [f"{span.name}: {warning}"[:_SHORT] for span in spans if (warning := _warning(span))],
        },
        labels=tuple(_labels(scores, output)),
        lacks={span.id: {Lack.ARGUMENTS} for span in spans if "input" not in span.attributes[OBSERVATION]},
        advice=tuple(_advice(owned)),
    )


def _first(owned: list[dict[str, Json]], name: str) -> str:
    return next((found for own in owned if (found := as_text(own.get(name)))), "")


def _tags(trace_fields: dict[str, Json], owned: list[dict[str, Json]]) -> tuple[str, ...]:
    lists = [trace_fields.get("tags"), *(own.get("tags") for own in owned)]
    found = next((tags for tags in lists if isinstance(tags, list) and tags), [])
    return tuple(tag for tag in found if isinstance(tag, str))


def _plain(metadata: Json) -> dict[str, Json]:
    """What a user said of the trace: short, and nothing of what OpenTelemetry adds."""
    values = as_object(load_json(metadata))
    plain = {name: value for name, value in values.items() if not isinstance(value, dict | list)}
    return {name: value for name, value in plain.items() if not isinstance(value, str) or len(value) <= _SHORT}


def _warning(span: Span) -> str:
    own = as_object(span.attributes[OBSERVATION])
    if own.get("level") == "WARNING":
        return as_text(own.get("statusMessage"))
    return ""


def _labels(scores: Iterable[dict[str, Json]], output: Json) -> Iterator[Label]:
    seen: set[str] = set()
    for score in scores:
        key = as_text(score.get("id"))
        if key and key in seen:
            continue
        seen.add(key)
        yield _correction(score, output) if _is_correction(score) else _label(score)


def _is_correction(score: dict[str, Json]) -> bool:
    return _field(score, "dataType") == "CORRECTION"


def _field(score: dict[str, Json], name: str) -> str:
    """A text of a score, whose names may be in snake_case."""
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)
    return as_text(score.get(name)) or as_text(score.get(snake))


def _label(score: dict[str, Json]) -> Label:
    name, kind = as_text(score.get("name")) or "score", _field(score, "dataType")
    value = score.get("value")
    if kind == "BOOLEAN" and isinstance(value, int | float):
        value = bool(value)
    elif kind in ("CATEGORICAL", "TEXT") or value is None:
        value = _field(score, "stringValue") or value
    return Label(name=name, value=value, failed=says_failure(name, value), why=as_text(score.get("comment")))


def _correction(score: dict[str, Json], output: Json) -> Label:
    """What somebody wrote in the place of the output: a failure, where it is something else."""
    text = _field(score, "longStringValue") or _field(score, "stringValue")
    corrected = load_json(text)
    failed = bool(text) and output is not UNSET and corrected != output and text != output
    return Label(name="correction", value=text, failed=failed, why=as_text(score.get("comment")))


def _advice(owned: list[dict[str, Json]]) -> Iterator[str]:
    calls = [own for own in owned if kind_of(own) in (SpanKind.MODEL, SpanKind.TOOL)]
    if any("input" not in own or "output" not in own for own in calls):
        yield _NO_INPUT
    if any("input" in own for own in calls if kind_of(own) is SpanKind.MODEL):
        yield _LOST_INPUT
