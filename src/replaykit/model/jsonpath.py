"""JSON paths: select members of a value, to exclude them from a comparison or to check them.

    $            the value itself              [n]          the n-th item, from 0
    .name        a member                      [*]  .*      every member or item
    ['name']     a member of any name          ..name       that member at any depth

A prefix limits a path to one tool: `search:$.request_id`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import Enum, auto

from msgspec import Struct

from replaykit.model.values import Json


class Pick(Enum):
    """What one step of a path selects."""

    MEMBER = auto()  # the member of that name
    ITEM = auto()  # the item at that index
    EVERY = auto()  # every member or item
    DEEP = auto()  # the member of that name, here and anywhere below


class PathStep(Struct, frozen=True):
    """One step of a path: how it selects, and the name or index."""

    pick: Pick
    key: str | int | None = None

    def takes(self, key: str | int) -> bool:
        """Return whether this step selects the member or item with that key."""
        return self.pick is Pick.EVERY or self.key == key


class JsonPath(Struct, frozen=True):
    """A parsed path; `tool` is the only tool that it applies to, if it is limited to one."""

    text: str
    steps: tuple[PathStep, ...]
    tool: str | None = None


Rest = tuple[PathStep, ...]
"""The remaining steps of a path."""

_STEP = re.compile(
    r"""(?P<every>\[\*\]|\.\*)
      | \.\.(?P<deep>[^.\[\]'"*\s]+)
      | \.(?P<name>[^.\[\]'"*\s]+)
      | \[(?P<index>[0-9]{1,9})\]
      | \[(?P<quote>['"])(?P<quoted>(?:\\.|(?!(?P=quote))[^\\])*)(?P=quote)\]
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def parse_path(text: str) -> JsonPath:
    """Parse a path. Raises `ValueError` with the character at which the text is wrong."""
    tool, start = _split_tool(text)
    steps = []
    position = start + 1
    while position < len(text):
        found = _STEP.match(text, position)
        if found is None:
            raise ValueError(
                f"bad JSON path {text!r} at character {position + 1}: expected .name, ['name'], [n], [*], .* or ..name"
            )
        steps.append(_step(found))
        position = found.end()
    return JsonPath(text, tuple(steps), tool)


def remove_paths(value: Json, paths: Iterable[JsonPath], *, tool: str | None = None) -> Json:
    """Return the value without the selected members. Unaffected parts are shared, and nothing is changed in place.

    Paths limited to a tool other than `tool` are skipped. `$` alone leaves None.
    """
    rests = [path.steps for path in paths if path.tool is None or path.tool == tool]
    if () in rests:
        return None
    if rests:
        return _without(value, rests)
    return value


def _split_tool(text: str) -> tuple[str | None, int]:
    """Split off the tool's name; return it and the index at which the path begins."""
    if text.startswith("$"):
        return None, 0
    # A tool's name may contain colons; ":$" is where the path begins.
    start = text.find(":$")
    if start < 1:
        raise ValueError(f"bad JSON path {text!r} at character 1: expected $ or tool:$")
    return text[:start], start + 1


def _step(found: re.Match[str]) -> PathStep:
    if found["every"]:
        return PathStep(Pick.EVERY)
    if found["deep"]:
        return PathStep(Pick.DEEP, found["deep"])
    if found["index"]:
        return PathStep(Pick.ITEM, int(found["index"]))
    return PathStep(Pick.MEMBER, found["name"] or _ESCAPE.sub(r"\1", found["quoted"] or ""))


def _without(value: Json, rests: list[Rest]) -> Json:
    """Copy the value in one pass, so that removing an item never shifts the index of the next."""
    if type(value) is dict:
        members = {}
        for key, item in value.items():
            below = advance(rests, key)
            if below is not None:
                members[key] = _without(item, below) if below else item
        return members
    if type(value) is list:
        items = []
        for index, item in enumerate(value):
            below = advance(rests, index)
            if below is not None:
                items.append(_without(item, below) if below else item)
        return items
    return value


def advance(rests: list[Rest], key: str | int) -> list[Rest] | None:
    """Return the paths that continue below this key; None if one ends here."""
    below: list[Rest] = []
    for rest in rests:
        step = rest[0]
        if step.takes(key):
            if len(rest) == 1:
                return None
            if rest[1:] not in below:
                below.append(rest[1:])
        if step.pick is Pick.DEEP and rest not in below:
            below.append(rest)
    return below


def members(value: Json, path: JsonPath) -> list[tuple[str, Json]]:
    """Return the selected members in document order, each with its own path."""
    found = [("$", value)]
    for step in path.steps:
        if step.pick is Pick.DEEP:
            found = [below for place, part in found for below in _deep(part, place, step.key)]
        else:
            found = [
                (name, item) for place, part in found for key, name, item in _children(part, place) if step.takes(key)
            ]
    return found


def values_at(value: Json, path: JsonPath) -> list[Json]:
    """Return the selected members in document order."""
    return [item for _place, item in members(value, path)]


def _deep(value: Json, place: str, key: str | int | None) -> Iterator[tuple[str, Json]]:
    waiting = [(place, value)]
    while waiting:
        here, part = waiting.pop()
        below = [(name, item) for _key, name, item in _children(part, here)]
        yield from ((name, item) for found, name, item in _children(part, here) if found == key)
        waiting.extend(reversed(below))


def member_path(path: str, key: Json) -> str:
    """Return the path of a member or item below another path."""
    if isinstance(key, str) and key.replace("_", "a").isalnum():
        return f"{path}.{key}"
    return f"{path}[{key!r}]"


def _children(value: Json, place: str) -> Iterator[tuple[str | int, str, Json]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key, member_path(place, key), item
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield index, member_path(place, index), item
