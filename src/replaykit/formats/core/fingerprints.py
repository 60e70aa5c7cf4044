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

from replaykit.formats.core.json_text import load_json
from replaykit.model.values import Json, canonical
from replaykit.wire.json_fields import as_object, as_objects, load_arguments, objects_in, text_in, without
from replaykit.wire.messages import TEXTS

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
_HINTS = ("cache_control", "annotations", "citations", "logprobs")


def fingerprint(before: bytes, message: Json) -> bytes:
    """The mark of the message, said after all that `before` stands for."""
    return hashlib.blake2b(before + _gist(message), digest_size=16).digest()


def fingerprints(messages: Iterable[Json]) -> list[bytes]:
    """The mark of each message."""
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
    """Return the content without whitespace; parts other than text stay, without hints such as `cache_control`."""
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
