"""Joined: what the events of a stream say together, told quickly and for a quick look alone.

The same texts as a close look joins (`streams`), from decoded values, with no record of where they stand. Whatever it
would join otherwise (names said twice, pairs, deep nesting) is left to it.
"""

from __future__ import annotations

import orjson

from replaykit.model.values import Json
from replaykit.redaction.json_text import PAIR_NAMES

TELLS_APART = frozenset({"index", "type", "output_index", "content_index", "item_id", "summary_index"})
"""Members that number and name the parts of a stream."""
ALSO_APART = TELLS_APART | {"id", "tool_call_id", "name"}
"""Those that may do so, and may be cut into deltas as well."""
_MAX_DEPTH = 12
_LONGEST_PATH = 300
_Member = tuple[str, str, str]
"""Where the object is that it stands in, its name, its text."""
_Mark = tuple[str, Json]
"""Where the object is that it tells apart, and what it says."""


def joined_texts(body: bytes) -> list[bytes] | None:
    """The texts that members of several events make; None where only a close look can tell."""
    events: list[_Event] = []
    plain: list[bytes] = []
    for line in body.splitlines():
        payload = line[6:] if line.startswith(b"data: ") else line.removeprefix(b"data:")
        value = _object(payload)
        if value is not None:
            event = _Event()
            event.walk(value, "", 0)
            if event.is_odd or payload.count(b'"') - payload.count(b'\\"') != 2 * event.strings:
                return None
            events.append(event)
        elif payload != b"[DONE]":
            plain.append(payload)
    return [b"".join(plain), *_texts(events)]


def _object(payload: bytes) -> dict[str, Json] | None:
    if payload[:1] not in (b"{", b"["):
        return None
    try:
        value: Json = orjson.loads(payload)
    except ValueError:
        return None
    return value if type(value) is dict else {"": [value]}  # a list is odd, and so is one in a list


def _texts(events: list[_Event]) -> list[bytes]:
    groups: dict[tuple[Json, ...], list[str]] = {}
    for event in events:
        for member in (*event.texts, *event.names):
            groups.setdefault(_group(member, event.marks), []).append(member[2])
    if any((event.marks, event.all_marks) != (events[0].marks, events[0].all_marks) for event in events):
        for event in events:
            for member in event.texts:
                groups.setdefault(("", *_group(member, event.all_marks)), []).append(member[2])
    return ["".join(parts).encode("utf-8", "surrogatepass") for parts in groups.values() if len(parts) > 1]


def _group(member: _Member, marks: list[_Mark]) -> tuple[Json, ...]:
    path, name, _ = member
    return (path, name, *[mark for place, mark in marks if path.startswith(place)])


class _Event:
    """The texts of an event, and what tells them apart from those of other parts."""

    __slots__ = ("all_marks", "is_odd", "marks", "names", "strings", "texts")

    def __init__(self) -> None:
        self.texts: list[_Member] = []
        self.names: list[_Member] = []
        self.marks: list[_Mark] = []
        self.all_marks: list[_Mark] = []
        self.strings = 0
        self.is_odd = False

    def walk(self, value: dict[str, Json], path: str, depth: int) -> None:
        self.strings += len(value)
        for name, item in value.items():
            kind = type(item)
            if kind is dict:
                self._below(item, f"{path}{name}.", name, depth)
            elif kind is list:
                self._list(item, path, name, depth)
            elif name in ALSO_APART:
                self._mark(item, path, name)
            elif kind is str:
                self.strings += 1
                self.is_odd |= item in ALSO_APART and name in PAIR_NAMES
                if item:
                    self.texts.append((path, name, item))

    def _mark(self, item: Json, path: str, name: str) -> None:
        self.all_marks.append((path, item))
        if name in TELLS_APART:
            self.marks.append((path, item))
        if type(item) is str:
            self.strings += 1
            if name not in TELLS_APART and item:
                self.names.append((path, name, item))
        self.is_odd |= type(item) is float or (name in PAIR_NAMES and item in ALSO_APART)

    def _list(self, items: list[Json], path: str, name: str, depth: int) -> None:
        self.is_odd |= name in ALSO_APART
        for index, item in enumerate(items):
            if type(item) is str:
                self.strings += 1
                self.texts.append((f"{path}{name}[", str(index), item))
            elif type(item) is dict:
                self._below(item, f"{path}{name}[{index}].", name, depth)
            else:
                self.is_odd |= type(item) is list

    def _below(self, value: dict[str, Json], path: str, name: str, depth: int) -> None:
        if depth < _MAX_DEPTH and len(path) < _LONGEST_PATH and name.isidentifier():
            self.walk(value, path, depth + 1)
        else:
            self.is_odd = True
