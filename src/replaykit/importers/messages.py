"""Messages as dialects write them, in one shape: `{role, content, tool_calls, tool_call_id, name}`.

    GenAI       {role, parts: [{type: text | reasoning | tool_call | tool_call_response, …}]}
    OpenAI      {role, content, tool_calls: [{id, function: {name, arguments}}], tool_call_id}
    AI SDK      {role, content: [{type: text | tool-call | tool-result, …}]}
    LangChain   {type, data}, {lc, id, kwargs}, [role, text]

A message with the results of several tools becomes one for each. `status: error` marks a result that is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from replaykit.importers.langsmith.messages import message_body, message_of
from replaykit.importers.otel.meaning import loaded
from replaykit.model.values import Json
from replaykit.wire.call import Answer, ToolUse
from replaykit.wire.fields import as_object, as_objects, as_text, joined, load_arguments

_ERRORS = ("error-text", "error-json", "execution-denied")
_TEXTS = ("text", "output_text", "input_text")
_RESULTS = ("tool_call_response", "tool-result", "tool_result")
_CALLS = ("tool_call", "tool-call", "tool_use")
_THOUGHTS = ("reasoning", "thinking")


def messages_of(value: Json) -> list[Json] | None:
    """The messages of a conversation; None where the value holds none."""
    value = loaded(value)
    if isinstance(value, dict):
        value = value["messages"] if isinstance(value.get("messages"), list) else [value]
    if isinstance(value, str):
        return [{"role": "user", "content": value}] if value else None
    if not isinstance(value, list):
        return None
    if len(value) == 1 and isinstance(value[0], list) and not isinstance(message_of(value[0]), dict):
        value = value[0]  # LangChain wraps them in a list of its own
    return [said for message in value for said in _said(message)]


def answer_in(messages: Iterable[Json]) -> Answer | None:
    """What the model said, where it took several messages to say it."""
    spoken = [m for m in messages if isinstance(m, dict) and m.get("role") in ("assistant", "model", "ai", None)]
    if not spoken:
        return None
    return Answer(
        content=joined((_content_text(m.get("content")) or "" for m in spoken), "\n"),
        tool_calls=tuple(ToolUse(**call) for m in spoken for call in m.get("tool_calls", ())),
        thinking=joined(as_text(m.get("thinking")) for m in spoken),
        refusal=joined(as_text(m.get("refusal")) for m in spoken),
        parts=tuple(part for m in spoken for part in _other_parts(m.get("content"))),
    )


def text_of(messages: list[Json] | None, role: str) -> str:
    """What the last message of that role says."""
    found = [m for m in messages or () if isinstance(m, dict) and m.get("role") == role]
    return (_content_text(found[-1].get("content")) or "") if found else ""


def _said(message: Json) -> Iterator[dict[str, Json]]:
    if isinstance(message, str):
        yield {"role": "user", "content": message}
        return
    body = message_body(message)
    plain = message_of(message) if body is not None or isinstance(message, list) else message
    if not isinstance(plain, dict):
        return
    role = as_text(plain.get("role")) or "user"
    parts = plain.get("parts") if isinstance(plain.get("parts"), list) else plain.get("content")
    if isinstance(parts, list):
        yield from _of_parts(role, as_text(plain.get("name")), parts, plain)
        return
    said: dict[str, Json] = {"role": role, "content": plain.get("content")}
    said |= {name: plain[name] for name in ("name", "tool_call_id", "thinking", "refusal") if plain.get(name)}
    if body is not None and body.get("status") == "error":
        said["status"] = "error"
    calls = [_call(call) for call in as_objects(plain.get("tool_calls"))]
    yield said | {"tool_calls": calls} if calls else said


def _of_parts(role: str, name: str, parts: list[Json], message: dict[str, Json]) -> Iterator[dict[str, Json]]:
    items = [part for part in parts if isinstance(part, dict)]
    yield from (_result(part) for part in items if part.get("type") in _RESULTS)
    calls = [_call(part) for part in items if part.get("type") in _CALLS]
    calls += [_call(call) for call in as_objects(message.get("tool_calls"))]
    thinking = joined(_part_text(part) for part in items if part.get("type") in _THOUGHTS)
    rest = [part for part in parts if not _is_told(part)]
    texts = [part if isinstance(part, str) else _part_text(part) for part in rest if _is_text(part)]
    if not rest and not calls and not thinking and any(part.get("type") in _RESULTS for part in items):
        return
    said: dict[str, Json] = {"role": role, "content": rest if len(texts) < len(rest) else joined(texts, "\n")}
    more = {"name": name, "tool_call_id": message.get("tool_call_id"), "tool_calls": calls, "thinking": thinking}
    yield said | {key: value for key, value in more.items() if value}


def _is_told(part: Json) -> bool:
    return isinstance(part, dict) and part.get("type") in (*_RESULTS, *_CALLS, *_THOUGHTS)


def _is_text(part: Json) -> bool:
    return isinstance(part, str) or (isinstance(part, dict) and part.get("type") in _TEXTS)


def _part_text(part: dict[str, Json]) -> str:
    return next((t for name in ("content", "text", "thinking") if (t := as_text(part.get(name)))), "")


def _call(call: dict[str, Json]) -> dict[str, Json]:
    """A call that a model asks for, of any shape."""
    named = as_object(call.get("function")) or call
    names = ("name", "toolName")
    given: Json = next((named[key] for key in ("arguments", "input", "args") if named.get(key) is not None), {})
    return {
        "id": next((t for key in ("id", "toolCallId", "call_id") if (t := as_text(call.get(key)))), ""),
        "name": next((t for key in names if (t := as_text(named.get(key)))), ""),
        "arguments": load_arguments(given) if isinstance(given, str) else given,
    }


def _result(part: dict[str, Json]) -> dict[str, Json]:
    """A tool's result inside of a message."""
    keys = ("response", "result", "output", "content")
    content = next((part[key] for key in keys if part.get(key) is not None), None)
    failed = part.get("is_error") is True or part.get("isError") is True or part.get("outcome") in ("failed", "retried")
    if isinstance(content, dict) and "value" in content and isinstance(content.get("type"), str):
        failed = failed or content["type"] in _ERRORS
        content = content["value"]
    ids = ("id", "toolCallId", "tool_use_id")
    said: dict[str, Json] = {"role": "tool", "content": content}
    said["tool_call_id"] = next((t for key in ids if (t := as_text(part.get(key)))), "")
    name = as_text(part.get("name")) or as_text(part.get("toolName"))
    return said | ({"name": name} if name else {}) | ({"status": "error"} if failed else {})


def _content_text(content: Json) -> str | None:
    if isinstance(content, str):
        return content or None
    return joined((_part_text(part) for part in as_objects(content) if _is_text(part)), "\n")


def _other_parts(content: Json) -> Iterator[Json]:
    return (part for part in as_objects(content) if not _is_text(part))
