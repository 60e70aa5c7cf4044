"""Read Inspect's messages, and restore the parts that a sample stores separately.

Long texts and images are `attachments`, which events refer to as `attachment://HASH` (formerly `tc://HASH`). The
messages of model requests are in a pool (`events_data.messages`, `message_pool`), of which an event holds ranges
(`input_refs`).
"""

from __future__ import annotations

import re

from replaykit.formats.core.json_text import read_arguments
from replaykit.formats.core.messages import answer_in
from replaykit.model.events import ErrorInfo, Usage
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import (
    as_count,
    as_objects,
    count_in,
    joined_texts,
    object_in,
    objects_in,
    of_type,
    text_in,
    value_in,
)
from replaykit.wire.model_calls import ModelAnswer, usage_of

_REF = re.compile(r"(?:attachment|tc)://([0-9a-f]{8,64})")
_MAX_DEPTH = 100
REMOVED = b"<base64-data-removed>"
"""The placeholder for an image in a log without images."""
MAX_REFERRED = 10_000_000
"""The most messages that the events of one sample may refer to."""
ERRORS = {
    "timeout": "TimeoutError",
    "permission": "PermissionError",
    "file_not_found": "FileNotFoundError",
    "is_a_directory": "IsADirectoryError",
    "unicode_decode": "UnicodeDecodeError",
    "parsing": "ToolParsingError",
    "limit": "LimitExceededError",
    "output_limit": "OutputLimitExceededError",
    "approval": "ToolApprovalError",
}
"""Exceptions for the error types in tool results."""


class SampleAttachments:
    """The values that a sample stores apart from its messages."""

    def __init__(self, sample: JsonObject, *, lacks_images: bool = False) -> None:
        self.lacks_images = lacks_images
        self._attachments = object_in(sample, "attachments")
        pool = object_in(sample, "events_data").get("messages") or sample.get("message_pool")
        self._pool = list(map(self.read_message, as_objects(pool)))
        self._left = MAX_REFERRED

    def whole(self, value: Json, depth: int = 0) -> Json:
        """Return the value with its attachments resolved."""
        if isinstance(value, str):
            return self._text(value)
        if depth > _MAX_DEPTH:
            return value
        if isinstance(value, list):
            return [self.whole(item, depth + 1) for item in value]
        if isinstance(value, dict):
            return {key: self.whole(item, depth + 1) for key, item in value.items()}
        return value

    def request_messages(self, event: JsonObject) -> list[Json]:
        """Return the messages of a model request."""
        found = list(map(self.read_message, objects_in(event, "input")))
        refs = event.get("input_refs")
        for ref in refs if isinstance(refs, list) else ():
            if isinstance(ref, list) and len(ref) == 2 and all(as_count(at) is not None for at in ref):
                referred = self._pool[ref[0] : ref[1]][: self._left]
                self._left -= len(referred)
                found += referred
        return found

    def read_message(self, message: JsonObject) -> JsonObject:
        """Return a message in the shape of `core.messages`."""
        role, parts = text_in(message, "role") or "user", self.whole(message.get("content"))
        found: JsonObject = {"role": role, "content": plain(parts)}
        if isinstance(parts, list):
            thinking = joined_texts(parts, "\n", "reasoning") or None
            found |= {"thinking": thinking} if thinking else {}
        calls = list(map(_call, as_objects(self.whole(message.get("tool_calls")))))
        found |= {"tool_calls": calls} if calls else {}
        if role != "tool":
            return found
        found |= {"tool_call_id": text_in(message, "tool_call_id"), "name": text_in(message, "function")}
        error = error_in(message)
        if error is not None:
            found |= {"status": "error", "content": found["content"] or error.message}
        return found

    def answer(self, output: JsonObject) -> ModelAnswer | None:
        """Return a model's answer, if there is one."""
        for choice in objects_in(output, "choices")[:1]:
            message = object_in(choice, "message")
            if message:
                return answer_in([self.read_message(message)])
        return None

    def _text(self, text: str) -> str:
        ref = _REF.fullmatch(text)
        if ref is None:
            return text
        return text_in(self._attachments, ref[1]) or text


def plain(parts: Json) -> Json:
    """Return the text if all parts are text or reasoning, else the parts without reasoning."""
    if not isinstance(parts, list):
        return parts
    rest = [part for part in parts if value_in(part, "type") != "reasoning"]
    if len(of_type(rest, "text")) == len(rest):
        return joined_texts(rest)
    return rest


def error_in(value: JsonObject) -> ErrorInfo | None:
    """Return the error of a tool's result."""
    error = object_in(value, "error")
    if not error:
        return None
    kind = text_in(error, "type")
    return ErrorInfo(type=ERRORS.get(kind, "ToolError"), message=text_in(error, "message"))


def usage_in(value: Json) -> Usage | None:
    """Return the tokens. Whether input includes cached tokens depends on the version: the total tells."""
    input_tokens, output = count_in(value, "input_tokens"), count_in(value, "output_tokens")
    cached = sum(count_in(value, f"input_tokens_cache_{name}") or 0 for name in ("read", "write"))
    total = count_in(value, "total_tokens")
    if input_tokens is not None and (total is None or total >= input_tokens + cached + (output or 0)):
        input_tokens += cached
    rated = {"in": input_tokens, "out": output, "cost": value_in(value, "total_cost")}
    return usage_of(rated, inputs=("in",), outputs=("out",))


def _call(call: JsonObject) -> JsonObject:
    arguments = read_arguments(call.get("arguments"))
    return {"id": text_in(call, "id"), "name": text_in(call, "function"), "arguments": arguments}
