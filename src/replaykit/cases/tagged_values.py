"""Values in files for people: as JSON has them, or in tagged forms where JSON has no words for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import orjson

from replaykit.model.values import READERS, Json, JsonObject, Raw, dumps, freeze, thaw

Say: TypeAlias = Callable[[Raw], Json]
"""Writes a value down."""
TAGGED = "tagged"
"""The key of a session whose values are written in tagged forms."""


class _NotPlain(Exception):
    """JSON has no words for a value."""


def build_tagged(build: Callable[[Say], JsonObject]) -> JsonObject:
    """Return what is built with plain JSON values; with tagged ones, and a key that says so, where JSON has none."""
    try:
        return build(_plain)
    except _NotPlain:
        return {**build(lambda value: orjson.loads(bytes(value))), TAGGED: True}


def as_it_stands(value: Json, *, sort_keys: bool = False) -> Raw:
    """Return what a file says, tagged forms included; only numbers that JSON lacks are put into one."""
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
    """The value that comes back the same from a file without tags; `_NotPlain` where there is none."""
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
        return value  # no tag after all
    if tag == "$int":
        return stands_for
    if tag == "$dict" and all(type(key) is str for key, _ in content):
        return {key: _untagged(item) for key, item in content}
    raise _NotPlain
