"""Messages of a chat in a browser, `UIMessage`, as apps store them: what a model did, step by step, is one message.

{id, role, parts: [{type: step-start}, {type: text, text}, {type: tool-NAME | dynamic-tool, toolCallId, state,
 input, output, errorText}]}                                                    version 5 and later
{id, role, content, toolInvocations: [{toolCallId, toolName, state, args, result}]}      version 4
"""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.model.values import Json
from replaykit.wire.json_fields import as_object, as_objects, as_text

_TOOL = "tool-"
_OLD = "tool-invocation"
_DYNAMIC = "dynamic-tool"
_RETURNED = ("output-available", "output-error", "output-denied", "result")
_ROLES = ("user", "assistant", "system", "data")


def is_ui_message(value: Json) -> bool:
    """True for a message with parts of the AI SDK, or with its `toolInvocations`."""
    message = as_object(value)
    if message.get("role") not in _ROLES:
        return False
    if isinstance(message.get("toolInvocations"), list):
        return True
    parts = as_objects(message.get("parts"))
    return bool(parts) and all(_is_part(part) for part in parts)


def is_certain(value: Json) -> bool:
    """True for a message that no other format has."""
    message = as_object(value)
    kinds = [as_text(part.get("type")) for part in as_objects(message.get("parts"))]
    return bool(message.get("toolInvocations")) or any(
        kind in ("step-start", _DYNAMIC) or kind.startswith(_TOOL) for kind in kinds
    )


def _is_part(part: dict[str, Json]) -> bool:
    kind = part.get("type")
    if kind in ("text", "reasoning"):
        return "text" in part or "reasoning" in part
    return isinstance(kind, str) and (kind in ("file", "step-start", _DYNAMIC) or "-" in kind)


def model_messages(value: dict[str, Json]) -> Iterator[dict[str, Json]]:
    """The messages that a model heard and said, in the AI SDK's own shape."""
    parts = as_objects(value.get("parts")) or [{"type": "text", "text": as_text(value.get("content"))}]
    if not any(part.get("type") == _OLD for part in parts):
        old: list[dict[str, Json]] = [
            {"type": _OLD, "toolInvocation": invocation} for invocation in as_objects(value.get("toolInvocations"))
        ]
        parts = [*old, *parts]
    if value.get("role") != "assistant":
        content = [{**part, "type": "text"} if part.get("type") == "text" else part for part in parts]
        texts = [as_text(part.get("text")) for part in content if part.get("type") == "text"]
        yield {"role": value.get("role"), "content": texts[0] if len(content) == len(texts) == 1 else content}
        return
    for step in _steps(parts):
        yield from _step(step)


def _steps(parts: list[dict[str, Json]]) -> Iterator[list[dict[str, Json]]]:
    """Parts of one answer each: a mark begins the next, or where there is none, words after a tool's result."""
    marked = any(part.get("type") == "step-start" for part in parts)
    step: list[dict[str, Json]] = []
    for part in parts:
        begins = part.get("type") == "step-start"
        speaks = not marked and _tool(part) is None and any(_tool(other) for other in step)
        if (begins or speaks) and step:
            yield step
            step = []
        if not begins:
            step.append(part)
    if step:
        yield step


def _step(parts: list[dict[str, Json]]) -> Iterator[dict[str, Json]]:
    calls = [tool for part in parts if (tool := _tool(part)) is not None]
    content: list[Json] = []
    for part in parts:
        if part.get("type") == "text":
            content.append({"type": "text", "text": as_text(part.get("text"))})
        elif part.get("type") == "reasoning":
            content.append({"type": "reasoning", "text": as_text(part.get("text")) or as_text(part.get("reasoning"))})
        elif _tool(part) is None:
            content.append(part)
    results = [_result(tool) for tool in calls if tool.get("state") in _RETURNED]
    own = [result for result in results if result.get("providerExecuted") is True]
    yield {"role": "assistant", "content": [*content, *({**tool, "type": "tool-call"} for tool in calls), *own]}
    rest = [result for result in results if result.get("providerExecuted") is not True]
    if rest:
        yield {"role": "tool", "content": rest}


def _tool(part: dict[str, Json]) -> dict[str, Json] | None:
    """The call in a part: its name may be in the part's type."""
    kind = as_text(part.get("type"))
    if kind == _OLD:
        return as_object(part.get("toolInvocation"))
    if kind == _DYNAMIC:
        return part
    if kind.startswith(_TOOL) and "toolCallId" in part:
        return {**part, "toolName": kind.removeprefix(_TOOL)}
    return None


def _result(tool: dict[str, Json]) -> dict[str, Json]:
    failed = tool.get("state") in ("output-error", "output-denied")
    error = tool.get("errorText") or tool.get("state")
    if failed:
        return {**tool, "type": "tool-error", "error": error}
    return {**tool, "type": "tool-result"}
