"""Items: the members of a trace that is a list of things, however the file holds them.

one JSON list        [{…}, {…}]
one a line           JSONL, streamed
server-sent events   data: {…}, for the formats that are spoken over HTTP
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from replaykit.errors import InvalidFile
from replaykit.formats.core.fields import Fields
from replaykit.formats.core.registry import Found
from replaykit.formats.core.source import JsonPath, Source
from replaykit.model.values import Json

_DATA = b"data:"
_SSE = (_DATA, b"event:", b"id:", b"retry:", b":")


class TraceItem(Struct, frozen=True):
    """One member, and where it stands."""

    source: Source
    value: Json
    path: JsonPath = ()

    def error(self, message: str, *path: str | int) -> InvalidFile:
        """Return an error about it, or about its member at `path`."""
        return self.source.error(message, (*self.path, *path))

    def fields(self, what: str = "an object") -> Fields:
        """Its fields; `InvalidFile` when it is no object."""
        return Fields(self.source, self.value, self.path, what)


def of_each(source: Source, read: Callable[[Source], Iterable[Found]]) -> Iterator[Found]:
    """Read each document of the file; one that is wrong stops no other."""
    for document in source.documents():
        try:
            yield from read(document)
        except InvalidFile as problem:
            yield problem


def items_of(source: Source) -> Iterator[TraceItem | InvalidFile]:
    """Each member of the list, or each line; the document itself where it is no list. A bad line is an InvalidFile."""
    if not source.is_lines and is_sse(source):
        yield from _events(source)
        return
    for document in source.documents():
        try:
            value = document.value
        except InvalidFile as problem:
            if not source.is_lines:
                raise
            yield problem
            continue
        if isinstance(value, list) and not source.is_lines:
            yield from (TraceItem(document, item, (index,)) for index, item in enumerate(value))
        else:
            yield TraceItem(document, value)


def first_items(source: Source) -> list[Json]:
    """Enough of the members to recognise a format by: what is not JSON is passed over. Never raises."""
    if not source.is_lines and is_sse(source):
        return [value for event in _lines(source.head, source.file) if (value := event.peek()) is not None]
    values = source.first
    if len(values) == 1 and isinstance(values[0], list) and not source.is_lines:
        return values[0]
    return list(values)


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
