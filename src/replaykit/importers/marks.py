"""Marks: how a conversation is known again when it is repeated.

A request repeats all that was said before it, and never quite as it was said: ids and signatures go, a text becomes a
list with one text, an empty text becomes null, blanks at the end are taken off, arguments are text or an object.
A mark stands for a message and everything before it, without any of that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import accumulate

import orjson

from replaykit.importers.otel.meaning import loaded
from replaykit.model.values import Json, canonical
from replaykit.wire.fields import as_object, as_objects, as_text, load_arguments, without

START = b""
"""The mark of a conversation in which nothing was said."""
SPEAKING = ("assistant", "model", "ai")
RETURNING = ("tool", "function")

_ROLES = {
    **dict.fromkeys(SPEAKING, "assistant"),
    **dict.fromkeys(RETURNING, "tool"),
    "developer": "system",
    "human": "user",
}
_TEXTS = ("text", "input_text", "output_text")
_HINTS = ("cache_control", "annotations", "citations", "logprobs")


def mark(before: bytes, message: Json) -> bytes:
    """The mark of the message, said after all that `before` stands for."""
    return hashlib.blake2b(before + _gist(message), digest_size=16).digest()


def marks(messages: Iterable[Json]) -> list[bytes]:
    """The mark of each message."""
    return list(accumulate(messages, mark, initial=START))[1:]


def _gist(message: Json) -> bytes:
    said = as_object(message)
    role = _ROLES.get(as_text(said.get("role")), said.get("role"))
    content = said.get("content")
    calls = [[call.get("name"), _arguments(call.get("arguments"))] for call in as_objects(said.get("tool_calls"))]
    told = [role, _plain(loaded(content) if role == "tool" else content), calls]
    try:
        return orjson.dumps(told, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        return canonical(told)


def _arguments(value: Json) -> Json:
    return (load_arguments(value) if isinstance(value, str) else value) or {}


def _plain(content: Json) -> Json:
    """What is said, without blanks; parts that are no text stay, apart from what is no part of them."""
    if isinstance(content, str):
        return "".join(content.split()) or None
    if not isinstance(content, list):
        return content
    texts = [text for part in content if (text := _text(part)) is not None]
    others = [without(part, *_HINTS) for part in as_objects(content) if _text(part) is None]
    return [_plain("".join(texts)), others] if others else _plain("".join(texts))


def _text(part: Json) -> str | None:
    if isinstance(part, dict):
        return as_text(part.get("text")) if part.get("type") in _TEXTS else None
    return part if isinstance(part, str) else None
