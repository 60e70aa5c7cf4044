"""From the parts of runs in a file to trees of runs: put together by id, linked by parent."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator

from replaykit.importers.fields import Fields
from replaykit.importers.langsmith.documents import Document
from replaykit.importers.source import JsonPath, Source
from replaykit.model.values import Json, Raw

_SEGMENT = re.compile(r"(\d{8}T\d{12})Z(.+)")
_EMPTY: tuple[Json, ...] = (None, "", [], {})


class Node:
    """A run of the file, whole, among its parent and children."""

    __slots__ = ("children", "in_circle", "parent", "path", "places", "value")

    def __init__(self, value: Json, path: JsonPath) -> None:
        self.value = value
        self.path = path
        self.places: dict[str, JsonPath] = {}
        """Where each of its fields stands."""
        self.parent: Node | None = None
        self.children: list[Node] = []
        self.in_circle = False

    @property
    def failed(self) -> bool:
        return isinstance(self.value, dict) and bool(self.value.get("error") or self.value.get("error_preview"))

    def fields(self, source: Source) -> RunFields:
        """Its fields; an error when it is no run at all."""
        if self.in_circle:
            raise source.error("its parents form a circle", self.path)
        return RunFields(source, self)

    def add(self, value: dict[str, Json], path: JsonPath) -> None:
        """Another part of the same run; of two values the later counts, unless it says nothing."""
        for name, item in value.items():
            held = self.value.get(name)
            if name in self.value and item in _EMPTY and held is not None:
                continue
            both = name == "extra" and isinstance(held, dict) and isinstance(item, dict)
            self.value[name] = {**held, **item} if both else item
            self.places[name] = path


class RunFields(Fields):
    """The fields of a run whose parts may stand in several places of a file."""

    __slots__ = ("_places",)

    def __init__(self, source: Source, node: Node) -> None:
        super().__init__(source, node.value, node.path, "a run: an object with `id` and `run_type`")
        self._places = node.places

    def kept(self, value: Json, *names: str) -> Raw:
        """A value of this run as JSON text, keys in their own order."""
        return self.source.raw(value, self._path_of(names))

    def _path_of(self, names: tuple[str, ...]) -> JsonPath:
        name = self.key(*names)
        return (*self._places.get(name, self.path), name) if name else self.path


def collect(documents: Iterable[Document]) -> list[Node]:
    """The roots, in the order of the file; each run of the file is once in their trees."""
    nodes: dict[str | JsonPath, Node] = {}
    for value, path in documents:
        _add(nodes, value, path)
    for key, node in nodes.items():
        if node.parent is None:
            node.parent = _parent(nodes, key, node)
    for node in nodes.values():
        if node.parent is not None:
            node.parent.children.append(node)
    return _roots(nodes.values())


def dotted_time(order: str | None) -> float | None:
    """When the run began by the last segment of its `dotted_order`."""
    segment = _SEGMENT.fullmatch((order or "").rpartition(".")[2])
    if segment is None:
        return None
    try:
        return dt.datetime.strptime(segment[1] + "Z", "%Y%m%dT%H%M%S%f%z").timestamp()
    except ValueError:
        return None


def _add(nodes: dict[str | JsonPath, Node], value: Json, path: JsonPath) -> None:
    """Enter a run and the runs inside of it, however deep."""
    waiting: list[tuple[Json, JsonPath, Node | None]] = [(value, path, None)]
    while waiting:
        value, path, parent = waiting.pop()
        node = _entered(nodes, value, path)
        if parent is not None and node.parent is None:
            node.parent = parent
        inside = value.get("child_runs") if isinstance(value, dict) else None
        if isinstance(inside, list):
            held = [(child, (*path, "child_runs", index), node) for index, child in enumerate(inside)]
            waiting.extend(reversed(held))


def _entered(nodes: dict[str | JsonPath, Node], value: Json, path: JsonPath) -> Node:
    if not isinstance(value, dict):
        return nodes.setdefault(path, Node(value, path))
    node = nodes.setdefault(_id(value) or path, Node({}, path))
    node.add(value, path)
    return node


def _id(value: dict[str, Json]) -> str | None:
    """The run's id; a patch may have it in its `dotted_order` only."""
    given = value.get("id")
    if isinstance(given, str) and given:
        return given
    return next(reversed(_dotted_ids(value)), None) if given is None else None


def _dotted_ids(value: dict[str, Json]) -> list[str]:
    order = value.get("dotted_order")
    segments = [_SEGMENT.fullmatch(text) for text in order.split(".")] if isinstance(order, str) else []
    return [segment[2] for segment in segments if segment]


def _parent(nodes: dict[str | JsonPath, Node], key: str | JsonPath, node: Node) -> Node | None:
    """The nearest run above it that is in the file."""
    if not isinstance(node.value, dict):
        return None
    return next((nodes[name] for name in ids_above(node.value) if name in nodes and name != key), None)


def ids_above(value: dict[str, Json]) -> Iterator[str]:
    """The ids of the runs around this one, nearest first, as far as it names them."""
    parent, parents = value.get("parent_run_id"), value.get("parent_run_ids")
    if isinstance(parent, str):
        yield parent
    yield from reversed([name for name in parents if isinstance(name, str)] if isinstance(parents, list) else [])
    yield from reversed(_dotted_ids(value)[:-1])


def _roots(nodes: Iterable[Node]) -> list[Node]:
    """The runs with no parent; of runs that are each other's parents, the first in the file."""
    roots: list[Node] = []
    reached: set[int] = set()
    for circles in (False, True):
        for node in nodes:
            if id(node) in reached or (node.parent is not None and not circles):
                continue
            node.in_circle = circles
            roots.append(node)
            waiting = [node]
            while waiting:
                found = waiting.pop()
                if id(found) not in reached:
                    reached.add(id(found))
                    waiting.extend(found.children)
    return roots
