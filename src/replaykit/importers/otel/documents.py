"""What stands in a file of OTLP: one export request, a list of them, or one a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from replaykit.importers.otel import protobuf
from replaykit.importers.otel.collecting import merged
from replaykit.importers.otel.otlp_json import is_otlp, read_document
from replaykit.importers.otel.span import BadPayload, Reading, Span
from replaykit.importers.source import Source
from replaykit.model.values import Json


def holds_otlp(source: Source) -> bool:
    """True when the file's first document is an export request, as JSON or as protobuf."""
    if source.first:
        return any(is_otlp(value[0] if isinstance(value, list) and value else value) for value in source.first)
    return any(map(protobuf.is_traces, protobuf.messages_in(source.text)[:1]))


def read_file(source: Source) -> Reading:
    """The spans of a file; `InvalidFile` says what is wrong, and on which line."""
    if not source.first and protobuf.is_traces(protobuf.messages_in(source.text)[0]):
        return _merged(source, (protobuf.read_traces(message) for message in protobuf.messages_in(source.text)))
    return _merged(source, map(read_document, _documents(source)))


def by_trace(spans: Iterable[Span]) -> dict[str, list[Span]]:
    """The spans by the traces they belong to."""
    found: dict[str, list[Span]] = {}
    for span in spans:
        found.setdefault(span.trace, []).append(span)
    return found


def _merged(source: Source, readings: Iterable[Reading]) -> Reading:
    try:
        return merged(readings)
    except BadPayload as error:
        raise source.error(f"not OTLP: {error}") from None


def _documents(source: Source) -> Iterator[Json]:
    for document in source.documents():
        value = document.value
        yield from value if isinstance(value, list) else [value]
