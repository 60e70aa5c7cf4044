"""Read the requests of model calls. Parts that repeat verbatim are read once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec
import orjson
from msgspec import Raw, Struct

from replaykit.formats.core.langchain_messages import conversation, message_of
from replaykit.formats.langsmith.run_tree import RunFields
from replaykit.model.values import ABSENT, Json, JsonObject, read_members
from replaykit.wire.json_fields import as_object

T = TypeVar("T")

_READ_ELSEWHERE = frozenset(("model", "model_name", "tools", "_type", "stream", "streaming"))
_REPEATED = ("messages", "tools")
_RECENT = 4
_RECENT_BYTES = 1024 * 1024


class Setting(Struct, frozen=True):
    """The settings of a model, beside its inputs."""

    values: JsonObject
    tools_json: Raw
    """The tools on offer as canonical text; absent if there are none."""


class Requests:
    """Reads the requests of runs in order."""

    def __init__(self) -> None:
        self._settings: _Recent[Setting] = _Recent()
        self._tools: _Recent[Raw] = _Recent()
        self._messages = _Conversation()

    def setting(self, fields: RunFields) -> Setting:
        parameters = fields.object("extra").get("invocation_params")
        if type(parameters) is not Raw:
            return _setting(parameters, fields)
        return self._settings.get(parameters, lambda text: _setting(fields.loaded(text, "extra"), fields))

    def inputs(self, fields: RunFields) -> Json:
        """Return the inputs; messages and tools may still be JSON text."""
        inputs = fields.value.get("inputs")
        if type(inputs) is not Raw:
            return inputs
        try:
            members = read_members(inputs)
        except msgspec.ValidationError:
            return fields.loaded(inputs, "inputs")
        return {name: raw if name in _REPEATED else fields.loaded(raw, "inputs") for name, raw in members.items()}

    def text(self, fields: RunFields, inputs: Json, setting: Setting) -> Raw:
        """Return the arguments of a model call: the inputs, and settings that the inputs lack."""
        if not isinstance(inputs, dict):
            return fields.canonical({} if inputs is None else {"messages": conversation(inputs)}, "inputs")
        texts = {name: self._of(name, item, fields) for name, item in inputs.items() if name not in ("model", "stream")}
        if setting.tools_json:
            texts.setdefault("tools", setting.tools_json)
        known = _READ_ELSEWHERE.union(inputs)
        rest = {name: item for name, item in setting.values.items() if name not in known and item is not None}
        if rest:
            texts.setdefault("parameters", fields.canonical(rest, "inputs"))
        names = sorted(texts)
        if len(names) == 1 and names[0][:1] == "$":  # would look like one of our tagged values
            return fields.canonical({names[0]: inputs[names[0]]}, "inputs")
        parts = [part for name in names for part in (b",", orjson.dumps(name), b":", texts[name])]
        return Raw(b"".join((b"{", *parts[1:], b"}")))

    def _of(self, name: str, item: Json, fields: RunFields) -> Raw:
        if type(item) is not Raw:
            return fields.canonical(conversation(item) if name == "messages" else item, "inputs")
        if name == "messages":
            return self._messages.text(item, fields)
        return self._tools.get(item, lambda text: fields.canonical(fields.loaded(text, "inputs"), "inputs"))


def _setting(parameters: Json, fields: RunFields) -> Setting:
    values = as_object(parameters)
    tools = values.get("tools")
    return Setting(values=values, tools_json=fields.canonical(tools, "extra") if tools else ABSENT)


class _Recent(Generic[T]):
    """A cache of the values made from the last few texts."""

    def __init__(self) -> None:
        self._entries: list[tuple[Raw, T]] = []

    def get(self, text: Raw, make: Callable[[Raw], T]) -> T:
        for known, value in self._entries:
            if known == text:
                return value
        found = make(text)
        if len(text) <= _RECENT_BYTES:
            self._entries = [(text.copy(), found), *self._entries[: _RECENT - 1]]
        return found


class _Conversation:
    """Reads the messages of consecutive requests. If a conversation continues, only the new messages are read."""

    def __init__(self) -> None:
        self._begun = b""  # the last conversation without its closing brackets: a continuation starts with it
        self._depth = 0  # the number of closing brackets: LangChain wraps the list in another one
        self._messages_json = b""  # the last conversation as canonical text

    def text(self, messages_text: Raw, fields: RunFields) -> Raw:
        """Return the messages as canonical text."""
        text = bytes(messages_text)
        more = self._more(text, fields)
        if more is not None:
            added = bytes(fields.canonical(list(map(message_of, more)), "inputs"))
            messages_json = b"%b,%b" % (self._messages_json[:-1], added[1:])
            self._keep(text, self._depth, messages_json)
            return Raw(messages_json)
        messages = fields.loaded(messages_text, "inputs")
        found = fields.canonical(conversation(messages), "inputs")
        if text.startswith((b"[{", b"[[{")):
            if text[1:2] == b"{":
                depth = 1
            elif len(messages) == 1:
                depth = 2
            else:
                depth = 0
            self._keep(text, depth, bytes(found))
        return found

    def _more(self, text: bytes, fields: RunFields) -> list[Json] | None:
        """Return the messages added to the last conversation; None for another conversation."""
        size = len(self._begun)
        if not size or not text.startswith(self._begun) or text[size : size + 1] != b",":
            return None
        added: list[Json] = fields.loaded(Raw(b"[" * self._depth + text[size + 1 :]), "inputs")
        if self._depth == 1:
            return added
        inner: list[Json] | None = added[0] if len(added) == 1 else None
        return inner

    def _keep(self, text: bytes, depth: int, messages_json: bytes) -> None:
        if depth and text.endswith(b"]" * depth):
            self._begun, self._depth, self._messages_json = text[:-depth], depth, messages_json
