"""Dialects: how vendors write what a span stands for. One module each; the first that knows a span reads it."""

from __future__ import annotations

from replaykit.formats.core.messages import ConversationCache
from replaykit.formats.spans.dialects.genai import GenAI, Traceloop
from replaykit.formats.spans.dialects.langfuse import Langfuse, LangfuseExport
from replaykit.formats.spans.dialects.mlflow import MLflow
from replaykit.formats.spans.dialects.openai_agents import OpenAIAgents
from replaykit.formats.spans.dialects.openinference import OpenInference
from replaykit.formats.spans.dialects.vercel import Vercel
from replaykit.formats.spans.meaning import Meaning, SpanDialect
from replaykit.formats.spans.span import Span

DIALECTS: tuple[SpanDialect, ...] = (
    *(OpenInference(), Langfuse(), Traceloop(), Vercel(), GenAI()),
    *(LangfuseExport(), MLflow(), OpenAIAgents()),
)
"""GenAI comes after those that write some of its words beside their own; the last are of exports that are no OTLP."""


_BY_MARK = tuple((dialect.mark, dialect) for dialect in DIALECTS)


def meaning_of(span: Span, cache: ConversationCache) -> tuple[Meaning | None, str]:
    """Return the meaning of a span and its dialect; None for a span that is no part of an agent."""
    attributes = span.attributes
    for mark, dialect in _BY_MARK:
        if not mark or mark in attributes:
            meaning = dialect.read(span, cache)
            if meaning is not None:
                return meaning, dialect.name
    return None, ""
