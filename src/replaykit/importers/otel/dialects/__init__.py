"""Dialects: how vendors write what a span stands for. One module each; the first that knows a span reads it."""

from __future__ import annotations

from replaykit.importers.otel.dialects.genai import GenAI
from replaykit.importers.otel.dialects.langfuse import Langfuse
from replaykit.importers.otel.dialects.openinference import OpenInference
from replaykit.importers.otel.dialects.traceloop import Traceloop
from replaykit.importers.otel.dialects.vercel import Vercel
from replaykit.importers.otel.meaning import Dialect, Meaning
from replaykit.importers.otel.span import Span

DIALECTS: tuple[Dialect, ...] = (OpenInference(), Langfuse(), Traceloop(), Vercel(), GenAI())
"""GenAI comes last: the others write some of its words beside their own."""


def meaning_of(span: Span) -> tuple[Meaning | None, str]:
    """What a span stands for, and in which dialect; None for a span that has nothing to do with agents."""
    for dialect in DIALECTS:
        meaning = dialect.read(span)
        if meaning is not None:
            return meaning, dialect.name
    return None, ""
