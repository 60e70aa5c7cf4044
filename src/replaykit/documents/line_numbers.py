"""Places: the lines that parts of a YAML document stand on, for messages that point at them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from replaykit.documents.yaml_values import LOADER

Path = tuple[str | int, ...]


def find_lines(data: bytes, paths: Iterable[Path]) -> list[int | None]:
    """For each path the line of that part of a YAML text, or of the nearest part around it.

    One pass that keeps only what was asked for: files may be large, and only errors ask for lines.
    """
    requested = list(paths)
    root = _RequestedPart()
    for path in requested:
        root.add(path)
    walk = _LineWalk(root)
    try:
        for event in yaml.parse(data, Loader=LOADER):
            walk.take(event)
    except yaml.YAMLError:
        pass  # the text is damaged further on; what was found up to here is still true
    return [root.nearest(path) for path in requested]


class _RequestedPart:
    """A part that somebody asked for, or that lies around one."""

    __slots__ = ("inner", "line")

    def __init__(self) -> None:
        self.line: int | None = None
        self.inner: dict[str | int, _RequestedPart] = {}

    def add(self, path: Path) -> None:
        part = self
        for key in path:
            part = part.inner.setdefault(key, _RequestedPart())

    def nearest(self, path: Path) -> int | None:
        part, line = self, self.line
        for key in path:
            part = part.inner[key]
            if part.line is None:
                break
            line = part.line
        return line


class _OpenNode:
    """A list or mapping on the way; `part` is None when nobody asked for anything in it."""

    __slots__ = ("count", "is_mapping", "member", "part")

    def __init__(self, part: _RequestedPart | None, is_mapping: bool) -> None:
        self.part = part
        self.is_mapping = is_mapping
        self.count = 0
        self.member: _RequestedPart | None = None

    def next_part(self, event: Any) -> _RequestedPart | None:
        """The part that the next node inside is: an item, a key, or the value of the key before it."""
        self.count += 1
        if self.is_mapping and self.count % 2 == 0:
            return self.member
        key = getattr(event, "value", None) if self.is_mapping else self.count - 1
        if self.part is not None and key is not None:
            part = self.part.inner.get(key)
        else:
            part = None
        if part is not None and part.line is None:
            part.line = event.start_mark.line + 1  # a member stands where its key does
        self.member = part
        if self.is_mapping:
            return None
        return part


class _LineWalk:
    def __init__(self, root: _RequestedPart) -> None:
        self._root = root
        self._stack: list[_OpenNode] = []

    def take(self, event: Any) -> None:
        if isinstance(event, yaml.CollectionEndEvent):
            self._stack.pop()
        elif isinstance(event, yaml.NodeEvent):
            if self._stack:
                part = self._stack[-1].next_part(event)
            else:
                part = self._first(event)
            if isinstance(event, yaml.CollectionStartEvent):
                self._stack.append(_OpenNode(part, isinstance(event, yaml.MappingStartEvent)))

    def _first(self, event: Any) -> _RequestedPart:
        self._root.line = event.start_mark.line + 1
        return self._root
