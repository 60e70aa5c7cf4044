"""Join the texts of stream events for the quick check.

These are the texts that a full search joins (`streams`), from decoded values, without positions. Anything that it would
join differently (repeated names, pairs, deep nesting) is left to the full search.

Most events of a stream differ from the previous one only in texts and numbers. Such events are merged into one with
longer texts, which takes no longer to read than a single one (`Alike`). Numbers are ignored unless they identify parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

import orjson

from replaykit.model.values import Json, JsonObject
from replaykit.redaction.json_text import PAIR_NAMES

TELLS_APART = frozenset({"index", "type", "output_index", "content_index", "item_id", "summary_index"})
"""Members that identify the parts of a stream."""
ALSO_APART = TELLS_APART | {"id", "tool_call_id", "name"}
"""Members that may do so, but may also be streamed in deltas."""
_APART_NAMES = frozenset(map(str.encode, ALSO_APART))
_PAIRS = frozenset(map(str.encode, PAIR_NAMES - ALSO_APART))
_SLASH, _QUOTE = b"\xfe", b"\xff"  # stand for escaped ones; no text has these bytes
_BACKSLASH = ord("\\")  # as a number: `in` for bytes would first try to convert them
_DIGITS = b"0123456789"


def tokens_of(payload: bytes) -> list[bytes] | None:
    """Split JSON text at its quotes, into strings and the text between them in turn; None if it is not JSON.

    Text without escapes and beyond ASCII is not validated: it is valid if the merged text is.
    """
    if payload.isascii() and _BACKSLASH not in payload:
        return payload.split(b'"')
    if not is_json(payload):
        return None
    return payload.replace(b"\\\\", _SLASH).replace(b'\\"', _QUOTE).split(b'"')


class Alike:
    """Similar events: the first one, and those that were merged into it."""

    def __init__(self, payload: bytes, tokens: list[bytes]) -> None:
        self.payload = payload
        """The first event."""
        self.strings = (len(tokens) - 1) / 2
        """The number of its strings, including names of members."""
        self._rows = [tokens]
        self._shape: _Shape | None = None

    @property
    def count(self) -> int:
        return len(self._rows)

    def takes(self, payload: bytes, tokens: list[bytes]) -> bool:
        """Merge an event if it is similar to the first; return whether it was."""
        first = self._rows[0]
        if len(tokens) != len(first):
            return False
        if self._shape is None:
            self._shape = _Shape(first)
        if self._shape.same_in(tokens) != self._shape.same or not self._shape.is_usual:
            return False
        has_other_numbers = False
        for place in self._shape.numbers:
            if tokens[place] != first[place]:
                has_other_numbers = True
                if tokens[place].translate(None, _DIGITS) != first[place].translate(None, _DIGITS):
                    return False
        if has_other_numbers and not is_json(payload):
            return False
        self._rows.append(tokens)
        return True

    def value(self) -> Json:
        """Return all events as one; raises orjson's errors."""
        if self._shape is None or len(self._rows) == 1:
            return orjson.loads(self.payload)
        tokens = list(self._rows[0])
        for place in self._shape.texts:
            tokens[place] = b"".join([row[place] for row in self._rows])
        return orjson.loads(b'"'.join(tokens).replace(_QUOTE, b'\\"').replace(_SLASH, b"\\\\"))


def is_json(payload: bytes | str) -> bool:
    """Return whether the text is JSON."""
    try:
        orjson.loads(payload)
    except ValueError:
        return False
    return True


class _Shape:
    """The positions where similar events may differ, and what they share."""

    def __init__(self, first: list[bytes]) -> None:
        self.texts: list[int] = []
        self.numbers: list[int] = []
        same = [0]
        name = b""
        for place in range(1, len(first) - 1, 2):
            after = first[place + 1].strip()
            is_name = after[:1] == b":"
            if is_name or name in _APART_NAMES:
                same.append(place)
            else:
                self.texts.append(place)
            if is_name and after != b":" and first[place] not in _APART_NAMES:
                self.numbers.append(place + 1)
            else:
                same.append(place + 1)
            name = b""
            if after == b":":
                name = first[place]
        self.same_in = itemgetter(0, *same)  # 0 twice: `itemgetter` returns a tuple only for several indexes
        self.same = self.same_in(first)
        whole = b"".join(self.same)
        self.is_usual = whole.isascii() and b"\\" not in whole and _PAIRS.isdisjoint(self.same)


_MAX_DEPTH = 12
_LONGEST_PATH = 300
_Texts = list[tuple[str, str]]  # names of members of one object, and their texts
_Mark = tuple[str, Json]  # the path of an identified object, and its identifier
_Members = dict[str, list[str]]  # the texts to join, by name


def joined_texts(body: bytes) -> list[bytes] | None:
    """Return the joined texts of members across events; None if only a full search can tell."""
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
    """Return the payloads of lines in order: merged events, and other text."""
    texts: list[bytes | Alike] = []
    last: Alike | None = None
    for line in body.splitlines():
        payload = line.removeprefix(b"data:")
        if payload is not line:
            payload = payload.removeprefix(b" ")
        if not payload or payload == b"[DONE]":
            continue
        tokens = None
        if payload[:1] in (b"{", b"["):
            tokens = tokens_of(payload)
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
    if any(event.marks != events[0].marks or event.all_marks != events[0].all_marks for event in events):
        for event in events:
            then.add(event.texts, tuple(event.all_marks), event.count)
    return [*first.texts(), *then.texts()]


class _Groups:
    """Groups the texts of all events by member and part."""

    def __init__(self) -> None:
        self._groups: dict[tuple[Json, ...], _Members] = {}
        self._seen: dict[tuple[str, tuple[_Mark, ...]], _Members] = {}  # most events are similar

    def add(self, objects: list[tuple[str, _Texts]], marks: tuple[_Mark, ...], count: int) -> None:
        for path, texts in objects:
            members = self._seen.get((path, marks))
            if members is None:
                group = (path, *[mark for place, mark in marks if path.startswith(place)])
                members = self._seen[path, marks] = self._groups.setdefault(group, {})
            for name, text in texts:
                if name in members:
                    members[name].append(text)
                elif count == 1:
                    members[name] = [text]
                else:
                    members[name] = ["", text]

    def texts(self) -> Iterator[bytes]:
        for members in self._groups.values():
            for parts in members.values():
                if len(parts) > 1:
                    yield "".join(parts).encode("utf-8", "surrogatepass")


class _Event:
    """The texts of similar events, and the identifiers of their parts."""

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

    def _walk(self, value: JsonObject, path: str, depth: int) -> None:
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
