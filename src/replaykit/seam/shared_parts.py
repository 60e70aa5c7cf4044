"""Results that hold one list or dictionary in several places, such as `[row] * 3`.

JSON writes the object out in each place. An agent that changes it in one place sees the change in all of them, so the
recording says which places are one object, and a replay joins them again:

    {"$obj": ["shared", content, "replaykit", [[[0], [1]], [[0], [2]]]]}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from replaykit.model.values import Json

NAME, MODULE = "shared", "replaykit"
"""The class and the module that stand for such a result; neither exists, so no other object is written like that."""
Path: TypeAlias = tuple[str | int, ...]
_MUTABLE = (list, dict)
_CONTAINERS = frozenset({list, dict, tuple})
_MOST_EXACT = 2**53


def has_shared_parts(value: Any) -> bool:
    """Return whether a list or a dictionary is in more than one place of a value."""
    if type(value) not in _CONTAINERS:
        return False
    seen = {id(value)}
    pending = [value]
    while pending:
        container = pending.pop()
        for item in container.values() if type(container) is dict else container:
            if type(item) not in _CONTAINERS:
                continue
            if id(item) not in seen:
                seen.add(id(item))
                pending.append(item)
            elif type(item) in _MUTABLE:
                return True
    return False


def shared_form(content: Json, value: Any) -> Json:
    """Return the form of a result with shared parts; `content` is the result as it would be written without them."""
    places: list[Json] = []
    first_places: dict[int, Path] = {}
    for path, item in _mutable_parts(value):
        first = first_places.setdefault(id(item), path)
        is_inside_itself = path[: len(first)] == first
        if not is_inside_itself:
            places.append([list(first), list(path)])
    if not places:
        return content
    return {"$obj": [NAME, content, MODULE, places]}


def _mutable_parts(value: Any) -> Iterator[tuple[Path, Any]]:
    """Yield each list and dictionary inside a value with its path; the parts of a shared one only once."""
    seen = {id(value)}
    pending: list[tuple[Path, Any]] = [((), value)]
    while pending:
        path, container = pending.pop()
        for step, item in container.items() if type(container) is dict else enumerate(container):
            if type(item) not in _CONTAINERS or not _is_step(step):
                continue
            place = (*path, step)
            if type(item) in _MUTABLE:
                yield place, item
            if id(item) not in seen:
                seen.add(id(item))
                pending.append((place, item))


def _is_step(key: object) -> bool:
    """Return whether JSON has this key as it is."""
    if type(key) is int:
        return abs(key) < _MOST_EXACT
    return type(key) is str and key == key.encode("utf-8", "replace").decode()


def joined(value: Any, places: Json) -> Any:
    """Return a rebuilt result with its shared parts joined; an error if it has no such places."""
    if type(places) is not list:
        raise TypeError(places)
    for first, again in places:
        part, holder = _at(value, first), _at(value, again[:-1])
        is_inside_itself = again[: len(first)] == first
        if is_inside_itself or type(holder) not in _MUTABLE or holder[again[-1]] != part:
            raise ValueError(again)
        holder[again[-1]] = part
    return value


def _at(value: Any, path: Iterable[Any]) -> Any:
    for step in path:
        value = value[step]
    return value
