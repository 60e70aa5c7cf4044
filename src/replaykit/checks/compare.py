"""Compare JSON values and arguments: equality and containment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from enum import StrEnum

from replaykit.model.jsonpath import JsonPath, remove_paths
from replaykit.model.shared_parts import ListSplitter
from replaykit.model.values import Json, JsonObject, Raw, canonical, decode, is_tagged, read_members


def same(value: Json, other: Json) -> bool:
    """Return whether two values are equal in JSON: 1 is 1.0, but true is not 1; a tuple is a list."""
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    if isinstance(value, list | tuple) and isinstance(other, list | tuple):
        return len(value) == len(other) and all(map(same, value, other))
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(same(item, other[key]) for key, item in value.items())
    return bool(value == other)


def key_of(value: Json) -> bytes:
    """Return bytes that are equal for values that are the `same`, and only for those."""
    return canonical(_plain(value))


def _plain(value: Json) -> Json:
    if isinstance(value, float):
        if value.is_integer():
            return int(value)
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


class ArgumentKeys:
    """Keys of call arguments: equal for arguments that are the `same`, and only for those.

    Model calls repeat the conversation, so each distinct list item is processed only once.
    """

    def __init__(self) -> None:
        self._splitters: defaultdict[str, ListSplitter] = defaultdict(ListSplitter)
        self._items: dict[bytes, bytes] = {}
        # The keys of the last list's items, by member name.
        self._last: defaultdict[str, tuple[bytes, ...]] = defaultdict(tuple)

    def key_of(self, arguments: Raw) -> Hashable:
        """Return the key of a call's arguments."""
        text = bytes(arguments)
        if text[:1] != b"{" or is_tagged(text):
            return _object_key(decode(text))
        members = read_members(text)
        return tuple((name, self._member_key(name, bytes(members[name]))) for name in sorted(members))

    def _member_key(self, name: str, text: bytes) -> Hashable:
        if text[:1] != b"[":
            return key_of(decode(text))
        splitter = self._splitters[name]
        items = splitter.items(text)
        shared = splitter.shared
        keys = self._last[name] = (*self._last[name][:shared], *map(self._item_key, items[shared:]))
        return keys

    def _item_key(self, text: bytes) -> bytes:
        key = self._items.get(text)
        if key is None:
            key = self._items[text] = key_of(decode(text))
        return key


def _object_key(value: Json) -> Hashable:
    """Return the key that `ArgumentKeys` derives from the value's text."""
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        return key_of(value)
    return tuple((name, _list_key(value[name])) for name in sorted(value))


def _list_key(value: Json) -> Hashable:
    if isinstance(value, list | tuple):
        return tuple(map(key_of, value))
    return key_of(value)


def within(part: Json, whole: Json) -> bool:
    """Return whether `whole` has everything in `part`: objects may have more keys, everything else must be the same."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and within(value, whole[key]) for key, value in part.items())
    if isinstance(part, list | tuple) and isinstance(whole, list | tuple):
        return len(part) == len(whole) and all(map(within, part, whole))
    return same(part, whole)


class ArgsMode(StrEnum):
    """How a call's arguments must relate to the named ones."""

    EXACT = "exact"  # equal
    SUBSET = "subset"  # a subset of the named ones, with the same values
    SUPERSET = "superset"  # all named ones, possibly more
    IGNORE = "ignore"  # any


def args_agree(
    actual: Json,
    named: Json,
    mode: ArgsMode,
    *,
    defaults: JsonObject | None = None,
    ignore: Sequence[JsonPath] = (),
) -> bool:
    """Return whether a call's arguments agree with the named ones in this mode.

    `defaults` are the tool's values for omitted arguments, on both sides; paths in `ignore` do not count.
    """
    if mode is ArgsMode.IGNORE:
        return True
    actual = remove_paths(_filled(actual, defaults), ignore)
    named = remove_paths(_filled(named, defaults), ignore)
    if mode is ArgsMode.EXACT:
        return same(actual, named)
    if mode is ArgsMode.SUBSET:
        return within(actual, named)
    return within(named, actual)


def _filled(value: Json, defaults: JsonObject | None) -> Json:
    if defaults and isinstance(value, dict):
        return {**defaults, **value}
    return value
