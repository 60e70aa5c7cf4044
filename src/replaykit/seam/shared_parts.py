"""Results that hold one list, dictionary, set or object with fields in several places, such as `[row] * 3`.

JSON writes the object out in each place. An agent that changes it in one place sees the change in all of them, so the
recording says which places are one object, and a replay joins them again:

    {"$obj": ["shared", content, "replaykit", [[[0], [1]], [[0], [2]]]]}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from replaykit.model.values import Json, raw_in
from replaykit.seam.classes import Kind, kind_of

NAME, MODULE = "shared", "replaykit"
"""The class and the module that stand for such a result; neither exists, so no other object is written like that."""
Path: TypeAlias = tuple[str | int, ...]
_HOLDERS = (list, dict)
_MUTABLE = frozenset({list, dict, set, bytearray})
_CONTAINERS = _MUTABLE | {tuple}
_SCALARS = frozenset({str, int, float, bool, type(None)})
_WITH_FIELDS = (Kind.DATACLASS, Kind.ATTRS, Kind.MODEL)
_MOST_EXACT = 2**53


def has_shared_parts(value: Any) -> bool:
    """Return whether an object that can change is in more than one place of a value."""
    if not _is_container(value):
        return False
    seen = {id(value)}
    pending = [value]
    while pending:
        for item in _items_of(pending.pop()):
            if type(item) in _SCALARS or not _is_container(item):
                continue
            if id(item) not in seen:
                seen.add(id(item))
                pending.append(item)
            elif _can_change(item):
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
        for step, item in _parts_of(container):
            if not _is_container(item) or not _is_step(step):
                continue
            place = (*path, step)
            if _can_change(item):
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
        if is_inside_itself or not _is_same(_at(holder, again[-1:]), part):
            raise ValueError(again)
        if type(holder) in _HOLDERS:
            holder[again[-1]] = part
        elif _has_fields(holder):
            set_field(holder, again[-1], part)
        else:
            raise ValueError(again)
    return value


def _at(value: Any, path: Iterable[Any]) -> Any:
    for step in path:
        value = dict(_parts_of(value))[step] if _has_fields(value) else value[step]
    return value


def _is_same(now: Any, part: Any) -> bool:
    """Return whether two parts are written alike; `==` of a class may be anything."""
    from replaykit.seam.forms import ResultForms  # noqa: PLC0415 (few results have shared parts)

    return type(now) is type(part) and raw_in(now, ResultForms()) == raw_in(part, ResultForms())


def set_field(instance: Any, name: str, value: Any) -> None:
    """Set a field in its slot or in `__dict__`, without calling a setter."""
    from replaykit.seam.forms import slot_members  # noqa: PLC0415 (needed only for objects of classes)

    slots = slot_members(type(instance))
    if name in slots:
        slots[name].__set__(instance, value)
    else:
        object.__getattribute__(instance, "__dict__")[name] = value


def _items_of(container: Any) -> Iterable[Any]:
    if type(container) in (list, tuple):
        return container  # type: ignore[no-any-return]
    if type(container) is dict:
        return container.values()
    return [item for _, item in _parts_of(container)]


def _parts_of(container: Any) -> Iterable[tuple[Any, Any]]:
    """Return what a container or an object holds, each with its index, key or field."""
    if type(container) is dict:
        return container.items()
    if type(container) in (set, bytearray):  # their items cannot change
        return ()
    if isinstance(container, list | tuple):
        return enumerate(container)
    from replaykit.seam.forms import field_values  # noqa: PLC0415 (needed only for objects of classes)

    return field_values(container).items()


def _is_container(value: Any) -> bool:
    return type(value) in _CONTAINERS or _has_parts(value)


def _has_parts(value: Any) -> bool:
    kind = kind_of(type(value))
    return kind is Kind.NAMED_TUPLE or kind in _WITH_FIELDS


def _has_fields(value: Any) -> bool:
    return kind_of(type(value)) in _WITH_FIELDS


def _can_change(value: Any) -> bool:
    return type(value) in _MUTABLE or _has_fields(value)
