"""Dialects: vendors' conventions for the meaning of a span, one module each. The first that fits reads the span."""

from __future__ import annotations

from replaykit.formats.core.messages import ConversationCache
from replaykit.formats.spans.dialects.genai import GENAI, TRACELOOP
from replaykit.formats.spans.dialects.langfuse import LANGFUSE, LANGFUSE_EXPORT
from replaykit.formats.spans.dialects.mlflow import MLFLOW
from replaykit.formats.spans.dialects.openai_agents import OPENAI_AGENTS
from replaykit.formats.spans.dialects.openinference import OPENINFERENCE
from replaykit.formats.spans.dialects.vercel import VERCEL
from replaykit.formats.spans.span import Meaning, Span

DIALECTS = (OPENINFERENCE, LANGFUSE, TRACELOOP, VERCEL, GENAI, LANGFUSE_EXPORT, MLFLOW, OPENAI_AGENTS)
"""GenAI comes after dialects that also use some of its names. The last three are for exports other than OTLP."""


def meaning_of(span: Span, cache: ConversationCache) -> tuple[Meaning | None, str]:
    """Return the meaning of a span and its dialect; None if the span is not part of an agent."""
    attributes = span.attributes
    for dialect in DIALECTS:
        if not dialect.mark or dialect.mark in attributes:
            meaning = dialect.read(span, cache)
            if meaning is not None:
                return meaning, dialect.name
    return None, ""
