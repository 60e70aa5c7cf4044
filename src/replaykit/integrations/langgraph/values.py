"""The values of a graph ⇄ JSON text, for types that are known. Any other type is an error, going in and coming out.

Objects are written as `{"$obj": [name, content]}`. A name that is read is looked up among the known classes and
nowhere else.
"""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
import zoneinfo
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
import orjson
from langchain_core.messages import BaseMessage
from pydantic import BaseModel

from replaykit.errors import UsageError
from replaykit.integrations.langgraph.known_types import BUILT_IN
from replaykit.integrations.langgraph.object_codecs import ObjectCodec, array_codec, codec_named, codec_of
from replaykit.model.values import MAX_DEPTH, READERS, Json, JsonObject, freeze, is_plain

_ATOMS = frozenset({type(None), bool, int, float, str})
_PLAIN = _ATOMS | {dict, list}
_SCALARS = frozenset(
    {
        *(type(None), bool, int, float, str, bytes, bytearray, complex),
        *(dt.datetime, dt.date, dt.time, dt.timedelta, decimal.Decimal, uuid.UUID),
    }
)
_SEQUENCES: dict[type, str] = {tuple: "$tuple", set: "$set", frozenset: "$frozenset"}
_MAKE_SEQUENCE: dict[str, Callable[[Iterable[Json]], Json]] = {
    "$tuple": tuple,
    "$set": set,
    "$frozenset": frozenset,
}
_LEAVES = {tag: read for tag, read in READERS.items() if tag not in {*_MAKE_SEQUENCE, "$dict", "$obj", "$opaque"}}
_ERROR = "error"  # the name under which exceptions are kept
_MOMENT = "datetime.datetime"  # the name of moments for which the plain form is not enough: it has but an offset


class KnownTypes:
    """The classes that may be kept; how a fold of states spells its values."""

    def __init__(self, classes: Iterable[type] = ()) -> None:
        self._by_class: dict[type, ObjectCodec] = dict(BUILT_IN)
        for cls in classes:
            if cls not in self._by_class and cls not in _PLAIN | _SCALARS | _SEQUENCES.keys():
                self._by_class[cls] = codec_of(cls)
        self._by_name = {kind.name: kind for kind in self._by_class.values()}
        self._printable = _PLAIN | {cls for cls in self._by_class if issubclass(cls, BaseModel)}
        self._messages = {cls: kind.name for cls, kind in self._by_class.items() if issubclass(cls, BaseMessage)}
        self._print = msgspec.msgpack.Encoder(enc_hook=self._printed).encode_into

    def plus(self, classes: Iterable[type]) -> KnownTypes:
        """These classes and more."""
        return KnownTypes([*self._by_class, *classes])

    def text(self, value: Json) -> bytes:
        """JSON text of a value; a UsageError when it, or something in it, is of a type that is not known."""
        try:
            if is_plain(value):
                return orjson.dumps(value)
        except (TypeError, RuntimeError):
            pass  # a huge integer, a lone surrogate, a very deep value, or one that changes: the long way says it
        return orjson.dumps(self._encode(value, 0))

    def members(self, values: Mapping[str, Json]) -> bytes:
        """JSON text of an object of named values, whatever their names."""
        if len(values) != 1:
            return self.text(dict(values))
        ((name, value),) = values.items()
        return b"{" + orjson.dumps(name) + b":" + self.text(value) + b"}"

    def value(self, text: bytes) -> Json:
        """The value that `text` was made of; a UsageError for a type that is not known, else a ValueError."""
        frozen = orjson.loads(text)
        try:
            if b'"$' in text:
                return self._decode(frozen)
            return frozen
        except RecursionError:
            raise ValueError("nested too deeply") from None

    def values(self, text: bytes) -> JsonObject:
        """The same for an object of named values, whatever their names."""
        members = orjson.loads(text)
        if type(members) is not dict:
            raise ValueError("not an object")
        try:
            if b'"$' in text:
                return {name: self._decode(member) for name, member in members.items()}
            return members
        except RecursionError:
            raise ValueError("nested too deeply") from None

    def followed(self, value: list[Json]) -> bool:
        """True when the list's items have prints."""
        return self.print_into(bytearray(), value)

    def print_into(self, buffer: bytearray, items: list[Json]) -> bool:
        """The items in msgpack, each with the name of its class.

        Inside an item it does not tell a tuple or a set from a list, or a record, an enum or a date from its plain
        content.
        """
        try:
            kinds = set(map(type, items))
            if not kinds.isdisjoint(self._messages):
                items = self._unwrapped(items)
            if not self._printable.issuperset(kinds):
                items = [item if type(item) in self._printable else self._printed(item) for item in items]
            self._print(items, buffer)
        except (TypeError, OverflowError, RuntimeError, UsageError):
            return False
        return True

    def _unwrapped(self, items: list[Json]) -> list[Json]:
        """The items, messages as `_printed` has them. In place of a call for each: all of them are at each step."""
        names = self._messages
        return [
            [names[type(item)], item.__dict__]
            if type(item) in names and not item.__pydantic_extra__ and item.__pydantic_private__ is None
            else item
            for item in items
        ]

    def _printed(self, value: Any) -> Json:
        kind = self._by_class.get(type(value)) or array_codec(type(value))
        if kind is not None:
            return [kind.name, kind.take(value)]
        return self._encode(value, 0)

    def _encode(self, value: Any, depth: int) -> Json:
        if depth > MAX_DEPTH:
            raise UsageError("a value of the graph's state is nested too deeply, or holds itself")
        cls = type(value)
        if cls is list:
            return [self._encode(item, depth + 1) for item in value]
        if cls is dict:
            return self._encode_dict(value, depth)
        if cls in _SCALARS:
            if cls is not dt.datetime:
                return freeze(value)
            return _encode_moment(value)
        if cls in _SEQUENCES:
            items = [self._encode(item, depth + 2) for item in tuple(value)]
            return {_SEQUENCES[cls]: items if cls is tuple else sorted(items, key=orjson.dumps)}
        kind = self._by_class.get(cls) or array_codec(cls)
        if kind is not None:
            return {"$obj": [kind.name, self._encode(kind.take(value), depth + 2)]}
        if isinstance(value, BaseException):
            return {"$obj": [_ERROR, {"type": cls.__qualname__, "text": freeze(repr(value))}]}
        raise _unknown(cls)

    def _encode_dict(self, value: dict[Any, Any], depth: int) -> Json:
        items = list(value.items())  # at once: the program may go on adding to its own
        named = all(type(key) is str and type(freeze(key)) is str for key, _ in items)
        if named and not (len(items) == 1 and items[0][0].startswith("$")):
            return {key: self._encode(item, depth + 1) for key, item in items}
        return {"$dict": [[self._encode(key, depth + 3), self._encode(item, depth + 3)] for key, item in items]}

    def _decode(self, value: Json) -> Any:
        if type(value) is list:
            return [item if type(item) in _ATOMS else self._decode(item) for item in value]
        if type(value) is not dict:
            return value
        if len(value) != 1:
            return {key: item if type(item) in _ATOMS else self._decode(item) for key, item in value.items()}
        ((tag, content),) = value.items()
        if not tag.startswith("$"):
            return {tag: self._decode(content)}
        try:
            return self._read(tag, content)
        except (TypeError, ArithmeticError, KeyError, AttributeError) as error:
            raise ValueError(f"not a value of {tag}: {error}") from None

    def _read(self, tag: str, content: Json) -> Any:
        if tag == "$obj":
            name, fields = content
            return self._build(name, self._decode(fields))
        if tag in _MAKE_SEQUENCE:
            return _MAKE_SEQUENCE[tag](list(map(self._decode, content)))
        if tag == "$dict":
            return {self._decode(key): self._decode(item) for key, item in content}
        if tag not in _LEAVES:
            raise ValueError(f"no such form: {tag}")
        return _LEAVES[tag](content)

    def _build(self, name: str, fields: Any) -> Any:
        if name == _ERROR:
            return fields["text"]  # what LangGraph's own savers give back for an exception
        if name == _MOMENT:
            text, zone, fold = fields
            moment = dt.datetime.fromisoformat(text).replace(fold=fold)
            if zone is None:
                return moment
            return moment.replace(tzinfo=self._build("zoneinfo.ZoneInfo", zone))
        kind = self._by_name.get(name) or codec_named(name)
        if kind is None:
            raise UsageError(
                f"the thread holds a {name}, which this saver may not make",
                hint=f"If you trust the store: ReplayKitSaver(allow=[{str(name).rpartition('.')[2]}])",
            )
        return kind.make(fields)


def _encode_moment(value: dt.datetime) -> Json:
    zone = value.tzinfo.key if isinstance(value.tzinfo, zoneinfo.ZoneInfo) else None
    if zone is None and not value.fold:
        return freeze(value)
    text = (value if zone is None else value.replace(tzinfo=None)).isoformat()
    return {"$obj": [_MOMENT, [text, zone, value.fold]]}


def _unknown(cls: type) -> UsageError:
    return UsageError(
        f"a value of the graph's state is a {cls.__module__}.{cls.__qualname__}, which this saver does not know",
        hint=f"Allow it: ReplayKitSaver(allow=[{cls.__name__}])",
    )
