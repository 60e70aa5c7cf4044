"""Compare: when two JSON values are the same, and when one holds another."""

from __future__ import annotations

from replaykit.model.values import Json, canonical


def same(one: Json, other: Json) -> bool:
    """Equality as JSON means it: 1 is 1.0, but true is not 1; a tuple is a list."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    return bool(one == other)


def key_of(value: Json) -> bytes:
    """Equal bytes for values that are the `same`, and only for those."""
    return canonical(_plain(value))


def _plain(value: Json) -> Json:
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return {key: _plain(item) for key, item in value.items()} if isinstance(value, dict) else value


def within(part: Json, whole: Json) -> bool:
    """True when `whole` has everything `part` names: objects may have more keys, all else must be the same."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and within(value, whole[key]) for key, value in part.items())
    if isinstance(part, list | tuple) and isinstance(whole, list | tuple):
        return len(part) == len(whole) and all(map(within, part, whole))
    return same(part, whole)
