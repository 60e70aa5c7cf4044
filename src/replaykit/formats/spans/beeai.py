"""BeeAI: its instrumentation makes spans of the start, the success and the finish of a call; together they are one.

tool.search.wikipedia.start-12    tool.search.wikipedia.success-12    tool.search.wikipedia.finish-12
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from replaykit.formats.spans.dialects.langfuse import OBSERVATION
from replaykit.formats.spans.meaning import UNSET, Meaning, SpanKind
from replaykit.model.values import Json
from replaykit.wire.json_fields import as_object, as_text

if TYPE_CHECKING:
    from replaykit.formats.spans.tree import SpanNode

SCOPE = "openinference.instrumentation.beeai"
_PART = re.compile(r"(.+)\.(start|success|error|finish)-(\d+)")
_PARAMETERS = "tool.parameters"
_MAX_PARAMETERS = 1_000_000  # characters of Python that are read as data


def unite_calls(nodes: Iterable[SpanNode]) -> None:
    """Leave one span of each call with all that is known of it; the others mean nothing."""
    calls: dict[tuple[str, str], dict[str, SpanNode]] = {}
    for node in nodes:
        if node.span.scope == SCOPE:
            found = _PART.fullmatch(node.span.name)
        else:
            found = None
        if found is not None and node.kind in (SpanKind.MODEL, SpanKind.TOOL):
            calls.setdefault((found[1], found[3]), {}).setdefault(found[2], node)
    for (name, _number), parts in calls.items():
        _unite(name, parts)


def _unite(name: str, parts: dict[str, SpanNode]) -> None:
    ordered = [parts[part] for part in ("start", "success", "error", "finish") if part in parts]
    first = ordered[0]
    meanings = [node.meaning for node in ordered if node.meaning is not None]
    if first.kind is SpanKind.TOOL:
        first.meaning = _tool(name, ordered)
    else:
        first.meaning = _model(meanings)
    ends = [node.span.started_ns for node in ordered[1:]]
    failed = "error" in parts or any(node.span.failed for node in ordered)
    first.span = msgspec.structs.replace(first.span, ended_ns=max(ends, default=first.span.ended_ns), failed=failed)
    for other in ordered[1:]:
        other.mean_nothing()


def _tool(name: str, nodes: list[SpanNode]) -> Meaning:
    meanings = [node.meaning for node in nodes if node.meaning is not None]
    output = next((meaning.output for meaning in meanings if meaning.output not in (UNSET, None)), UNSET)
    arguments = next((found for node in nodes if (found := _parameters(node)) is not None), UNSET)
    return Meaning(kind=SpanKind.TOOL, name=name.removeprefix("tool."), input=arguments, output=output)


def _model(meanings: list[Meaning]) -> Meaning:
    """Join the spans of a model call: the first has the request, another the answer and the usage."""
    first = meanings[0]
    return msgspec.structs.replace(
        first,
        answer=next((meaning.answer for meaning in meanings if meaning.answer is not None), None),
        usage=next((meaning.usage for meaning in reversed(meanings) if meaning.usage is not None), None),
    )


def _parameters(node: SpanNode) -> Json:
    """The arguments of a tool, which are written as Python; Langfuse makes an object of that."""
    attributes = node.span.attributes
    observation = as_object(attributes.get(OBSERVATION))
    beside = as_object(as_object(observation.get("metadata")).get("attributes"))
    written = attributes.get(_PARAMETERS) or beside.get(_PARAMETERS)
    if isinstance(written, dict):
        return written
    text = as_text(written)
    if not text or len(text) > _MAX_PARAMETERS:
        return None
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    if isinstance(found, dict):
        return found
    return None
