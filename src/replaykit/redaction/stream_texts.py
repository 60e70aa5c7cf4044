"""Joined: what the events of a stream say together, told quickly and for a quick look alone.

The same texts as a close look joins (`streams`), from decoded values, with no record of where they stand. Whatever it
would join otherwise (names said twice, pairs, deep nesting) is left to it.
"""

from __future__ import annotations

import orjson

from replaykit.model.values import Json
from replaykit.redaction.json_text import PAIR_NAMES
from replaykit.redaction.similar_events import ALSO_APART, TELLS_APART, Alike, tokens_of

_MAX_DEPTH = 12
_LONGEST_PATH = 300
_Texts = list[tuple[str, str]]
"""Names of members of one object, and what they say."""
_Mark = tuple[str, Json]
"""Where the object is that it tells apart, and what it says."""
_Members = dict[str, list[str]]
"""By name, the texts that are one."""


def joined_texts(body: bytes) -> list[bytes] | None:
    """The texts that members of several events make; None where only a close look can tell."""
    events: list[_Event] = []
    plain: list[bytes] = []
    for text in _texts_in(body):
        if isinstance(text, bytes):
            plain.append(text)
            continue
        try:
            event = _Event(text)
        except orjson.JSONDecodeError:
            if text.count > 1:
                return None
            plain.append(text.payload)
            continue
        if event.is_odd or text.strings != event.strings:
            return None
        events.append(event)
    return [b"".join(plain), *_texts(events)]


def _texts_in(body: bytes) -> list[bytes | Alike]:
    """What the lines say, in order: events, and what is none."""
    texts: list[bytes | Alike] = []
    last: Alike | None = None
    for line in body.splitlines():
        payload = line[6:] if line.startswith(b"data: ") else line.removeprefix(b"data:")
        if not payload or payload == b"[DONE]":
            continue
        tokens = tokens_of(payload) if payload[:1] in (b"{", b"[") else None
        if tokens is None:
            texts.append(payload)
        elif last is None or not last.takes(payload, tokens):
            last = Alike(payload, tokens)
            texts.append(last)
    return texts


def _texts(events: list[_Event]) -> list[bytes]:
    first = _Groups()
    for event in events:
        marks = tuple(event.marks)
        first.add(event.texts, marks, event.count)
        first.add(event.names, marks, event.count)
    then = _Groups()
    if any((event.marks, event.all_marks) != (events[0].marks, events[0].all_marks) for event in events):
        for event in events:
            then.add(event.texts, tuple(event.all_marks), event.count)
    return [*first.texts(), *then.texts()]


class _Groups:
    """The texts of all events, each with those of the same member of the same part."""

    def __init__(self) -> None:
        self._groups: dict[tuple[Json, ...], _Members] = {}
        self._seen: dict[tuple[str, tuple[_Mark, ...]], _Members] = {}  # most events are alike

    def add(self, objects: list[tuple[str, _Texts]], marks: tuple[_Mark, ...], count: int) -> None:
        for path, texts in objects:
            members = self._seen.get((path, marks))
            if members is None:
                group = (path, *[mark for place, mark in marks if path.startswith(place)])
                members = self._seen[path, marks] = self._groups.setdefault(group, {})
            for name, text in texts:
                if name in members:
                    members[name].append(text)
                else:
                    members[name] = [text] if count == 1 else ["", text]

    def texts(self) -> list[bytes]:
        shared_parts = (parts for members in self._groups.values() for parts in members.values() if len(parts) > 1)
        return ["".join(parts).encode("utf-8", "surrogatepass") for parts in shared_parts]


class _Event:
    """The texts of events that are alike, and what tells them apart from those of other parts."""

    __slots__ = ("all_marks", "count", "is_odd", "marks", "names", "strings", "texts")

    def __init__(self, alike: Alike) -> None:
        value = alike.value()
        self.texts: list[tuple[str, _Texts]] = []
        self.names: list[tuple[str, _Texts]] = []
        self.marks: list[_Mark] = []
        self.all_marks: list[_Mark] = []
        self.strings = 0
        self.count = alike.count
        self.is_odd = type(value) is not dict
        if type(value) is dict:
            self._walk(value, "", 0)

    def _walk(self, value: dict[str, Json], path: str, depth: int) -> None:
        if depth > _MAX_DEPTH or len(path) > _LONGEST_PATH:
            self.is_odd = True
            return
        self.strings += len(value)
        texts: _Texts = []
        for name, item in value.items():
            kind = type(item)
            if name in ALSO_APART:
                self._mark(item, path, name)
            elif kind is str:
                self.strings += 1
                if item:
                    texts.append((name, item))
                    if item in ALSO_APART and name in PAIR_NAMES:
                        self.is_odd = True
            elif kind is dict or kind is list:
                if not name.isidentifier():
                    self.is_odd = True
                elif kind is dict:
                    self._walk(item, f"{path}{name}.", depth + 1)
                else:
                    self._list(item, f"{path}{name}[", depth)
        if texts:
            self.texts.append((path, texts))

    def _list(self, items: list[Json], path: str, depth: int) -> None:
        texts: _Texts = []
        for index, item in enumerate(items):
            if type(item) is dict:
                self._walk(item, f"{path}{index}].", depth + 1)
            elif type(item) is str:
                self.strings += 1
                texts.append((str(index), item))
            elif type(item) is list:
                self.is_odd = True
        if texts:
            self.texts.append((path, texts))

    def _mark(self, item: Json, path: str, name: str) -> None:
        mark = (path, item)
        self.all_marks.append(mark)
        if name in TELLS_APART:
            self.marks.append(mark)
        kind = type(item)
        if kind is str:
            self.strings += 1
            if name not in TELLS_APART and item:
                self.names.append((path, [(name, item * self.count)]))
            if item in ALSO_APART and name in PAIR_NAMES:
                self.is_odd = True
        elif kind is not int and item is not None:
            self.is_odd = True
