"""Langfuse: what its SDK sends over OTLP. Inputs and outputs are those of the framework it was used with."""

from __future__ import annotations

from replaykit.importers.messages import answer_in, messages_of
from replaykit.importers.otel.dialects.traceloop import alone, called_with
from replaykit.importers.otel.meaning import UNSET, Heard, Kind, Meaning, first, loaded, text, usage
from replaykit.importers.otel.span import Span
from replaykit.model.values import Json
from replaykit.wire.fields import as_object

_KINDS = {
    "generation": Kind.MODEL,
    "tool": Kind.TOOL,
    "retriever": Kind.TOOL,
    "agent": Kind.AGENT,
    "chain": Kind.AGENT,
    "span": Kind.AGENT,
    "embedding": Kind.NOTE,
    "guardrail": Kind.NOTE,
    "evaluator": Kind.NOTE,
    "event": Kind.NOTE,
}
_OF = "langfuse.observation."


class Langfuse:
    """Reads spans with a `langfuse.observation.type`."""

    name = "langfuse"
    mark = f"{_OF}type"

    def read(self, span: Span, heard: Heard) -> Meaning | None:
        said = span.attributes
        kind = _KINDS.get(text(said, f"{_OF}type"))
        if kind is None:
            return None
        given = loaded(first(said, f"{_OF}input"))
        output = loaded(first(said, f"{_OF}output"))
        if kind is Kind.MODEL:
            return _model(said, given, output)
        if kind is Kind.NOTE:
            return Meaning(kind=kind, name=span.name)
        given = called_with(given)
        return Meaning(
            kind=kind,
            name=span.name,
            is_agent=said[f"{_OF}type"] == "agent",
            input=given if kind is Kind.TOOL else alone(given),
            output=output,
        )


def _model(said: dict[str, Json], given: Json, output: Json) -> Meaning:
    counted = as_object(loaded(said.get(f"{_OF}usage_details")))
    cost = as_object(loaded(said.get(f"{_OF}cost_details"))).get("total")
    settings = as_object(loaded(said.get(f"{_OF}model.parameters")))
    return Meaning(
        kind=Kind.MODEL,
        name=text(said, f"{_OF}model.name"),
        messages=None if given is UNSET else messages_of(given),
        tools=as_object(given).get("tools"),
        parameters={name: value for name, value in settings.items() if value != "Infinity"},
        answer=None if output is UNSET else answer_in(_answered(output)),
        usage=usage(
            counted | {"cost": cost or None}, ("input", "prompt_tokens"), ("output", "completion_tokens"), "cost"
        ),
    )


def _answered(output: Json) -> list[Json]:
    if isinstance(output, str):
        return [{"role": "assistant", "content": output}]
    return messages_of(output) or []
