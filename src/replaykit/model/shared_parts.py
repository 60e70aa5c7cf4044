"""Shared parts: what the arguments of several calls have in common, written once.

A model call carries the whole conversation, so calls repeat each other's messages. Each distinct item of such a member
is stored in a table, in order of first appearance, and a call lists positions in it:

    parts of the file   {"messages": [{"role": "system", …}, {"role": "user", …}], "body.tools": […]}
    parts of a call     {"messages": "0-1", "body.tools": "0-3,7"}

A text of positions stands for a list of these items, a number for the item itself. A member is named by its path: the
names of the members around it and its own, joined with dots. References stand beside the arguments, never inside them,
so no argument can be mistaken for one.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate
from typing import TypeAlias

import msgspec
import orjson
from msgspec import Raw, Struct

from replaykit.model.growing_objects import ObjectSplitter
from replaykit.model.text_splice import common_prefix
from replaykit.model.values import Json, dumps, read_items

CanBeNamed: TypeAlias = Callable[[str], bool]
Reference: TypeAlias = int | str
"""One position, or a text of positions for a list: `0-3,7-12`."""

MAX_LEVELS = 3
"""The depth in the arguments down to which members are moved out."""
LARGE_BYTES = 64 * 1024
"""Values of this size or more are written to files of their own."""
MAX_EXPANDED_BYTES = 1 << 30
"""The most bytes that arguments may expand to: a small file must not exhaust the memory."""

_MIN_BYTES = 64  # a shorter value takes less room than a reference and the line it stands on
_MIN_ITEM_BYTES = 32  # the positions of shorter items would take as much room as the items
_MIN_SAVED_BYTES = 1024  # small files stay plain
_POSITIONS = re.compile(r"(?:[0-9]{1,9}(?:-[0-9]{1,9})?)(?:,[0-9]{1,9}(?:-[0-9]{1,9})?)*")
_GAP = b"\0%d\0"  # a gap in arguments for one of their parts; no JSON text contains a NUL byte
_GAPS = re.compile(rb"\0([0-9]+)\0")
_OBJECT, _LIST = ord("{"), ord("[")


class Split(Struct, frozen=True):
    """The arguments of one call: what stays, what is shared and what is large."""

    rest: Raw
    parts: dict[str, Reference]
    large: dict[str, Raw]


class PartWriter:
    """Splits the arguments of calls into shared parts and the rest.

    `can_be_named` decides whether a reference to a path is allowed.
    """

    def __init__(self, arguments: Iterable[Raw], can_be_named: CanBeNamed = lambda path: True) -> None:
        self._can_be_named = cache(can_be_named)
        self._reader = _ArgumentReader()
        self._shared = frozenset(filter(self._can_be_named, _repeated_members(arguments, self._reader)))
        self._tables: dict[str, _Table] = {}

    @property
    def tables(self) -> dict[str, list[Raw]]:
        """The shared items of all arguments split so far, by the path of their member."""
        return {path: list(map(Raw, table.items)) for path, table in self._tables.items()}

    def split(self, arguments: Raw) -> Split:
        """Move shared and large members out of one call's arguments."""
        parts: dict[str, Reference] = {}
        large: dict[str, Raw] = {}
        rest = self._without(arguments, (), parts, large)
        return Split(rest, parts, large)

    def _without(self, value: Raw, path: tuple[str, ...], parts: dict[str, Reference], large: dict[str, Raw]) -> Raw:
        """Return the object without the members that move out; the same object if none do."""
        if len(value) < _MIN_BYTES or _opening(value) != _OBJECT:
            return value
        members = dict(self._reader.members(path, value))
        changed = False
        for name, member in list(members.items()):
            if len(member) < _MIN_BYTES or not _can_be_named(name):
                continue
            inner = (*path, name)
            key = ".".join(inner)
            if key in self._shared:
                parts[key] = self._tables.setdefault(key, _Table()).reference(member, self._reader.items(inner, member))
            elif len(member) >= LARGE_BYTES and _is_leaf(member, len(inner)) and self._can_be_named(key):
                large[key] = member
            elif len(inner) < MAX_LEVELS:
                less = self._without(member, inner, parts, large)
                changed = changed or less is not member
                members[name] = less
                continue
            else:
                continue
            del members[name]
            changed = True
        if changed:
            return Raw(msgspec.json.encode(members))
        return value


class _Table:
    """The distinct items of one member."""

    def __init__(self) -> None:
        self.items: list[bytes] = []
        self._positions: dict[bytes, int] = {}
        self._last: tuple[list[bytes], list[int]] = [], []  # the items of the last list, and their positions

    def reference(self, value: Raw, items: list[bytes] | None) -> Reference:
        """Return the positions of a list's items, or that of the value itself."""
        if items is None:
            return self._position(bytes(value))
        last_items, positions = self._last
        if items[: len(last_items)] != last_items:  # comparing is quick: a list that has grown holds the same objects
            positions = []
        positions = [*positions, *map(self._position, items[len(positions) :])]
        self._last = items, positions
        return _as_text(positions)

    def _position(self, item: bytes) -> int:
        position = self._positions.setdefault(item, len(self.items))
        if position == len(self.items):
            self.items.append(item)
        return position


class ListSplitter:
    """Splits lists into the texts of their items. If a list has only grown, only the new end is read."""

    def __init__(self) -> None:
        self.shared = 0
        """The number of leading items that the last list shares with the one before it."""
        self._text = b""
        self._items: list[bytes] = []

    def items(self, text: bytes) -> list[bytes]:
        """Return the items of a list; leading items that did not change are the same objects as last time."""
        # A comparison takes a fraction of the time that reading does, and an item that stays the same object already
        # has its hash: 200 calls over 200 messages then cost about as much as their messages do.
        known, end = self._items, max(0, len(self._text) - 1)
        if not text.startswith(memoryview(self._text)[:end]) or text[end : end + 1] not in (b",", b"]"):
            known, end = self._common(text) if self._is_compact else ([], 0)
        rest = b"[" + text[end:].removeprefix(b",") if known else text
        items = [*known, *map(bytes, read_items(rest))]
        self.shared, self._text, self._items = len(known), text, items
        return items

    @property
    def _is_compact(self) -> bool:
        """True if the last list has no blanks between items, so that their positions are known."""
        return bool(self._items) and sum(map(len, self._items)) + len(self._items) + 1 == len(self._text)

    def _common(self, text: bytes) -> tuple[list[bytes], int]:
        """Return the leading items that the last list and this one share, and the position at which they end."""
        ends = list(accumulate(map(len, self._items), lambda end, size: end + 1 + size, initial=0))
        # Compare the character behind an item too: `1` is not the beginning of `12`.
        number = bisect_left(ends[1:], common_prefix(self._text, text))
        return self._items[:number], ends[number]


class _ArgumentReader:
    """Reads the arguments of calls and caches the results: each is read twice."""

    def __init__(self) -> None:
        self._splitters: defaultdict[tuple[str, ...], ListSplitter] = defaultdict(ListSplitter)
        self._objects: defaultdict[tuple[str, ...], ObjectSplitter] = defaultdict(ObjectSplitter)
        # Keyed by the text's identity; the text is stored too, so that its id is not reused.
        self._members: dict[int, tuple[Raw, dict[str, Raw]]] = {}
        self._items: dict[int, tuple[Raw, list[bytes] | None]] = {}

    def members(self, path: tuple[str, ...], value: Raw) -> dict[str, Raw]:
        """Return the members of the object at a path."""
        known = self._members.get(id(value))
        if known is None:
            known = self._members[id(value)] = value, self._objects[path].members(value)
        return known[1]

    def items(self, path: tuple[str, ...], member: Raw) -> list[bytes] | None:
        """Return the items of a list to share item by item; None for a value to share as a whole."""
        known = self._items.get(id(member))
        if known is None:
            known = self._items[id(member)] = member, self._read_items(path, member)
        return known[1]

    def _read_items(self, path: tuple[str, ...], member: Raw) -> list[bytes] | None:
        if _opening(member) != _LIST:
            return None
        items = self._splitters[path].items(bytes(member))
        if items and len(member) >= _MIN_ITEM_BYTES * len(items):
            return items
        return None


class _Repetition:
    """The size of one member's values, with and without repetition."""

    def __init__(self) -> None:
        self._last: list[bytes] = []
        self._hashes: set[int] = set()
        self._total_bytes = 0
        self._distinct_bytes = 0

    def add(self, value: Raw, items: list[bytes] | None) -> None:
        if items is None:
            items = [bytes(value)]
        # The items of the previous list are already counted as distinct.
        is_grown = items[: len(self._last)] == self._last
        new = items[len(self._last) :] if is_grown else items
        self._last = items
        self._total_bytes += sum(map(len, items))
        for item in new:
            known = len(self._hashes)
            self._hashes.add(hash(item))
            if len(self._hashes) > known:
                self._distinct_bytes += len(item)

    @property
    def is_worth_sharing(self) -> bool:
        saved_bytes = self._total_bytes - self._distinct_bytes
        return saved_bytes >= _MIN_SAVED_BYTES and 2 * self._distinct_bytes <= self._total_bytes


def _repeated_members(arguments: Iterable[Raw], reader: _ArgumentReader) -> frozenset[str]:
    """Return the paths of members that repeat from call to call; of nested ones the outermost."""
    found: dict[tuple[str, ...], _Repetition] = {}
    for value in arguments:
        for path, member in _members(value, (), reader):
            if path not in found:
                found[path] = _Repetition()
            found[path].add(member, reader.items(path, member))
    shared: set[tuple[str, ...]] = set()
    for path in sorted(found, key=len):
        is_inside = any(path[:length] in shared for length in range(1, len(path)))
        if not is_inside and found[path].is_worth_sharing:
            shared.add(path)
    return frozenset(map(".".join, shared))


def _members(value: Raw, path: tuple[str, ...], reader: _ArgumentReader) -> Iterator[tuple[tuple[str, ...], Raw]]:
    """Yield the members that are long enough to share, including those of nested objects."""
    if len(value) < _MIN_BYTES or _opening(value) != _OBJECT:
        return
    for name, member in reader.members(path, value).items():
        if len(member) < _MIN_BYTES or not _can_be_named(name):
            continue
        inner = (*path, name)
        yield inner, member
        if len(inner) < MAX_LEVELS:
            yield from _members(member, inner, reader)


def distinct_texts(values: Iterable[Raw]) -> Iterator[bytes]:
    """Yield texts that together contain everything in these values, each distinct list item once."""
    splitters: defaultdict[tuple[str, ...], ListSplitter] = defaultdict(ListSplitter)
    objects: defaultdict[tuple[str, ...], ObjectSplitter] = defaultdict(ObjectSplitter)
    seen: set[bytes] = set()

    def texts(value: Raw, path: tuple[str, ...]) -> Iterator[bytes]:
        if len(value) >= _MIN_BYTES and _opening(value) == _OBJECT and len(path) < MAX_LEVELS:
            for name, member in objects[path].members(value).items():
                yield name.encode()
                yield from texts(member, (*path, name))
            return
        text = bytes(value)
        if _holds_texts(text):
            splitter = splitters[path]
            yield from splitter.items(text)[splitter.shared :]
        else:
            yield text

    for value in values:
        for text in texts(value, ()):
            if text not in seen:
                seen.add(text)
                yield text


def _holds_texts(text: bytes) -> bool:
    """Return whether this is a list of objects, lists or strings, so that no pattern can span two items."""
    return text[:1] == b"[" and text[1:2] in (b"{", b"[", b'"')


def _opening(value: Raw) -> int:
    return memoryview(value)[0]


def _can_be_named(name: str) -> bool:
    return bool(name) and "." not in name


def _is_leaf(value: Raw, level: int) -> bool:
    """Return whether no member can move out of a value: it is not an object, or its members are too deep."""
    return _opening(value) != _OBJECT or level >= MAX_LEVELS


def _as_text(positions: Sequence[int]) -> str:
    """Format positions as ranges: `0-3,7`."""
    first, last = positions[0], positions[0] + len(positions) - 1
    if len(positions) > 1 and positions == list(range(first, last + 1)):  # the common case
        return f"{first}-{last}"
    ranges: list[list[int]] = []
    for position in positions:
        if ranges and position == ranges[-1][1] + 1:
            ranges[-1][1] = position
        else:
            ranges.append([position, position])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


class BadReference(ValueError):
    """A reference that leads nowhere or expands to too much; `place` says where it is."""

    def __init__(self, place: tuple[str, ...], reason: str) -> None:
        super().__init__(reason)
        self.place = place
        self.reason = reason


class ExpansionBudget:
    """The number of bytes that references may still expand to, over all calls of a case."""

    def __init__(self, limit_bytes: int = MAX_EXPANDED_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._left_bytes = limit_bytes

    def spend(self, member: str, size_bytes: int) -> None:
        """Subtract bytes from the budget; raise `BadReference` if it is exhausted."""
        self._left_bytes -= size_bytes
        if self._left_bytes < 0:
            raise BadReference((member,), f"what the calls refer to is more than {self._limit_bytes:,} bytes")


class PartReader:
    """Puts split arguments together again."""

    def __init__(self, tables: Mapping[str, Sequence[Raw]], budget: ExpansionBudget) -> None:
        self._tables = {path: _ReadTable(items) for path, items in tables.items()}
        self._budget = budget

    def joined(self, rest: Raw, parts: Mapping[str, Reference], large: Mapping[str, bytes]) -> Raw:
        """Return the canonical text of whole arguments; `large` must be canonical. Raises `BadReference`."""
        value = orjson.loads(bytes(rest))
        texts = [self._texts(path, reference) for path, reference in parts.items()]
        for path, text in large.items():
            self._budget.spend(path, len(text))
            texts.append([text])
        for number, path in enumerate([*parts, *large]):
            _put(value, path, _GAP % number)
        # The arguments are written with gaps and filled in at the end. 400 calls over 400 messages hold 80 MB: each
        # further copy takes 40 ms, as much as everything else about reading their file.
        gapped = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        pieces = _GAPS.split(gapped)
        filled = pieces[:1]
        for gap, behind in zip(pieces[1::2], pieces[2::2], strict=True):
            filled += texts[int(gap)]
            filled.append(behind)
        return Raw(b"".join(filled))

    def _texts(self, path: str, reference: Reference) -> list[bytes]:
        table = self._tables.get(path)
        if table is None:
            raise BadReference((path,), f"there are no parts {path[:80]!r} in this file")
        if isinstance(reference, int):
            first, last = table.checked(path, reference, reference)
            self._budget.spend(path, table.size_bytes(first, last))
            return [table.items[first]]
        if not _POSITIONS.fullmatch(reference):
            raise BadReference((path,), f"expected positions such as '0-3,7', not {reference[:40]!r}")
        ranges = [table.checked(path, *_ends(text)) for text in reference.split(",")]
        # Check the budget before putting anything together.
        self._budget.spend(path, sum(table.size_bytes(first, last) for first, last in ranges))
        texts = [b"["]
        for first, last in ranges:
            texts += table.followed[2 * first : 2 * last + 2]
        texts[-1] = b"]"
        return texts


class _ReadTable:
    """The items of one member as canonical text, and the size of any range of them."""

    def __init__(self, items: Sequence[Raw]) -> None:
        self.items = list(map(canonical_text, items))
        self.followed = [text for item in self.items for text in (item, b",")]
        """The items, each followed by a comma."""
        self._ends = [0, *accumulate(len(item) + 1 for item in self.items)]

    def checked(self, path: str, first: int, last: int) -> tuple[int, int]:
        if not 0 <= first <= last < len(self.items):
            shown = str(first) if first == last else f"{first}-{last}"
            raise BadReference((path,), f"there is no part {shown} of {path[:80]!r}, which has {len(self.items)}")
        return first, last

    def size_bytes(self, first: int, last: int) -> int:
        return self._ends[last + 1] - self._ends[first]


def canonical_text(value: Raw | bytes) -> bytes:
    """Return a value's text with sorted keys and without blanks; raise `TypeError` if it is nested too deeply."""
    return dumps(orjson.loads(bytes(value)), option=orjson.OPT_SORT_KEYS)


def _ends(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def _put(value: Json, path: str, text: bytes) -> None:
    """Insert a text into the arguments at a path."""
    *around, name = path.split(".")
    if len(around) >= MAX_LEVELS:
        raise BadReference((path,), f"{path[:80]!r} is deeper than {MAX_LEVELS} levels")
    for step in around:
        value = value.get(step) if isinstance(value, dict) else None
    if not isinstance(value, dict):
        raise BadReference((path,), f"the arguments have no object that {path[:80]!r} could be a member of")
    if name in value:
        raise BadReference((path,), f"{path[:80]!r} stands in the arguments as well")
    value[name] = orjson.Fragment(text)
