"""Patches: change a JSON value by keys (merge) or by JSON Patch (RFC 6902), without modifying the original."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from replaykit.model.values import Json, JsonObject


class PatchError(ValueError):
    """The patch does not fit the value; the message says which part, and why."""


def merge(value: Json, changes: Mapping[str, Json]) -> Json:
    """Return the object with these keys set; dotted keys reach inside (`budget.max_retries`)."""
    if not isinstance(value, dict):
        raise PatchError(f"keys can be set in an object only, and this is a {type(value).__name__}")
    result = copy.deepcopy(value)
    for key, item in changes.items():
        *outer, last = [key] if key in result else key.split(".")
        place = result
        for name in outer:
            if not isinstance(place.get(name), dict):
                raise PatchError(f"there is no object at {name!r} to set {key!r} in")
            place = place[name]
        place[last] = copy.deepcopy(item)
    return result


def missing_keys(value: JsonObject, changes: Mapping[str, Json]) -> list[str]:
    """Return the keys of `changes` that the object does not have; dotted keys reach inside."""
    missing = []
    for key in changes:
        place: Json = value
        for name in [key] if key in value else key.split("."):
            if not isinstance(place, dict) or name not in place:
                missing.append(key)
                break
            place = place[name]
    return missing


def apply_patch(value: Json, operations: Sequence[Mapping[str, Json]]) -> Json:
    """Return the value after all operations of a JSON Patch; raises `PatchError` if one fails."""
    result = copy.deepcopy(value)
    for number, operation in enumerate(operations):
        try:
            result = _apply(result, operation)
        except PatchError as error:
            raise PatchError(f"operation {number + 1}: {error}") from None
        except (KeyError, IndexError, TypeError):
            raise PatchError(f"operation {number + 1}: there is nothing at {operation.get('path')!r}") from None
    return result


def _apply(value: Json, operation: Mapping[str, Json]) -> Json:
    if not isinstance(operation, Mapping):
        raise PatchError("not an object with `op` and `path`")
    kind, path = operation.get("op"), _pointer(operation.get("path"))
    if kind in ("add", "replace", "test") and "value" not in operation:
        raise PatchError("`value` is missing")
    if kind == "add":
        return _add(value, path, copy.deepcopy(operation["value"]))
    if kind == "remove":
        return _remove(value, path)[0]
    if kind == "replace":
        if path:
            return _add(_remove(value, path)[0], path, copy.deepcopy(operation["value"]))
        return operation["value"]
    if kind == "move":
        rest, moved = _remove(value, _pointer(operation.get("from")))
        return _add(rest, path, moved)
    if kind == "copy":
        return _add(value, path, copy.deepcopy(_get(value, _pointer(operation.get("from")))))
    if kind == "test":
        if _get(value, path) != operation["value"]:
            raise PatchError(f"{operation['path']!r} is not {operation['value']!r}")
        return value
    raise PatchError("`op` must be add, remove, replace, move, copy or test")


def _pointer(text: object) -> list[str]:
    """Split a JSON Pointer into its names."""
    if text == "":
        return []
    if not isinstance(text, str) or not text.startswith("/"):
        raise PatchError(f"{text!r} is not a JSON Pointer such as /messages/0")
    return [part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/")]


def _get(value: Json, path: list[str]) -> Any:
    for name in path:
        value = value[_key(value, name)]
    return value


def _key(place: Json, name: str) -> Any:
    if isinstance(place, list):
        if not name.isdecimal():
            raise PatchError(f"{name!r} is not the number of an item")
        return int(name)
    return name


def _add(value: Json, path: list[str], item: Json) -> Json:
    if not path:
        return item
    place = _get(value, path[:-1])
    if isinstance(place, list):
        index = len(place) if path[-1] == "-" else _key(place, path[-1])
        if index > len(place):
            raise PatchError(f"the list has {len(place)} items")
        place.insert(index, item)
    elif isinstance(place, dict):
        place[path[-1]] = item
    else:
        raise PatchError(f"a {type(place).__name__} has no members")
    return value


def _remove(value: Json, path: list[str]) -> tuple[Json, Json]:
    if not path:
        return None, value
    place = _get(value, path[:-1])
    if not isinstance(place, list | dict):
        raise PatchError(f"a {type(place).__name__} has no members")
    return value, place.pop(_key(place, path[-1]))
