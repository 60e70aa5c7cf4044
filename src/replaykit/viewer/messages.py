"""Conversations: the requests and answers of model calls as messages."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from replaykit.checks.conversation import offered_tools
from replaykit.model.events import LlmCall
from replaykit.model.values import ABSENT, Json, Raw, decode, is_tagged, raw, read_items, read_members
from replaykit.telemetry.messages import input_messages, instructions, output_messages
from replaykit.viewer.page_types import ConversationMessage, ConversationPart
from replaykit.wire.json_fields import as_object, as_objects, as_text

_MESSAGES = ("messages", "input", "contents", "prompt", "prompts")
_SYSTEM = ("system", "instructions", "systemInstruction", "system_instruction")
_TOOLS = ("tools", "functions")
_RECENT = 8
_SHOWN_AGAIN = 16
_MOST_MESSAGES = 2000
_KINDS = {"text": "text", "reasoning": "reasoning", "tool_call": "tool_call", "tool_call_response": "tool_result"}


class SplitRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request of a model call, taken apart."""

    messages: tuple[ConversationMessage, ...] = ()
    """The messages, without most of those that an earlier request began with as well."""
    count: int = 0
    """The number of all messages."""
    elsewhere: str = ""
    """The messages that are left out, and the event that shows them."""
    options: Raw = ABSENT
    """The members besides messages and tools."""
    tools: tuple[str, ...] = ()
    """The names of the tools on offer."""


class _SentItems(NamedTuple):
    """The messages of an earlier request, as texts."""

    seq: int
    items: list[bytes]


class RequestSplitter:
    """Takes apart the requests of a run in order, and finds what each repeats of an earlier one."""

    def __init__(self) -> None:
        self._recent: deque[_SentItems] = deque(maxlen=_RECENT)
        self._converted: dict[bytes, ConversationMessage] = {}
        self._offered: tuple[bytes, tuple[str, ...]] = (b"", ())

    def split(self, call: LlmCall) -> SplitRequest:
        """Return the parts of a call's request; without messages if it has none."""
        members = _members(call)
        items = self._items(members)
        if not items:
            return SplitRequest()
        repeated, previous = self._repeated(items)
        if previous is not None:
            self._recent.remove(previous)
        self._recent.append(_SentItems(call.seq, items))
        # A conversation that grows to a thousand messages would otherwise be written a thousand times.
        left_out = max(0, repeated - _SHOWN_AGAIN)
        old = [replace(self._message(item), is_new=False) for item in items[left_out:repeated]]
        elsewhere = ""
        if previous is not None and left_out:
            elsewhere = f"{left_out:,} more, before these: see event {previous.seq}"
        rest = {name: value for name, value in members.items() if name not in (*_MESSAGES, *_SYSTEM, *_TOOLS, "model")}
        return SplitRequest(
            messages=(*old, *map(self._message, items[repeated:])),
            count=len(items),
            elsewhere=elsewhere,
            options=raw_object(rest),
            tools=self._tools(call, members),
        )

    def _items(self, members: dict[str, Raw]) -> list[bytes]:
        """Return the texts of the messages, the instructions first and marked as such."""
        items = [b"S" + bytes(members[name]) for name in _SYSTEM if name in members]
        listed = next((bytes(members[name]) for name in _MESSAGES if name in members), b"[]")
        if listed[:1] == b"[":
            return items + [bytes(item) for item in read_items(listed)]
        return [*items, listed]

    def _repeated(self, items: list[bytes]) -> tuple[int, _SentItems | None]:
        """Return how many messages an earlier request began with as well, and that request."""
        longest, found = 0, None
        for earlier in self._recent:
            count = 0
            for one, other in zip(items, earlier.items, strict=False):
                if one != other:
                    break
                count += 1
            if count > longest:
                longest, found = count, earlier
        return longest, found

    def _message(self, item: bytes) -> ConversationMessage:
        message = self._converted.get(item)
        if message is None:
            if len(self._converted) >= _MOST_MESSAGES:
                self._converted.clear()  # a bound on memory
            message = self._converted[item] = _converted(item)
        return message

    def _tools(self, call: LlmCall, members: dict[str, Raw]) -> tuple[str, ...]:
        text = b"".join(bytes(members[name]) for name in _TOOLS if name in members)
        if text != self._offered[0]:  # requests of a run usually offer the same tools
            self._offered = text, tuple(offered_tools(call))
        return self._offered[1]


def answer_of(call: LlmCall) -> ConversationMessage:
    """Return the answer of a model call as a message."""
    (message,) = output_messages(call.result, call.finish_reason)
    parts = as_objects(as_object(message).get("parts"))
    return ConversationMessage(role="answer", parts=tuple(map(_part, parts)))


def raw_object(members: dict[str, Raw]) -> Raw:
    """Return a JSON object with these members; absent if there are none."""
    if members:
        return Raw(msgspec.json.encode(members))
    return ABSENT


def _members(call: LlmCall) -> dict[str, Raw]:
    text = bytes(call.arguments_json)
    if text[:3] == b'{"$':  # possibly a tagged value
        return {name: raw(value) for name, value in as_object(decode(text)).items() if isinstance(name, str)}
    if text[:1] == b"{":
        return read_members(text)
    return {}


def _converted(item: bytes) -> ConversationMessage:
    if item[:1] == b"S":
        parts = instructions(_value(item[1:]))
        return ConversationMessage(role="system", parts=tuple(map(_part, map(as_object, parts))))
    (message,) = input_messages([_value(item)])
    fields = as_object(message)
    parts = as_objects(fields.get("parts"))
    return ConversationMessage(role=as_text(fields.get("role")), parts=tuple(map(_part, parts)))


def _value(text: bytes) -> Json:
    return decode(text) if is_tagged(text) else msgspec.json.decode(text)


def _part(part: dict[str, Json]) -> ConversationPart:
    kind = _KINDS.get(as_text(part.get("type")), "other")
    content = part.get("content")
    if kind in ("text", "reasoning") and isinstance(content, str):
        return ConversationPart(kind=kind, text=content)
    if kind == "tool_call":
        return ConversationPart(kind=kind, name=as_text(part.get("name")), value=raw(part.get("arguments")))
    if kind == "tool_result":
        return ConversationPart(kind=kind, value=raw(part.get("response")))
    return ConversationPart(kind="other", value=raw(part))
