"""OpenAI Agents SDK: spans of its own tracing, each with `span_data` of a type."""

from __future__ import annotations

from replaykit.importers.otel.dialects.contents import asked_in, told_in
from replaykit.importers.otel.meaning import UNSET, Heard, Kind, Meaning, first, loaded
from replaykit.importers.otel.span import Span
from replaykit.model.events import Usage
from replaykit.model.values import Json
from replaykit.wire.dialect import Told
from replaykit.wire.fields import as_object, as_text, load_arguments
from replaykit.wire.usage import usage_of

DATA = "openai_agents.data"
"""The attribute of a span that holds its data."""
STAGE = "stage"
"""A type of our own: the part of a run that one of several agents did."""


class OpenAIAgents:
    """Reads spans that were the SDK's."""

    name = "openai_agents"
    mark = DATA

    def read(self, span: Span, heard: Heard) -> Meaning | None:
        data = span.attributes.get(DATA)
        if not isinstance(data, dict):
            return None
        kind = as_text(data.get("type"))
        if kind == "agent":
            return Meaning(kind=Kind.AGENT, name=as_text(data.get("name")) or span.name)
        if kind == "function":
            return _function(span, data)
        if kind in ("generation", "response"):
            return _model(data)
        if kind == STAGE:
            return Meaning(kind=Kind.STEP, name=as_text(data.get("name")))
        return _custom(span, as_object(data.get("data"))) if kind == "custom" else Meaning(kind=Kind.NOTE)


def _custom(span: Span, data: dict[str, Json]) -> Meaning | None:
    """The SDK's own wrappers: a turn is a step, and the task around all says nothing more."""
    kind = data.get("sdk_span_type")
    if kind == "turn":
        number = data.get("turn")
        return Meaning(kind=Kind.STEP, name=f"turn_{number}" if type(number) is int else "turn")
    return None if kind == "task" else Meaning(kind=Kind.NOTE, name=span.name)


def _function(span: Span, data: dict[str, Json]) -> Meaning:
    given = first(data, "input")
    return Meaning(
        kind=Kind.TOOL,
        name=as_text(data.get("name")) or span.name,
        input=load_arguments(given) if isinstance(given, str) else given,
        output=loaded(first(data, "output")),
    )


def _model(data: dict[str, Json]) -> Meaning:
    """A call of the chat API, or of the Responses API; of the latter the SDK exports no more than its id and usage."""
    response = as_object(data.get("response"))
    asked = asked_in(data.get("input"))
    answered = _answered(data, response)
    settings = as_object(data.get("model_config"))
    return Meaning(
        kind=Kind.MODEL,
        name=as_text(data.get("model")) or as_text(response.get("model")),
        system=asked.system or response.get("instructions"),
        messages=asked.messages,
        tools=asked.tools or response.get("tools"),
        parameters={name: value for name, value in settings.items() if value is not None and name != "base_url"},
        answer=answered.answers[0] if answered.answers else None,
        finish_reason=answered.finish_reason,
        usage=_usage(data) or answered.usage,
    )


def _answered(data: dict[str, Json], response: dict[str, Json]) -> Told:
    if response:
        return told_in({"object": "response", **response})
    output = first(data, "output")
    return Told() if output is UNSET else told_in(output)


def _usage(data: dict[str, Json]) -> Usage | None:
    """Later versions write the names of the Responses API, earlier ones those of the chat API."""
    counts = data.get("usage")
    return usage_of(counts, inputs=("input_tokens",), outputs=("output_tokens",)) or usage_of(
        counts, inputs=("prompt_tokens",), outputs=("completion_tokens",)
    )
