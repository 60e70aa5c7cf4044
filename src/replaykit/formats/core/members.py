"""Members of foreign JSON by name: what is there in the expected type, and nothing otherwise.

Every function takes any value, since a trace may hold anything anywhere; what is no object has no members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import as_count, as_object, as_objects, joined


def value_in(value: Json, *names: str) -> Json:
    """Return the first of these members that is not null; None without any."""
    if type(value) is dict:
        for name in names:
            found = value.get(name)
            if found is not None:
                return found
    return None


def text_in(value: Json, *names: str) -> str:
    """Return the first of these members that is a text with something in it; empty without any."""
    if type(value) is dict:
        for name in names:  # a loop, since this runs for nearly every member of every trace
            found = value.get(name)
            if type(found) is str and found:
                return found
    return ""


def count_in(value: Json, *names: str) -> int | None:
    """Return the first of these members that counts something; None without any."""
    for name in names:
        found = as_count(value_in(value, name))
        if found is not None:
            return found
    return None


def filled_in(value: Json, *names: str) -> Json:
    """Return the first of these members that is not empty; None without any."""
    for name in names:
        found = value_in(value, name)
        if found:
            return found
    return None


def object_in(value: Json, name: str) -> JsonObject:
    """Return the member that is an object; an empty one otherwise."""
    return as_object(value_in(value, name))


def objects_in(value: Json, name: str) -> list[JsonObject]:
    """Return the objects in a member that is a list."""
    return as_objects(value_in(value, name))


def list_in(value: Json, name: str) -> list[Json]:
    """Return the member that is a list; an empty one otherwise."""
    return as_list(value_in(value, name))


def as_list(value: Json) -> list[Json]:
    """Return the list, or an empty one."""
    if type(value) is list:
        return value
    return []


def texts_in(value: Json) -> tuple[str, ...]:
    """Return the texts in a list that say something."""
    return tuple(item for item in as_list(value) if type(item) is str and item)


def pick(value: Json, names: Iterable[str]) -> JsonObject:
    """Return the members with these names that are not null."""
    return {name: found for name in names if (found := value_in(value, name)) is not None}


def known(value: JsonObject) -> JsonObject:
    """Return the object without the members that are null."""
    return {name: item for name, item in value.items() if item is not None}


def filled(value: Mapping[str, Json]) -> JsonObject:
    """Return the object without the members that say nothing: null, and empty texts, lists and objects."""
    return {name: item for name, item in value.items() if item not in EMPTY}


def of_type(parts: Json, *kinds: str) -> list[JsonObject]:
    """Return the objects in a list whose `type` is one of these."""
    return [part for part in as_objects(parts) if part.get("type") in kinds]


def joined_texts(parts: Json, by: str = "\n", name: str = "text") -> str:
    """Return the texts of parts as one; of a text, itself."""
    if type(parts) is str:
        return parts
    return joined((text_in(part, name) for part in as_list(parts)), by) or ""


def text_or_parts(parts: Json) -> Json:
    """Return the parts of a message as one text, where they are nothing else."""
    if isinstance(parts, list) and len(of_type(parts, "text")) == len(parts):
        return joined_texts(parts)
    return parts


EMPTY: tuple[Json, ...] = (None, "", [], {})
"""Values that say nothing."""


def not_of_type(parts: Json, *kinds: str) -> tuple[JsonObject, ...]:
    """Return the objects in a list whose `type` is none of these."""
    return tuple(part for part in as_objects(parts) if part.get("type") not in kinds)


def by_text(items: Iterable[JsonObject], name: str) -> dict[str, JsonObject]:
    """Return objects by one of their members, which is a text; of equal ones the last."""
    return {text_in(item, name): item for item in items}


def of_role(messages: Iterable[Json] | None, *roles: str | None) -> list[JsonObject]:
    """Return the messages of these roles."""
    return [message for message in messages or () if type(message) is dict and message.get("role") in roles]
