"""What Langfuse says of a trace beside its observations: who it was of, what came of it, how people judged it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from replaykit.importers.labels import Label
from replaykit.importers.otel.dialects.contents import gave_in, given_in
from replaykit.importers.otel.dialects.langfuse_export import OBSERVATION, kind_of
from replaykit.importers.otel.meaning import UNSET, Kind, loaded
from replaykit.importers.otel.span import Span
from replaykit.importers.replayable import Lack
from replaykit.importers.span_exports import About
from replaykit.importers.verdicts import says_failure
from replaykit.model.values import Json
from replaykit.wire.fields import as_object, as_text

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


def about_trace(told: dict[str, Json], spans: list[Span], scores: Iterable[dict[str, Json]]) -> About:
    """Of the trace itself where the file holds it, else of what its observations repeat of it."""
    owned = [as_object(span.attributes[OBSERVATION]) for span in spans]
    output = gave_in(loaded(loaded(told.get("output"))))
    return About(
        format=FORMAT,
        name=as_text(told.get("name")) or _first(owned, "traceName"),
        version=as_text(told.get("version")),
        tags=_tags(told, owned),
        input=given_in(loaded(loaded(told.get("input")))),
        output=output,
        metadata={
            "conversation": as_text(told.get("sessionId")) or _first(owned, "sessionId"),
            "user": as_text(told.get("userId")) or _first(owned, "userId"),
            "environment": as_text(told.get("environment")) or _first(owned, "environment"),
            "release": as_text(told.get("release")) or _first(owned, "release"),
            "trace_metadata": _plain(told.get("metadata")),
            "prompts": sorted(
                {f"{own['promptName']} v{own.get('promptVersion')}" for own in owned if "promptName" in own}
            ),
            "warnings": [f"{span.name}: {said}"[:_SHORT] for span in spans if (said := _warning(span))],
        },
        labels=tuple(_labels(scores, output)),
        lacks={span.id: {Lack.ARGUMENTS} for span in spans if "input" not in span.attributes[OBSERVATION]},
        advice=tuple(_advice(owned)),
    )


def _first(owned: list[dict[str, Json]], name: str) -> str:
    return next((found for own in owned if (found := as_text(own.get(name)))), "")


def _tags(told: dict[str, Json], owned: list[dict[str, Json]]) -> tuple[str, ...]:
    lists = [told.get("tags"), *(own.get("tags") for own in owned)]
    found = next((tags for tags in lists if isinstance(tags, list) and tags), [])
    return tuple(tag for tag in found if isinstance(tag, str))


def _plain(metadata: Json) -> dict[str, Json]:
    """What a user said of the trace: short, and nothing of what OpenTelemetry adds."""
    said = as_object(loaded(metadata))
    plain = {name: value for name, value in said.items() if not isinstance(value, dict | list)}
    return {name: value for name, value in plain.items() if not isinstance(value, str) or len(value) <= _SHORT}


def _warning(span: Span) -> str:
    own = as_object(span.attributes[OBSERVATION])
    return as_text(own.get("statusMessage")) if own.get("level") == "WARNING" else ""


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
    given = loaded(text)
    failed = bool(text) and output is not UNSET and given != output and text != output
    return Label(name="correction", value=text, failed=failed, why=as_text(score.get("comment")))


def _advice(owned: list[dict[str, Json]]) -> Iterator[str]:
    calls = [own for own in owned if kind_of(own) in (Kind.MODEL, Kind.TOOL)]
    if any("input" not in own or "output" not in own for own in calls):
        yield _NO_INPUT
    if any("input" in own for own in calls if kind_of(own) is Kind.MODEL):
        yield _LOST_INPUT
