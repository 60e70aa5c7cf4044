"""Fields: what a member of foreign JSON holds, when it holds what it should, and nothing otherwise."""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from replaykit.errors import UsageError
from replaykit.model.values import Json, JsonObject


def as_object(value: Json) -> JsonObject:
    """Return the object, or an empty one."""
    if type(value) is dict:
        return value
    return {}


def as_objects(value: Json) -> list[JsonObject]:
    """Return the objects in a list; whatever else is in it is passed over."""
    if type(value) is list:
        return [item for item in value if type(item) is dict]
    return []


def as_text(value: Json) -> str:
    """Return the text, or an empty one."""
    if type(value) is str:
        return value
    return ""


def text_at(holder: JsonObject, name: str) -> str:
    """Return the text under a name, or an empty one."""
    return as_text(holder.get(name))


def object_at(holder: JsonObject, name: str) -> JsonObject:
    """Return the object under a name, or an empty one."""
    return as_object(holder.get(name))


def objects_at(holder: JsonObject, name: str) -> list[JsonObject]:
    """Return the objects in the list under a name."""
    return as_objects(holder.get(name))


def first_text(holder: JsonObject, *names: str) -> str:
    """Return the first text under these names that says something, or an empty one."""
    for name in names:
        if text := as_text(holder.get(name)):
            return text
    return ""


def as_count(value: Json) -> int | None:
    """Return a whole number that counts something; None for any other value."""
    if type(value) is int and 0 <= value < 2**53:
        return value
    return None


def without(value: JsonObject, *names: str) -> JsonObject:
    """Return the object without these members."""
    return {name: item for name, item in value.items() if name not in names}


def nth(items: list[JsonObject], index: int) -> JsonObject:
    """Return the object at that index, or an empty one."""
    if index < len(items):
        return items[index]
    return {}


def joined(texts: Iterable[str], by: str = "") -> str | None:
    """Return the texts that say something, as one; None when none does."""
    return by.join(filter(None, texts)) or None


def joined_at(holders: Iterable[JsonObject], name: str, by: str = "") -> str | None:
    """Return the texts under one name of several objects that say something, as one; None when none does."""
    return joined([text_at(holder, name) for holder in holders], by)


def of_type(items: Iterable[JsonObject], *types: str) -> list[JsonObject]:
    """Return the objects whose `type` is one of these."""
    return [item for item in items if item.get("type") in types]


def not_of_type(items: Iterable[JsonObject], *types: str) -> list[JsonObject]:
    """Return the objects whose `type` is none of these."""
    return [item for item in items if item.get("type") not in types]


def present(members: Iterable[tuple[str, Json]]) -> JsonObject:
    """Return the members that are not null."""
    return {name: value for name, value in members if value is not None}


def text_or_last(values: list[Json]) -> Json:
    """Return what a member came to that came in pieces: texts are one text, of other values the last counts."""
    if all(type(value) is str for value in values):
        return "".join(values)
    return values[-1]


def as_index(value: Json) -> int:
    """Return the number of a part of a stream; 0 where it has none."""
    if type(value) is int:
        return value
    return 0


def load_object(text: bytes | str) -> JsonObject | None:
    """Return the JSON object that the text spells; None when it spells none."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if type(value) is dict:
        return value
    return None


def load_arguments(text: str) -> Json:
    """Return the arguments a model wrote as JSON text; the text itself where it is no object or list."""
    if not text.strip():
        return {}
    try:
        value = orjson.loads(text)
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return text
    if type(value) in (dict, list):
        return value
    return text


def dump(value: Json) -> bytes:
    """Return JSON text, as a server would send it."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise UsageError(f"an answer that JSON cannot say: {error}") from None


def dump_arguments(arguments: Json) -> str:
    """Return arguments as the JSON text that `load_arguments` reads."""
    if type(arguments) is str:
        return arguments
    return dump(arguments).decode()


_EXACT = 2.0**53
"""Up to here every whole number has a float of its own."""


def plain_numbers(value: Json) -> Json:
    """Return the value with every whole number written as one: JavaScript says `1` where Python says `1.0`."""
    if type(value) is dict:
        return {name: plain_numbers(item) for name, item in value.items()}
    if type(value) is list:
        return list(map(plain_numbers, value))
    if type(value) is float and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    return value
