"""Items: the members of a trace that is a list of things, however the file holds them.

one JSON list        [{…}, {…}]
one a line           JSONL, streamed
server-sent events   data: {…}, for the formats that are spoken over HTTP
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from msgspec import Struct

from replaykit.errors import InvalidFile
from replaykit.formats.core.fields import TraceItem
from replaykit.formats.core.registry import Found
from replaykit.formats.core.source import Source
from replaykit.model.values import Json

T = TypeVar("T")
R = TypeVar("R")
_DATA = b"data:"
_SSE = (_DATA, b"event:", b"id:", b"retry:", b":")


def of_each(source: Source, read: Callable[[Source], Iterable[Found]]) -> Iterator[Found]:
    """Read each document of the file; one that is wrong stops no other."""
    for document in source.documents():
        yield from _safely(read, document)


def read_each(items: Iterable[T], read: Callable[[T], Found]) -> Iterator[Found]:
    """Read the run of each item; one that is wrong stops no other."""
    for item in items:
        try:
            yield read(item)
        except InvalidFile as problem:
            yield problem


def collect(items: Iterable[T | InvalidFile], read: Callable[[T], R], found: list[R]) -> Iterator[InvalidFile]:
    """Add what is read of each item to `found`; yields why others cannot be read."""
    for item in items:
        if isinstance(item, InvalidFile):
            yield item
            continue
        try:
            found.append(read(item))
        except InvalidFile as problem:
            yield problem


class ItemReader(Struct, frozen=True, kw_only=True):
    """The way in which the items of a file of one shape become runs."""

    is_item: Callable[[Json], object]
    expected: str
    """The error about anything else."""
    runs: Callable[[list[TraceItem]], Iterable[Found]]
    begins: Callable[[Json, Json], bool] = lambda _before, _value: False
    """True for an item that is not of the run of the one before it."""
    is_run: bool = False
    """True where each item is a run of its own."""

    def read(self, items: Iterable[TraceItem | InvalidFile]) -> Iterator[Found]:
        """Read runs of items that follow each other; one that is wrong stops no other."""
        waiting: list[TraceItem] = []
        for item in items:
            if isinstance(item, InvalidFile):
                yield item
            elif not self.is_item(item.value):
                yield item.error(self.expected)
            elif self.is_run:
                yield from _safely(self.runs, [item])
            else:
                if waiting and self.begins(waiting[-1].value, item.value):
                    yield from _safely(self.runs, waiting)
                    waiting = []
                waiting.append(item)
        if waiting:
            yield from _safely(self.runs, waiting)


def _safely(read: Callable[[T], Iterable[Found]], item: T) -> Iterator[Found]:
    try:
        yield from read(item)
    except InvalidFile as problem:
        yield problem


def items_of(source: Source) -> Iterator[TraceItem | InvalidFile]:
    """Each member of the list, or each line; the document itself where it is no list. A bad line is an InvalidFile."""
    if not source.is_lines and is_sse(source):
        yield from _events(source)
        return
    for document in source.documents():
        try:
            item = TraceItem(document, document.value)
        except InvalidFile as problem:
            if not source.is_lines:
                raise
            yield problem
            continue
        if source.is_lines:
            yield item
        else:
            yield from item.members()


def first_items(source: Source) -> list[Json]:
    """Enough of the members to recognise a format by: what is not JSON is passed over. Never raises."""
    if not source.is_lines and is_sse(source):
        values = [event.peek() for event in _lines(source.head, source.file)]
        return [value for value in values if value is not None]
    values = list(source.first)
    if len(values) == 1 and isinstance(values[0], list) and not source.is_lines:
        return values[0]
    return values


def nothing_of(source: Source, expected: str) -> InvalidFile:
    """Why the file holds nothing of a format: it is not even JSON, or it is something else than was expected."""
    if not source.is_lines and not is_sse(source):
        try:
            _ = source.value
        except InvalidFile as problem:
            return problem
    return InvalidFile(expected, file=source.file)


def mostly(test: Callable[[Json], object], values: Sequence[Json]) -> bool:
    """True when more than half of the values pass: a file with a bad member is still of its format."""
    return 2 * sum(map(bool, map(test, values))) > len(values)


def is_sse(source: Source) -> bool:
    """True when the file is the text of a stream of server-sent events."""
    if not source.is_text:
        return False
    lines = [line for line in source.head.split(b"\n", 64)[:64] if line.strip()]
    return bool(lines) and lines[0].startswith(_SSE) and any(line.startswith(_DATA) for line in lines)


def _events(source: Source) -> Iterator[TraceItem | InvalidFile]:
    for event in _lines(source.text, source.file):
        try:
            yield TraceItem(event, event.value)
        except InvalidFile as problem:
            yield problem


def _lines(text: bytes, file: str) -> Iterator[Source]:
    """The data of each event: lines of data that no empty line parts are one."""
    begun, data = 0, []
    for number, line in enumerate((*text.replace(b"\r\n", b"\n").split(b"\n"), b""), 1):
        if line.startswith(_DATA):
            begun = begun or number
            data.append(line.removeprefix(_DATA))
        elif not line.strip() and data:
            event = b"\n".join(data)
            if event.strip() != b"[DONE]":
                yield Source(event, file, line=begun)
            begun, data = 0, []
