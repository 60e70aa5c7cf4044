"""Convert messages of all dialects to one shape: `{role, content, tool_calls, tool_call_id, name}`.

    GenAI       {role, parts: [{type: text | reasoning | tool_call | tool_call_response, …}]}
    OpenAI      {role, content, tool_calls: [{id, function: {name, arguments}}], tool_call_id}
    AI SDK      {role, content: [{type: text | tool-call | tool-result, …}]}
    LangChain   {type, data}, {lc, id, kwargs}, [role, text]

A message with the results of several tools becomes several messages. `status: error` marks a result that is an error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import accumulate
from operator import is_

import orjson

from replaykit.formats.core.json_text import load_json, read_arguments
from replaykit.formats.core.langchain_messages import message_body, message_of
from replaykit.model.values import Json, JsonObject, canonical, canonical_read
from replaykit.wire.json_fields import (
    as_object,
    as_objects,
    has_list,
    has_text,
    joined,
    joined_texts,
    load_arguments,
    object_in,
    objects_in,
    of_role,
    text_in,
    value_in,
    without,
)
from replaykit.wire.messages import TEXTS
from replaykit.wire.model_calls import ModelAnswer, ToolUse

_ERRORS = ("error-text", "error-json", "execution-denied")
_BESIDE = frozenset(("type", "name", "tool_call_id", "tool_calls"))
_TEXT, _RESULT, _CALL, _THOUGHT = range(4)
_SORTS = {
    **dict.fromkeys(TEXTS, _TEXT),
    **dict.fromkeys(("tool_call_response", "tool-result", "tool_result"), _RESULT),
    **dict.fromkeys(("tool_call", "tool-call", "tool_use"), _CALL),
    **dict.fromkeys(("reasoning", "thinking"), _THOUGHT),
}


def messages_of(value: Json, cache: ConversationCache | None = None) -> list[Json] | None:
    """Return the messages of a conversation; None if the value holds none.

    With a cache, the part that was read before is not read again. Messages are shared, so callers must not change them.
    """
    if isinstance(value, str):
        read = _read_text(value, cache)
        if read is not None:
            return read
        value = load_json(value)
    if isinstance(value, dict):
        if has_list(value, "messages"):
            value = value["messages"]
        else:
            value = [value]
    if isinstance(value, str):
        if value:
            return [{"role": "user", "content": value}]
        return None
    if not isinstance(value, list):
        return None
    if len(value) == 1 and isinstance(value[0], list) and not isinstance(message_of(value[0]), dict):
        value = value[0]  # LangChain wraps the messages in another list
    return _read_all(value)


def _read_text(text: str, cache: ConversationCache | None) -> list[Json] | None:
    """Return the messages in the JSON text of a list; None for any other text, or for a nested list."""
    if text[:1] != "[" or text[1:20].lstrip()[:1] == "[":
        return None
    size = 0 if cache is None else len(cache.text)
    try:
        if cache is not None and size and text.startswith(cache.text) and text[size : size + 1] == ",":
            found = [*cache.messages, *_read_all(orjson.loads("[" + text[size + 1 :]))]
        else:
            found = _read_all(orjson.loads(text))
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return None
    if cache is not None and len(found) > 1 and text[-1] == "]":
        cache.text, cache.messages = text[:-1], found
    return found


def _read_all(messages: list[Json]) -> list[Json]:
    found: list[Json] = []
    for message in messages:
        alone = _alone(message)
        if alone is None:
            found += _read_message(message)
        else:
            found.append(alone)
    return found


def answer_in(messages: Iterable[Json]) -> ModelAnswer | None:
    """Return the model's answer, joined from one or more messages; None if there are none."""
    spoken = of_role(messages, "assistant", "model", "ai", None)
    if not spoken:
        return None
    if len(spoken) == 1 and not isinstance(spoken[0].get("content"), list):
        return _answer(spoken[0])
    texts, calls, parts = list[str](), list[Json](), list[Json]()
    for message in spoken:
        content = message.get("content")
        texts.append(_content_text(content) or "")
        calls += message.get("tool_calls", ())
        parts += (part for part in as_objects(content) if not _is_text(part))
    return ModelAnswer(
        content=joined(texts, "\n"),
        tool_calls=tuple([ToolUse(**call) for call in calls]),
        thinking=joined_texts(spoken, "", "thinking") or None,
        refusal=joined_texts(spoken, "", "refusal") or None,
        parts=tuple(parts),
    )


def _answer(message: JsonObject) -> ModelAnswer:
    """Return the answer in a message with plain text, as nearly all have."""
    calls = message.get("tool_calls")
    return ModelAnswer(
        content=text_in(message, "content") or None,
        tool_calls=tuple([ToolUse(**call) for call in calls]) if calls else (),
        thinking=text_in(message, "thinking") or None,
        refusal=text_in(message, "refusal") or None,
    )


def only_text(messages: list[Json] | None) -> str | None:
    """Return the text of a conversation that is a single text message; None for any other."""
    if messages and len(messages) == 1 and isinstance(messages[0].get("content"), str):
        text: str = messages[0]["content"]
        return text
    return None


def text_of(messages: list[Json] | None, role: str) -> str:
    """Return the text of the last message of that role."""
    for message in reversed(of_role(messages, role)):
        return _content_text(message.get("content")) or ""
    return ""


def _alone(message: Json) -> JsonObject | None:
    """Read a message with a single part, as nearly all of GenAI have; None for any other."""
    if type(message) is not dict or not message.keys().isdisjoint(_BESIDE):
        return None
    parts = message.get("parts")
    part: Json = parts[0] if type(parts) is list and len(parts) == 1 else None
    kind = part.get("type") if type(part) is dict else None
    sort = _SORTS.get(kind) if type(kind) is str else None
    if sort is _RESULT:
        return _result(part)
    role = message.get("role")
    if type(role) is not str or not role:
        role = "user"
    if sort is _TEXT:
        return {"role": role, "content": _part_text(part) or None}
    if sort is _CALL:
        return {"role": role, "content": None, "tool_calls": [_call(part)]}
    return None


def _read_message(message: Json) -> list[JsonObject]:
    if isinstance(message, str):
        return [{"role": "user", "content": message}]
    body, plain = None, message
    if not isinstance(message, dict) or "type" in message:
        body = message_body(message)
    if body is not None or isinstance(message, list):
        plain = message_of(message)
    if not isinstance(plain, dict):
        return []
    role = text_in(plain, "role") or "user"
    for name in ("parts", "content"):
        if has_list(plain, name):
            return _of_parts(role, plain[name], plain)
    result: JsonObject = {"role": role, "content": plain.get("content")}
    for name in ("name", "tool_call_id", "thinking", "refusal"):
        if plain.get(name):
            result[name] = plain[name]
    if value_in(body, "status") == "error":
        result["status"] = "error"
    calls = list(map(_call, objects_in(plain, "tool_calls")))
    if calls:
        result["tool_calls"] = calls
    return [result]


def _of_parts(role: str, parts: list[Json], message: JsonObject) -> list[JsonObject]:
    """Return a message for each result, and one for all other parts."""
    found: list[JsonObject] = []
    calls: list[Json] = []
    rest: list[Json] = []
    texts: list[str] = []
    thoughts: list[str] = []
    for part in parts:
        sort = _SORTS.get(text_in(part, "type"))
        if sort is _RESULT:
            found.append(_result(part))
        elif sort is _CALL:
            calls.append(_call(part))
        elif sort is _THOUGHT:
            thoughts.append(_part_text(part))
        else:
            rest.append(part)
            if isinstance(part, str):
                texts.append(part)
            elif sort is _TEXT:
                texts.append(_part_text(part))
    if message.get("tool_calls"):
        calls += map(_call, as_objects(message["tool_calls"]))
    thinking = joined(thoughts)
    if found and not rest and not calls and not thinking:
        return found
    content: Json = rest
    if len(texts) == len(rest):
        content = joined(texts, "\n")
    rest_message: JsonObject = {"role": role, "content": content}
    for key in ("name", "tool_call_id"):
        if message.get(key):
            rest_message[key] = message[key]
    if calls:
        rest_message["tool_calls"] = calls
    if thinking:
        rest_message["thinking"] = thinking
    found.append(rest_message)
    return found


def _is_text(part: Json) -> bool:
    return isinstance(part, str) or (isinstance(part, dict) and part.get("type") in TEXTS)


def _part_text(part: JsonObject) -> str:
    return text_in(part, "content", "text", "thinking")


def _call(call: JsonObject) -> JsonObject:
    """Return a call that a model asks for, from any shape."""
    named = object_in(call, "function") or call
    return {
        "id": text_in(call, "id", "toolCallId", "call_id"),
        "name": text_in(named, "name", "toolName"),
        "arguments": read_arguments(value_in(named, "arguments", "input", "args")),
    }


def _result(part: JsonObject) -> JsonObject:
    """Return a tool's result as a message."""
    content = value_in(part, "response", "result", "output", "content")
    failed = part.get("is_error") is True or part.get("isError") is True or part.get("outcome") in ("failed", "retried")
    if isinstance(content, dict) and "value" in content and has_text(content, "type"):
        failed = failed or content["type"] in _ERRORS
        content = content["value"]
    message: JsonObject = {"role": "tool", "content": content}
    message["tool_call_id"] = text_in(part, "id", "toolCallId", "tool_use_id")
    name = text_in(part, "name", "toolName")
    if name:
        message["name"] = name
    if failed:
        message["status"] = "error"
    return message


def _content_text(content: Json) -> str | None:
    if isinstance(content, str):
        return content or None
    return joined((_part_text(part) for part in as_objects(content) if _is_text(part)), "\n")


class ConversationCache:
    """The last conversation that was read, as text and as messages.

    Each model call repeats the conversation before it, and the tools on offer, so both are read once only. Belongs to
    the reader that reads the spans in order; nobody may change what it returns.
    """

    __slots__ = ("_canonical", "_offered", "_offered_text", "messages", "text")

    def __init__(self) -> None:
        self.text = ""
        """The conversation without its closing bracket: a continuation starts with this text."""
        self.messages: list[Json] = []
        self._offered_text = ""
        self._offered: Json = None
        self._canonical = b""

    def offered(self, value: Json) -> Json:
        """Decode a JSON value that many spans repeat, such as the definitions of tools."""
        if not isinstance(value, str):
            return value
        if value != self._offered_text:
            self._offered_text, self._offered, self._canonical = value, load_json(value), b""
        return self._offered

    def canonical(self, value: Json) -> bytes:
        """Return the canonical text of a value; cached for the value that `offered` returned last."""
        if value is not self._offered:
            return canonical_read(value)
        self._canonical = self._canonical or canonical_read(value)
        return self._canonical


def goes_on(known: list[Json], messages: list[Json]) -> bool:
    """Return whether a conversation starts with the very messages of another, as `ConversationCache` shares them."""
    return len(known) <= len(messages) and all(map(is_, known, messages))


START = b""
"""The fingerprint of an empty conversation."""
SPEAKING = ("assistant", "model", "ai")
RETURNING = ("tool", "function")

_ROLES = {
    **dict.fromkeys(SPEAKING, "assistant"),
    **dict.fromkeys(RETURNING, "tool"),
    "developer": "system",
    "human": "user",
}
_HINTS = ("cache_control", "annotations", "citations", "logprobs")


def fingerprint(before: bytes, message: Json) -> bytes:
    """Return the fingerprint of a conversation: that of the part before, extended by a message."""
    return hashlib.blake2b(before + _gist(message), digest_size=16).digest()


def fingerprints(messages: Iterable[Json]) -> list[bytes]:
    """Return the fingerprint of the conversation up to each message."""
    return list(accumulate(messages, fingerprint, initial=START))[1:]


def _gist(message: Json) -> bytes:
    fields = as_object(message)
    role = _ROLES.get(text_in(fields, "role"), fields.get("role"))
    content = fields.get("content")
    calls = [[call.get("name"), _arguments(call.get("arguments"))] for call in objects_in(fields, "tool_calls")]
    essence = [role, _plain(load_json(content) if role == "tool" else content), calls]
    try:
        return orjson.dumps(essence, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        return canonical(essence)


def _arguments(value: Json) -> Json:
    return (load_arguments(value) if isinstance(value, str) else value) or {}


def _plain(content: Json) -> Json:
    """Return the content without whitespace; keep parts other than text, without hints such as `cache_control`."""
    if isinstance(content, str):
        return "".join(content.split()) or None
    if not isinstance(content, list):
        return content
    texts = [text for part in content if (text := _text(part)) is not None]
    others = [without(part, *_HINTS) for part in as_objects(content) if _text(part) is None]
    if others:
        return [_plain("".join(texts)), others]
    return _plain("".join(texts))


def _text(part: Json) -> str | None:
    if isinstance(part, dict):
        if part.get("type") in TEXTS:
            return text_in(part, "text")
        return None
    if isinstance(part, str):
        return part
    return None
