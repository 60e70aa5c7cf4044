"""What stands in a file of OTLP: one export request, a list of them, or one a line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from replaykit.errors import InvalidFile
from replaykit.importers.gathering import Gathering
from replaykit.importers.otel import protobuf, splitting
from replaykit.importers.otel.collecting import merged
from replaykit.importers.otel.otlp_json import EXPECTED, is_otlp, read_document
from replaykit.importers.otel.quick_json import Heads, read_pieces
from replaykit.importers.otel.span import BadPayload, Reading, Span
from replaykit.importers.source import Source
from replaykit.model.values import Json, encode_read


def holds_otlp(source: Source) -> bool:
    """True when the file's first document is an export request, as JSON or as protobuf."""
    if source.first:
        return any(is_otlp(value[0] if isinstance(value, list) and value else value) for value in source.first)
    return _protobuf_reader(source) is not None


def read_traces(source: Source) -> Iterator[Reading | InvalidFile]:
    """What a file holds, each trace of it in one reading, and the lines of it that cannot be read."""
    if not source.is_lines:
        yield from _strangers(source)
        yield read_file(source)
        return
    heads = Heads()
    with Gathering(source.file, original=source.original()) as gathered:
        for line in source.documents():
            problem = _gather(gathered, heads, line)
            if problem is not None:
                yield problem
        for _trace, pieces in gathered.groups():
            yield read_pieces(pieces, heads)


def read_file(source: Source) -> Reading:
    """The spans of a file that is one document; `InvalidFile` says what is wrong, and on which line."""
    reader = None if source.first else _protobuf_reader(source)
    if reader is not None:
        return _merged(source, map(reader, protobuf.messages_in(source.text)))
    return _merged(source, map(read_document, _listed(source.value)))


def by_trace(spans: Iterable[Span]) -> dict[str, list[Span]]:
    """The spans by the traces they belong to."""
    found: dict[str, list[Span]] = {}
    for span in spans:
        found.setdefault(span.trace, []).append(span)
    return found


def _protobuf_reader(source: Source) -> Callable[[bytes], Reading] | None:
    """What reads the file's messages; None where they are none of OTLP."""
    first = protobuf.messages_in(source.text)[0]
    return (
        protobuf.read_traces if protobuf.is_traces(first) else protobuf.read_logs if protobuf.is_logs(first) else None
    )


def _strangers(source: Source) -> Iterator[InvalidFile]:
    """What stands in a document that is no request."""
    for value in source.first:
        for index, item in enumerate(_listed(value)):
            if not _is_request(item):
                yield source.error(f"not OTLP: {EXPECTED}", (index,) if isinstance(value, list) else ())


def _gather(gathered: Gathering, heads: Heads, line: Source, mended: bytes = b"") -> InvalidFile | None:
    """Take a line apart, or what it was mended to; why that cannot be done, where it cannot."""
    text, end, found = mended or line.text, 0, False
    try:
        for trace, head, item in splitting.by_trace(text):
            found = True
            number = heads.number(head)
            place = splitting.place_of(item, text, end) if number and gathered.reads_again and not mended else None
            if place is not None:
                gathered.add_place(trace, line.at + place, len(item), line.line, number)
                end = place + len(item)
            else:
                gathered.add(trace, bytes(item) if number else heads.joined(head, item), line.line, number)
        if not found and not all(map(_is_request, _listed(line.value))):
            return line.error(f"not OTLP: {EXPECTED}")
    except msgspec.MsgspecError as error:
        try:
            _merged(line, map(read_document, _listed(line.value)))
        except InvalidFile as problem:
            return problem
        if found or mended:
            return line.error(f"not OTLP: {error}")
        return _gather(gathered, heads, line, encode_read(line.value))
    return None


def _merged(source: Source, readings: Iterable[Reading]) -> Reading:
    try:
        return merged(readings)
    except BadPayload as error:
        raise source.error(f"not OTLP: {error}") from None


def _is_request(value: Json) -> bool:
    return is_otlp(value) or (isinstance(value, dict) and "resourceMetrics" in value)


def _listed(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [value]
