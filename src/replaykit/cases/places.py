"""Places: the line that a part of a YAML document stands on, for messages that point at it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from replaykit.cases.yaml_values import LOADER

MAX_BYTES = 8 * 1024 * 1024  # a message without a line beats one that comes after minutes


def find_line(data: bytes, path: tuple[str | int, ...]) -> int | None:
    """The line of the part at `path` of a YAML text, or of the nearest part around it.

    Walks the text up to that part and keeps nothing: only errors ask for lines, and they are few.
    """
    line: int | None = None
    if len(data) > MAX_BYTES:
        return line
    try:
        events = (e for e in yaml.parse(data, Loader=LOADER) if isinstance(e, _NODES))
        node = next(events, None)
        line = _line(node) if node else None
        for key in path:
            found = _inside(node, key, events)
            if found is None:
                break
            line, node = found
    except yaml.YAMLError:
        pass  # the text is damaged further on; what was found up to here is still true
    return line


_NODES = (yaml.NodeEvent, yaml.CollectionEndEvent)
_Events = Iterator[Any]


def _inside(node: Any, key: str | int, events: _Events) -> tuple[int, Any] | None:
    """The line and the first event of one part of a list or mapping that has just begun."""
    if isinstance(node, yaml.MappingStartEvent):
        return _member(key, events)
    if isinstance(node, yaml.SequenceStartEvent):
        return _item(key, events)
    return None


def _member(name: str | int, events: _Events) -> tuple[int, Any] | None:
    for key in events:
        if isinstance(key, yaml.CollectionEndEvent):
            break
        _skip(key, events)
        value = next(events)
        if getattr(key, "value", None) == name:
            return _line(key), value  # a member stands where its key does: there the reader looks for it
        _skip(value, events)
    return None


def _item(index: str | int, events: _Events) -> tuple[int, Any] | None:
    for count, item in enumerate(events):
        if isinstance(item, yaml.CollectionEndEvent):
            break
        if count == index:
            return _line(item), item
        _skip(item, events)
    return None


def _skip(node: Any, events: _Events) -> None:
    """Go past the rest of a node whose first event was taken."""
    depth = 1 if isinstance(node, yaml.CollectionStartEvent) else 0
    while depth:
        event = next(events)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1
