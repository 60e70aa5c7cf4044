"""Dialects: how vendors write what a span stands for. One module each; the first that knows a span reads it."""

from __future__ import annotations

from replaykit.importers.otel.dialects.genai import GenAI
from replaykit.importers.otel.dialects.langfuse import Langfuse
from replaykit.importers.otel.dialects.langfuse_export import LangfuseExport
from replaykit.importers.otel.dialects.mlflow import MLflow
from replaykit.importers.otel.dialects.openai_agents import OpenAIAgents
from replaykit.importers.otel.dialects.openinference import OpenInference
from replaykit.importers.otel.dialects.traceloop import Traceloop
from replaykit.importers.otel.dialects.vercel import Vercel
from replaykit.importers.otel.meaning import Dialect, Heard, Meaning
from replaykit.importers.otel.span import Span

DIALECTS: tuple[Dialect, ...] = (
    *(OpenInference(), Langfuse(), Traceloop(), Vercel(), GenAI()),
    *(LangfuseExport(), MLflow(), OpenAIAgents()),
)
"""GenAI comes after those that write some of its words beside their own; the last are of exports that are no OTLP."""


_BY_MARK = tuple((dialect.mark, dialect) for dialect in DIALECTS)


def meaning_of(span: Span, heard: Heard) -> tuple[Meaning | None, str]:
    """What a span stands for, and in which dialect; None for a span that has nothing to do with agents."""
    said = span.attributes
    for mark, dialect in _BY_MARK:
        if not mark or mark in said:
            meaning = dialect.read(span, heard)
            if meaning is not None:
                return meaning, dialect.name
    return None, ""
