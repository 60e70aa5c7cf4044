"""BeeAI: its instrumentation makes spans of the start, the success and the finish of a call; together they are one.

tool.search.wikipedia.start-12    tool.search.wikipedia.success-12    tool.search.wikipedia.finish-12
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from replaykit.importers.otel.dialects.langfuse_export import OBSERVATION
from replaykit.importers.otel.meaning import UNSET, Kind, Meaning
from replaykit.model.values import Json
from replaykit.wire.fields import as_object, as_text

if TYPE_CHECKING:
    from replaykit.importers.otel.tree import Node

SCOPE = "openinference.instrumentation.beeai"
_PART = re.compile(r"(.+)\.(start|success|error|finish)-(\d+)")
_PARAMETERS = "tool.parameters"
_MAX_PARAMETERS = 1_000_000  # characters of Python that are read as data


def unite_calls(nodes: Iterable[Node]) -> None:
    """Leave one span of each call with all that is known of it; the others mean nothing."""
    calls: dict[tuple[str, str], dict[str, Node]] = {}
    for node in nodes:
        found = _PART.fullmatch(node.span.name) if node.span.scope == SCOPE else None
        if found is not None and node.kind in (Kind.MODEL, Kind.TOOL):
            calls.setdefault((found[1], found[3]), {}).setdefault(found[2], node)
    for (name, _number), parts in calls.items():
        _unite(name, parts)


def _unite(name: str, parts: dict[str, Node]) -> None:
    ordered = [parts[part] for part in ("start", "success", "error", "finish") if part in parts]
    first = ordered[0]
    meanings = [node.meaning for node in ordered if node.meaning is not None]
    first.meaning = _tool(name, ordered) if first.kind is Kind.TOOL else _model(meanings)
    ends = [node.span.started_ns for node in ordered[1:]]
    failed = "error" in parts or any(node.span.failed for node in ordered)
    first.span = msgspec.structs.replace(first.span, ended_ns=max(ends, default=first.span.ended_ns), failed=failed)
    for other in ordered[1:]:
        other.mean_nothing()


def _tool(name: str, nodes: list[Node]) -> Meaning:
    meanings = [node.meaning for node in nodes if node.meaning is not None]
    output = next((meaning.output for meaning in meanings if meaning.output not in (UNSET, None)), UNSET)
    given = next((found for node in nodes if (found := _parameters(node)) is not None), UNSET)
    return Meaning(kind=Kind.TOOL, name=name.removeprefix("tool."), input=given, output=output)


def _model(meanings: list[Meaning]) -> Meaning:
    """What was asked is in the first, what was answered and counted in one of the others."""
    first = meanings[0]
    return msgspec.structs.replace(
        first,
        answer=next((one.answer for one in meanings if one.answer is not None), None),
        usage=next((one.usage for one in reversed(meanings) if one.usage is not None), None),
    )


def _parameters(node: Node) -> Json:
    """The arguments of a tool, which are written as Python; Langfuse makes an object of that."""
    attributes = node.span.attributes
    observation = as_object(attributes.get(OBSERVATION))
    beside = as_object(as_object(observation.get("metadata")).get("attributes"))
    given = attributes.get(_PARAMETERS) or beside.get(_PARAMETERS)
    if isinstance(given, dict):
        return given
    text = as_text(given)
    if not text or len(text) > _MAX_PARAMETERS:
        return None
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
