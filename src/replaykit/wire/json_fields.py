"""Read members of foreign JSON by name, if they have the expected type.

Functions with `_in` take any value, since a trace may hold anything anywhere; only objects have members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import orjson

from replaykit.errors import UsageError
from replaykit.model.values import Json, JsonObject


# `type(value) is dict`, not `isinstance`: decoders create no subclasses, and for values of other types it takes half
# the time (42 instead of 78 ns). Importing a trace does this some 130 times for each event.
def as_object(value: Json) -> JsonObject:
    """Return the object, or an empty one."""
    if type(value) is dict:
        return value
    return {}


def as_objects(value: Json) -> list[JsonObject]:
    """Return the objects in a list; skip all other items."""
    if type(value) is list:
        return [item for item in value if type(item) is dict]
    return []


def as_text(value: Json) -> str:
    """Return the text, or an empty one."""
    if type(value) is str:
        return value
    return ""


def has_list(value: Json, name: str) -> bool:
    """Return whether the value is an object with a list under that name."""
    return isinstance(value, dict) and isinstance(value.get(name), list)


def has_object(value: Json, name: str) -> bool:
    """Return whether the value is an object with an object under that name."""
    return isinstance(value, dict) and isinstance(value.get(name), dict)


def has_text(value: Json, name: str) -> bool:
    """Return whether the value is an object with a text under that name, even an empty one."""
    return isinstance(value, dict) and isinstance(value.get(name), str)


def text_at(holder: JsonObject, name: str) -> str:
    """Return the text under a name of an object, or an empty one; faster than `text_in` by a third."""
    return as_text(holder.get(name))


def object_in(value: Json, name: str) -> JsonObject:
    """Return the object under a name, or an empty one."""
    if type(value) is dict:
        return as_object(value.get(name))
    return {}


def objects_in(value: Json, name: str) -> list[JsonObject]:
    """Return the objects in the list under a name."""
    if type(value) is dict:
        return as_objects(value.get(name))
    return []


def of_type(parts: Json, *kinds: str) -> list[JsonObject]:
    """Return the objects in a list whose `type` is one of these."""
    return [part for part in as_objects(parts) if part.get("type") in kinds]


def not_of_type(parts: Json, *kinds: str) -> tuple[JsonObject, ...]:
    """Return the objects in a list whose `type` is none of these."""
    return tuple(part for part in as_objects(parts) if part.get("type") not in kinds)


def value_in(value: Json, *names: str) -> Json:
    """Return the first of these members that is not null, or None."""
    if type(value) is dict:
        for name in names:
            found = value.get(name)
            if found is not None:
                return found
    return None


def text_in(value: Json, *names: str) -> str:
    """Return the first of these members that is a nonempty text, or an empty one."""
    if type(value) is dict:
        for name in names:  # a plain loop: this runs for nearly every member of every trace
            found = value.get(name)
            if type(found) is str and found:
                return found
    return ""


def count_in(value: Json, *names: str) -> int | None:
    """Return the first of these members that is a count, or None."""
    for name in names:
        found = as_count(value_in(value, name))
        if found is not None:
            return found
    return None


def filled_in(value: Json, *names: str) -> Json:
    """Return the first of these members that is not empty, or None."""
    for name in names:
        found = value_in(value, name)
        if found:
            return found
    return None


def list_in(value: Json, name: str) -> list[Json]:
    """Return the list under a name, or an empty one."""
    return as_list(value_in(value, name))


def as_list(value: Json) -> list[Json]:
    """Return the list, or an empty one."""
    if type(value) is list:
        return value
    return []


def texts_in(value: Json) -> tuple[str, ...]:
    """Return the nonempty texts in a list."""
    return tuple(item for item in as_list(value) if type(item) is str and item)


def pick(value: Json, names: Iterable[str]) -> JsonObject:
    """Return the members with these names that are not null."""
    return {name: found for name in names if (found := value_in(value, name)) is not None}


def without_nulls(value: JsonObject) -> JsonObject:
    """Return the object without the members that are null."""
    return {name: item for name, item in value.items() if item is not None}


def filled(value: Mapping[str, Json]) -> JsonObject:
    """Return the object without its empty members: null, and empty texts, lists and objects."""
    return {name: item for name, item in value.items() if item not in EMPTY}


def joined_texts(parts: Json, by: str = "\n", name: str = "text") -> str:
    """Join the texts of parts; return a text unchanged."""
    if type(parts) is str:
        return parts
    return joined((text_in(part, name) for part in as_list(parts)), by) or ""


def text_or_parts(parts: Json) -> Json:
    """Join the parts of a message if all are text; else return them unchanged."""
    if isinstance(parts, list) and len(of_type(parts, "text")) == len(parts):
        return joined_texts(parts)
    return parts


EMPTY: tuple[Json, ...] = (None, "", [], {})
"""Empty values."""


def by_text(items: Iterable[JsonObject], name: str) -> dict[str, JsonObject]:
    """Index objects by a text member; of equal ones, the last wins."""
    return {text_in(item, name): item for item in items}


def of_role(messages: Iterable[Json] | None, *roles: str | None) -> list[JsonObject]:
    """Return the messages of these roles."""
    return [message for message in messages or () if type(message) is dict and message.get("role") in roles]


def as_count(value: Json) -> int | None:
    """Return a whole number that can be a count; None for any other value."""
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
    """Join the nonempty texts; return None without any."""
    return by.join(filter(None, texts)) or None


def joined_at(holders: Iterable[JsonObject], name: str, by: str = "") -> str | None:
    """Join the nonempty texts under one name of several objects; return None without any."""
    return joined([text_at(holder, name) for holder in holders], by)


def text_or_last(values: list[Json]) -> Json:
    """Return the value of a member that arrived in pieces: joined texts, or else the last value."""
    if all(type(value) is str for value in values):
        return "".join(values)
    return values[-1]


def as_index(value: Json) -> int:
    """Return the number of a part of a stream; 0 without one."""
    if type(value) is int:
        return value
    return 0


def load_object(text: bytes | str) -> JsonObject | None:
    """Return the JSON object in a text; None if it is not one."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    if type(value) is dict:
        return value
    return None


def load_arguments(text: str) -> Json:
    """Return arguments that a model wrote as JSON text; the text itself if it is not an object or list."""
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
    """Return JSON text as a server would send it."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise UsageError(f"an answer that JSON cannot say: {error}") from None


def dump_arguments(arguments: Json) -> str:
    """Return arguments as the JSON text that `load_arguments` reads."""
    if type(arguments) is str:
        return arguments
    return dump(arguments).decode()


_EXACT = 2.0**53  # up to here, every whole number has an exact float


def plain_numbers(value: Json) -> Json:
    """Write whole numbers as integers: JavaScript writes `1` where Python writes `1.0`."""
    if type(value) is dict:
        return {name: plain_numbers(item) for name, item in value.items()}
    if type(value) is list:
        return list(map(plain_numbers, value))
    if type(value) is float and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    return value
