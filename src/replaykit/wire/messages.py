"""Messages of any API or trace, as pieces: texts, tool calls, their results, and media.

    OpenAI chat   {role, content, tool_calls: [{id, function: {name, arguments}}]}, {role: tool, tool_call_id, content}
    responses     {type: message | function_call | function_call_output | reasoning, …}
    Anthropic     {role, content: [{type: text | tool_use | tool_result | thinking, …}]}
    Gemini        {role, parts: [{text} | {functionCall} | {functionResponse}]}
    Ollama        {role, content, tool_calls, tool_name}
    traces        {role, content, tool_calls: [{id, name, arguments}], tool_call_id}, {role, parts: [{type, content}]}

One reader serves all, since no two of them use a member in different ways. A model's reasoning and calls of
provider-run tools are left out: they are part of an answer, and an API may or may not want them back.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator

import orjson
from msgspec import Struct

from replaykit.model.text_lines import words_of
from replaykit.model.values import Json, JsonObject, dumps
from replaykit.wire.json_fields import (
    as_objects,
    as_text,
    has_object,
    load_arguments,
    object_in,
    objects_in,
    plain_numbers,
    text_at,
    text_in,
    value_in,
    without,
)

SYSTEM, USER, ASSISTANT, TOOL = "system", "user", "assistant", "tool"

# Roles by the words of APIs and traces; every other word is a user's.
_ROLES = {
    **dict.fromkeys(("system", "developer", "instructions"), SYSTEM),
    **dict.fromkeys(("assistant", "model", "ai", "agent", "bot"), ASSISTANT),
    **dict.fromkeys(("tool", "function", "tool_result", "toolResult", "ipython"), TOOL),
}
_LANGFUSE_MEDIUM = re.compile(r"@@@langfuseMedia:(?:[^|@]*\|)?id=([\w-]{22})\|[^@]*@@@")
TEXTS = ("text", "input_text", "output_text")
"""The types of text parts in all APIs."""
_TEXT_TYPES = frozenset((*TEXTS, "refusal"))
_CALL_TYPES = frozenset(("tool_use", "tool_call", "tool-call", "function_call", "custom_tool_call", "function"))
_RESULT_TYPES = frozenset(
    ("tool_result", "tool-result", "tool_call_response", "function_call_output", "custom_tool_call_output")
)
_HIDDEN_TYPES = frozenset(
    ("thinking", "redacted_thinking", "reasoning", "item_reference", "compaction", "server_tool_use", "mcp_list_tools")
)
_WRAPPERS = ("result", "output")  # the only member of an object in which Gemini's SDKs wrap a tool result


# Texts, in lower case, with which SDKs replace a text that they hide.
_MASKS = frozenset(words_of("__redacted__ redacted [redacted] <redacted> masked [masked] <masked> [hidden] [filtered]"))
_LONGEST_MASK = 20


class TextPiece(Struct, frozen=True):
    """A text in a message."""

    role: str
    text: str


class ToolCallPiece(Struct, frozen=True):
    """A tool call that a model requests."""

    id: str
    name: str
    arguments: bytes
    """The arguments as canonical JSON."""


class ToolResultPiece(Struct, frozen=True):
    """The result of a tool call, as sent to the model."""

    id: str
    name: str
    content: bytes
    """The result as canonical JSON, or its text if it is not JSON."""


class MediaPiece(Struct, frozen=True):
    """An image, a sound, a file, or anything else in a message beside text."""

    role: str
    content: bytes
    """Canonical JSON that identifies it."""


Piece = TextPiece | ToolCallPiece | ToolResultPiece | MediaPiece


def pieces_of(message: Json, role: str = USER) -> tuple[Piece, ...]:
    """Return the pieces of a message; `role` is its default role."""
    pieces: list[Piece] = []
    if isinstance(message, list):
        for item in message:
            pieces += pieces_of(item, role)
    elif isinstance(message, dict):
        pieces += _message_pieces(message, role)
    elif isinstance(message, str) and message:
        pieces.append(TextPiece(role, message))
    return tuple(pieces)


def is_silent(message: Json) -> bool:
    """Return whether a message without pieces is from someone other than the model."""
    return isinstance(message, dict) and "role" in message and _ROLES.get(as_text(message["role"])) != ASSISTANT


def is_masked(text: str) -> bool:
    """Return whether an SDK wrote this text in place of a hidden one."""
    return len(text) <= _LONGEST_MASK and text.strip().lower() in _MASKS


def canonical(value: Json) -> bytes:
    """Return canonical JSON in which 1 and 1.0 are equal."""
    return dumps(plain_numbers(value), option=orjson.OPT_SORT_KEYS)


def _message_pieces(message: JsonObject, role: str) -> Iterator[Piece]:
    if not _is_message(message):
        yield from _part_pieces(message, role)
        return
    named = text_at(message, "role")
    if named:
        role = _ROLES.get(named, USER)
    content = value_in(message, "content", "parts")
    if role == TOOL and not _holds_results(content):
        yield _result(message, content)
        return
    yield from _content_pieces(content, role)
    if text_at(message, "refusal"):
        yield TextPiece(role, message["refusal"])
    if role == ASSISTANT:
        yield from _calls_beside(message)


def _is_message(value: JsonObject) -> bool:
    """Return whether this is a message; False for an item or a part on its own."""
    if "role" in value or "parts" in value:
        return True
    return value.get("type") in (None, "message") and ("content" in value or "tool_calls" in value)


def _holds_results(content: Json) -> bool:
    """Return whether the content of a tool's message names the calls itself, part by part."""
    parts = as_objects(content)
    return any(part.get("type") in _RESULT_TYPES or _gemini_result(part) for part in parts)


def _content_pieces(content: Json, role: str) -> Iterator[Piece]:
    if not isinstance(content, list):
        content = [content]
    for part in content:
        if isinstance(part, dict):
            yield from _part_pieces(part, role)
        elif isinstance(part, str) and part:
            yield TextPiece(role, part)


def _calls_beside(message: JsonObject) -> Iterator[ToolCallPiece]:
    """Yield the calls that a message lists beside its content."""
    for call in objects_in(message, "tool_calls"):
        yield _request(call)
    if object_in(message, "function_call"):
        yield _request(message["function_call"])


def _part_pieces(part: JsonObject, role: str) -> Iterator[Piece]:
    kind = text_at(part, "type")
    if kind in _HIDDEN_TYPES or part.get("thought") is True:
        return
    if kind in _RESULT_TYPES or kind.endswith("_call_output"):
        yield _result(part, value_in(part, "content", "output", "result", "response"))
    elif kind in _CALL_TYPES:
        yield _request(part)
    elif call := object_in(part, "functionCall") or object_in(part, "function_call"):
        yield _request(call)
    elif answer := _gemini_result(part):
        yield _result(answer, answer.get("response"))
    elif kind in _TEXT_TYPES or (not kind and type(part.get("text")) is str):
        text = value_in(part, "text", "content", "refusal")
        if isinstance(text, str) and text:
            yield TextPiece(role, text)
    elif role != ASSISTANT and not kind.endswith("_call"):
        yield MediaPiece(role, _medium(part))


def _gemini_result(part: JsonObject) -> JsonObject:
    """Return the result in a part by its name in JSON, or in Python."""
    return object_in(part, "functionResponse") or object_in(part, "function_response")


def _request(call: JsonObject) -> ToolCallPiece:
    inner = object_in(call, "function") or object_in(call, "custom") or call
    arguments = value_in(inner, "arguments", "input", "args")
    if isinstance(arguments, str):
        arguments = load_arguments(arguments)
    if arguments is None:
        arguments = {}
    identity = text_in(call, "call_id", "id", "toolCallId")
    return ToolCallPiece(identity, text_in(inner, "name", "toolName"), canonical(arguments))


def _result(holder: JsonObject, content: Json) -> ToolResultPiece:
    identity = text_in(holder, "tool_call_id", "tool_use_id", "call_id", "toolCallId", "id")
    name = text_in(holder, "name", "tool_name", "toolName")
    return ToolResultPiece(identity, name, canonical(_value(content)))


def _value(content: Json) -> Json:
    """Return the value of a tool result, which APIs take as text, as parts, or in an object around it."""
    if isinstance(content, str) and content.startswith("[{"):  # OpenInference writes a list of parts as JSON
        parts = _parse_json(content)
        if _are_texts(parts):
            content = parts
    if _are_texts(content):
        content = "\n".join([str(_part_text(part)) for part in content])
    if isinstance(content, dict) and content.keys() == {"type", "value"}:  # the AI SDK
        content = content["value"]
    if isinstance(content, str):
        content = _parse_json(
            _parse_json(content)
        )  # what a tool returns as JSON text, agents may write as JSON once more
    if isinstance(content, dict) and len(content) == 1:
        (name,) = content
        if name in _WRAPPERS:
            return _value(content[name])
    return content


def _are_texts(content: Json) -> bool:
    return isinstance(content, list) and bool(content) and all(_part_text(part) is not None for part in content)


def _part_text(part: Json) -> str | None:
    if isinstance(part, dict) and part.get("type") in _TEXT_TYPES:
        part = value_in(part, "text", "content")
    if isinstance(part, str):
        return part
    return None


def _parse_json(text: Json) -> Json:
    """Decode JSON text; return text that is not JSON, and other values, unchanged."""
    if not isinstance(text, str) or not text or text[0] not in '{["-0123456789tfn':
        return text
    try:
        return orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return text


def _medium(part: JsonObject) -> bytes:
    """Return what identifies a medium in any wrapping: its bytes or its address."""
    address: Json = ""
    inner = part
    for name in ("image_url", "input_audio", "source", "inlineData", "inline_data", "fileData", "file_data", "file"):
        if has_object(part, name):
            inner = part[name]
        elif text_at(part, name):
            address = part[name]
    data = text_at(inner, "data")
    address = address or value_in(inner, "url", "fileUri", "file_uri", "uri") or ""
    if isinstance(address, str) and address.startswith("data:"):
        data = address.partition(",")[2]
    reference = _LANGFUSE_MEDIUM.match(data or as_text(address))
    if reference is not None:
        return canonical({"data": reference[1]})
    if data:
        return canonical({"data": _digest(data)})
    if address:
        return canonical({"url": address})
    return canonical(without(part, "id", "cache_control"))


def _digest(data: str) -> str:
    """Return a digest of base64 data, as Langfuse writes it in place of a medium."""
    try:
        content = base64.b64decode(data, validate=True)
    except ValueError:
        content = data.encode("utf-8", "surrogatepass")
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest())[:22].decode()
