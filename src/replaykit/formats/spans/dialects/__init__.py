"""Dialects: how vendors write what a span stands for. One module each; the first that knows a span reads it."""

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
"""GenAI comes after those that write some of its words beside their own; the last are of exports that are no OTLP."""


def meaning_of(span: Span, cache: ConversationCache) -> tuple[Meaning | None, str]:
    """Return the meaning of a span and its dialect; None for a span that is no part of an agent."""
    attributes = span.attributes
    for dialect in DIALECTS:
        if not dialect.mark or dialect.mark in attributes:
            meaning = dialect.read(span, cache)
            if meaning is not None:
                return meaning, dialect.name
    return None, ""
