"""OpenTelemetry traces: OTLP as JSON (one document, a list, or one on each line) and as protobuf.

Each trace becomes a run with the trace's id. `formats.spans` turns spans into runs, for files and for the receiver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from replaykit.errors import InvalidFile
from replaykit.formats.core.piece_groups import PieceGroups
from replaykit.formats.core.registry import Found, register_format
from replaykit.formats.core.source import Source
from replaykit.formats.otel import fast_json, protobuf
from replaykit.formats.otel.fast_json import Heads, read_pieces
from replaykit.formats.otel.otlp_json import EXPECTED, is_otlp, read_document
from replaykit.formats.spans.span import FORMAT, BadPayload, Span, SpanReading, merged
from replaykit.model.values import Json, encode_read

_NO_AGENT = "skipped: no span belongs to an agent, a model or a tool"
_ONLY_LOGS = "only log records of it are here; put them into one file with its spans, a request on each line"


def _read_file(source: Source) -> Iterator[Found]:
    from replaykit.formats.core.messages import ConversationCache  # noqa: PLC0415 (slow to import)
    from replaykit.formats.spans.runs import run_of  # noqa: PLC0415 (slow to import)

    rejected, first_rejection, cache = 0, None, ConversationCache()
    for reading in read_traces(source):
        if isinstance(reading, InvalidFile):
            yield reading
            continue
        rejected += reading.rejected
        if first_rejection is None and reading.rejected:
            first_rejection = reading
        for trace, spans in by_trace(reading.spans).items():
            result = run_of(spans, cache)
            if result.run is not None:
                yield result.run
            elif all(span.is_aside for span in spans):
                yield f"trace {trace}: {_ONLY_LOGS}"
            else:
                yield f"trace {trace}: {_NO_AGENT}"
            yield from result.notes
    if first_rejection is not None:
        problem = f"{rejected} spans are not OTLP: {first_rejection.problem}"
        yield InvalidFile(problem, file=source.file, line=first_rejection.line)


register_format(
    FORMAT,
    "OpenTelemetry: OTLP, JSON and protobuf (GenAI, OpenInference, OpenLLMetry, Langfuse, Vercel, Pydantic AI)",
    lambda source: holds_otlp(source),
    _read_file,
)


def holds_otlp(source: Source) -> bool:
    """Return whether the file's first document is an export request, in JSON or protobuf."""
    if source.first:
        # Files of collectors may hold a list of requests on each line.
        return any(is_otlp(value[0] if isinstance(value, list) and value else value) for value in source.first)
    return _protobuf_reader(source) is not None


def read_traces(source: Source) -> Iterator[SpanReading | InvalidFile]:
    """Yield one reading for each trace of a file, and an error for each line that cannot be read."""
    if not source.is_lines:
        yield from _foreign_items(source)
        yield read_file(source)
        return
    heads = Heads()
    with PieceGroups(source.file, original=source.original()) as groups:
        for line in source.documents():
            problem = _gather(groups, heads, line)
            if problem is not None:
                yield problem
        for _trace, pieces in groups.groups():
            yield read_pieces(pieces, heads)


def read_file(source: Source) -> SpanReading:
    """Read a file that is one document; raise `InvalidFile`, with the line, if it is malformed."""
    reader = None
    if not source.first:
        reader = _protobuf_reader(source)
    if reader is not None:
        return _merged(source, map(reader, protobuf.messages_in(source.text)))
    return _merged(source, map(read_document, _listed(source.value)))


def by_trace(spans: Iterable[Span]) -> dict[str, list[Span]]:
    """Group spans by trace."""
    traces: dict[str, list[Span]] = {}
    for span in spans:
        traces.setdefault(span.trace, []).append(span)
    return traces


def _protobuf_reader(source: Source) -> Callable[[bytes], SpanReading] | None:
    """Return the reader for the file's protobuf messages; None if they are not OTLP."""
    first = protobuf.messages_in(source.text)[0]
    if protobuf.is_traces(first):
        return protobuf.read_traces
    if protobuf.is_logs(first):
        return protobuf.read_logs
    return None


def _foreign_items(source: Source) -> Iterator[InvalidFile]:
    """Yield an error for each item of a document that is not a request."""
    for value in source.first:
        for index, item in enumerate(_listed(value)):
            if not _is_request(item):
                yield source.error(f"not OTLP: {EXPECTED}", (index,) if isinstance(value, list) else ())


def _gather(groups: PieceGroups, heads: Heads, line: Source, repaired: bytes = b"") -> InvalidFile | None:
    """Split a line into spans, or its re-encoded form if the text itself cannot be split; return an error if that
    fails."""
    text, end, has_spans = repaired or line.text, 0, False
    try:
        for trace, head, item in fast_json.split_by_trace(text):
            has_spans = True
            number = heads.number(head)
            if number and groups.reads_again and not repaired:
                place = fast_json.place_of(item, text, end)
            else:
                place = None
            if place is not None:
                groups.add_place(trace, line.at + place, len(item), line.line, number)
                end = place + len(item)
            else:
                groups.add(trace, bytes(item) if number else heads.joined(head, item), line.line, number)
        # Empty requests and metrics are valid OTLP without spans.
        if not has_spans and not all(map(_is_request, _listed(line.value))):
            return line.error(f"not OTLP: {EXPECTED}")
    except msgspec.MsgspecError as error:
        # The general reader decides whether the line is malformed, or only unusual.
        try:
            _merged(line, map(read_document, _listed(line.value)))
        except InvalidFile as problem:
            return problem
        if has_spans or repaired:
            return line.error(f"not OTLP: {error}")
        return _gather(groups, heads, line, encode_read(line.value))
    return None


def _merged(source: Source, readings: Iterable[SpanReading]) -> SpanReading:
    try:
        return merged(readings)
    except BadPayload as error:
        raise source.error(f"not OTLP: {error}") from None


def _is_request(value: Json) -> bool:
    return is_otlp(value) or (isinstance(value, dict) and "resourceMetrics" in value)


def _listed(value: Json) -> list[Json]:
    if isinstance(value, list):
        return value
    return [value]
