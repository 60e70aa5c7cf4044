"""OpenLLMetry (Traceloop): workflows, agents, tasks and tools. Its model calls speak GenAI."""

from __future__ import annotations

from replaykit.formats.core.json_text import decode_text
from replaykit.formats.core.messages import ConversationCache
from replaykit.formats.spans.dialects.payloads import call_arguments, single_argument
from replaykit.formats.spans.meaning import UNSET, Meaning, SpanKind, text
from replaykit.formats.spans.span import Span

_KINDS = {"workflow": SpanKind.AGENT, "agent": SpanKind.AGENT, "task": SpanKind.AGENT, "tool": SpanKind.TOOL}


class Traceloop:
    """Reads spans with a `traceloop.span.kind`."""

    name = "traceloop"
    mark = "traceloop.span.kind"

    def read(self, span: Span, cache: ConversationCache) -> Meaning | None:
        attributes = span.attributes
        kind = _KINDS.get(text(attributes, "traceloop.span.kind"))
        if kind is None:
            return None
        arguments = call_arguments(decode_text(attributes.get("traceloop.entity.input", UNSET)))
        return Meaning(
            kind=kind,
            name=text(attributes, "traceloop.entity.name") or span.name,
            is_agent=attributes["traceloop.span.kind"] == "agent",
            input=arguments if kind is SpanKind.TOOL else single_argument(arguments),
            output=decode_text(attributes.get("traceloop.entity.output", UNSET)),
        )
