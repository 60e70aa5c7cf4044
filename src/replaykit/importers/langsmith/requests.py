"""What models were asked, as the arguments of their calls. What calls repeat word for word is read once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import msgspec
import orjson
from msgspec import Raw, Struct

from replaykit.importers.langsmith.collecting import RunFields
from replaykit.importers.langsmith.messages import conversation, message_of
from replaykit.model.values import ABSENT, Json
from replaykit.wire.fields import as_object

T = TypeVar("T")

_TOLD_APART = frozenset(("model", "model_name", "tools", "_type", "stream", "streaming"))
_REPEATED = ("messages", "tools")
_RECENT = 4
_RECENT_BYTES = 1024 * 1024

_members = msgspec.json.Decoder(dict[str, Raw]).decode


class Setting(Struct, frozen=True):
    """What a model was set to, beside what it was asked."""

    values: dict[str, Json]
    tools_json: Raw
    """The tools on offer, as canonical text; absent where there are none."""


class Requests:
    """Reads requests, one run after another."""

    def __init__(self) -> None:
        self._settings: _Recent[Setting] = _Recent()
        self._tools: _Recent[Raw] = _Recent()
        self._messages = _Conversation()

    def setting(self, fields: RunFields) -> Setting:
        """What the model was set to."""
        given = fields.object("extra").get("invocation_params")
        if type(given) is not Raw:
            return _setting(given, fields)
        return self._settings.get(given, lambda text: _setting(fields.loaded(text, "extra"), fields))

    def inputs(self, fields: RunFields) -> Json:
        """What it was given; messages and tools may be text still."""
        given = fields.value.get("inputs")
        if type(given) is not Raw:
            return given
        try:
            members = _members(given)
        except msgspec.ValidationError:
            return fields.loaded(given, "inputs")
        return {name: raw if name in _REPEATED else fields.loaded(raw, "inputs") for name, raw in members.items()}

    def text(self, fields: RunFields, inputs: Json, setting: Setting) -> Raw:
        """What was asked: the inputs, and of the setting what they do not say."""
        if not isinstance(inputs, dict):
            return fields.canonical({} if inputs is None else {"messages": conversation(inputs)}, "inputs")
        texts = {name: self._of(name, item, fields) for name, item in inputs.items() if name not in ("model", "stream")}
        if setting.tools_json:
            texts.setdefault("tools", setting.tools_json)
        told = _TOLD_APART.union(inputs)
        rest = {name: item for name, item in setting.values.items() if name not in told and item is not None}
        if rest:
            texts.setdefault("parameters", fields.canonical(rest, "inputs"))
        names = sorted(texts)
        if len(names) == 1 and names[0][:1] == "$":  # would look like a value of our own
            return fields.canonical({names[0]: inputs[names[0]]}, "inputs")
        parts = [part for name in names for part in (b",", orjson.dumps(name), b":", texts[name])]
        return Raw(b"".join((b"{", *parts[1:], b"}")))

    def _of(self, name: str, item: Json, fields: RunFields) -> Raw:
        if type(item) is not Raw:
            return fields.canonical(conversation(item) if name == "messages" else item, "inputs")
        if name == "messages":
            return self._messages.text(item, fields)
        return self._tools.get(item, lambda text: fields.canonical(fields.loaded(text, "inputs"), "inputs"))


def _setting(given: Json, fields: RunFields) -> Setting:
    values = as_object(given)
    tools = values.get("tools")
    return Setting(values=values, tools_json=fields.canonical(tools, "extra") if tools else ABSENT)


class _Recent(Generic[T]):
    """What was made of the last few texts."""

    def __init__(self) -> None:
        self._made: list[tuple[Raw, T]] = []

    def get(self, text: Raw, make: Callable[[Raw], T]) -> T:
        for known, made in self._made:
            if known == text:
                return made
        found = make(text)
        if len(text) <= _RECENT_BYTES:
            self._made = [(text.copy(), found), *self._made[: _RECENT - 1]]
        return found


class _Conversation:
    """The messages of one request after another. Of a conversation that goes on, only what was added is read."""

    def __init__(self) -> None:
        self._begun = b""
        """The last one without its closing brackets: whatever goes on begins with it."""
        self._depth = 0
        """How many these are: LangChain wraps the list in one of its own."""
        self._told = b""
        """Its messages as canonical text."""

    def text(self, given: Raw, fields: RunFields) -> Raw:
        """The messages as canonical text."""
        text = bytes(given)
        more = self._more(text, fields)
        if more is not None:
            added = bytes(fields.canonical([message_of(one) for one in more], "inputs"))
            told = b"%b,%b" % (self._told[:-1], added[1:])
            self._keep(text, self._depth, told)
            return Raw(told)
        messages = fields.loaded(given, "inputs")
        found = fields.canonical(conversation(messages), "inputs")
        if text.startswith((b"[{", b"[[{")):
            depth = 1 if text[1:2] == b"{" else 2 if len(messages) == 1 else 0
            self._keep(text, depth, bytes(found))
        return found

    def _more(self, text: bytes, fields: RunFields) -> list[Json] | None:
        """What was added to the last one; None where this is another."""
        size = len(self._begun)
        if not size or not text.startswith(self._begun) or text[size : size + 1] != b",":
            return None
        added: list[Json] = fields.loaded(Raw(b"[" * self._depth + text[size + 1 :]), "inputs")
        if self._depth == 1:
            return added
        inner: list[Json] | None = added[0] if len(added) == 1 else None
        return inner

    def _keep(self, text: bytes, depth: int, told: bytes) -> None:
        if depth and text.endswith(b"]" * depth):
            self._begun, self._depth, self._told = text[:-depth], depth, told
