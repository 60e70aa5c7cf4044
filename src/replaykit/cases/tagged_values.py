"""Values in files for people: as plain JSON, or in tagged forms if JSON cannot express them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import orjson

from replaykit.model.values import READERS, Json, JsonObject, Raw, dumps, freeze, thaw

Say: TypeAlias = Callable[[Raw], Json]
"""Writes a value."""
TAGGED = "tagged"
"""The key of a session whose values are in tagged forms."""


class _NotPlain(Exception):
    """JSON cannot express the value."""


def build_tagged(build: Callable[[Say], JsonObject]) -> JsonObject:
    """Build an object with plain JSON values or, if that is impossible, with tagged ones and a key that says so."""
    try:
        return build(_plain)
    except _NotPlain:
        return {**build(lambda value: orjson.loads(bytes(value))), TAGGED: True}


def as_it_stands(value: Json, *, sort_keys: bool = False) -> Raw:
    """Return a value exactly as written, tagged forms included; only numbers beyond JSON are tagged."""
    return Raw(dumps(_sayable(value), option=orjson.OPT_SORT_KEYS if sort_keys else 0))


def _sayable(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _sayable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_sayable(item) for item in value]
    if isinstance(value, str):
        return value
    return freeze(value)


def _plain(value: Raw) -> Json:
    return _untagged(orjson.loads(bytes(value)))


def _untagged(value: Json) -> Json:
    """Return a value that a file without tags gives back unchanged; raise `_NotPlain` if there is none."""
    if isinstance(value, list):
        return [_untagged(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and next(iter(value)) in READERS:
        return _of_tag(value)
    return {key: _untagged(item) for key, item in value.items()}


def _of_tag(value: JsonObject) -> Json:
    ((tag, content),) = value.items()
    stands_for = thaw(value)
    if stands_for is value:
        return value  # an object that only looks like a tag
    if tag == "$int":
        return stands_for
    if tag == "$dict" and all(type(key) is str for key, _ in content):
        return {key: _untagged(item) for key, item in content}
    raise _NotPlain
