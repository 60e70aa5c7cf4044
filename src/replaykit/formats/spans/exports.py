"""Read exports of spans: the parts that the formats of vendors with their own spans share.

`read_traces` groups a file's records by trace, in whatever order they come. An importer turns them into spans, and
`run_of_trace` turns the spans into a run, with the vendor's own statements about the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from replaykit.errors import InvalidFile
from replaykit.formats.core.fields import Fields, TraceItem, ending_of
from replaykit.formats.core.labels import Label, labelled
from replaykit.formats.core.piece_groups import PieceGroups
from replaykit.formats.core.registry import Found
from replaykit.formats.core.replayability import Lack, with_lacks
from replaykit.formats.core.source import Source
from replaykit.formats.spans.calls import seconds
from replaykit.formats.spans.span import UNSET, Span
from replaykit.model.events import ErrorInfo
from replaykit.model.run import Origin, RunStatus, TraceRun
from replaykit.model.values import Json, encode, raw
from replaykit.wire.json_fields import as_object, filled

_NO_ARGUMENTS = b"{}"
_MICROSECOND_NS = 1000
_LATEST = 4e9  # in seconds: the year 2096


Keyed: TypeAlias = tuple[str | None, TraceItem]
"""A record with the id of its trace; None if the record holds its whole trace."""
Trace: TypeAlias = list[TraceItem]


class TraceSummary(Struct, frozen=True, kw_only=True):
    """A vendor's statements about a trace, beside its spans."""

    format: str
    name: str = ""
    version: str = ""
    tags: tuple[str, ...] = ()
    input: Json = UNSET
    output: Json = UNSET
    error: ErrorInfo | None = None
    """The error of the trace as a whole, if no span states it."""
    is_running: bool = False
    metadata: Mapping[str, Json] = field(default_factory=dict)
    labels: tuple[Label, ...] = ()
    lacks: Mapping[str, Iterable[Lack]] = field(default_factory=dict)
    """The gaps of spans, by span id."""
    advice: tuple[str, ...] = ()


def read_traces(
    source: Source,
    records: Callable[[TraceItem], Iterable[Keyed | InvalidFile]],
    read: Callable[[Trace], Iterable[Found]],
) -> Iterator[Found]:
    """Read the run of each trace in a file.

    `records` splits a document, and reports the parts that are not of its format. A record that holds a whole trace is
    read at once; others are read once all are grouped.
    """
    by_trace: dict[str, Trace] = {}
    with PieceGroups(source.file) as groups:
        # Lines of a trace may be far apart, so they are grouped first, on disk if there are many.
        for item in _records(source, records):
            if isinstance(item, InvalidFile):
                yield item
                continue
            key, record = item
            if key is None:
                yield from read([record])
            elif source.is_lines:
                groups.add(key, _text(record), record.source.line)
            else:
                by_trace.setdefault(key, []).append(record)
        for trace in by_trace.values():
            yield from read(trace)
        for _key, pieces in groups.groups():
            yield from read([_reparse(source, text, line) for text, line, _note in pieces])


def first_records(source: Source, *names: str) -> list[Json]:
    """Return enough records to recognise a format by: the first two of each document, or of a list under a name."""
    values: list[Json] = []
    for value in source.first:
        values += [record.value for record in islice(TraceItem(source, value).members(*names), 2)]
    return values


def run_of_trace(spans: Iterable[Span], summary: TraceSummary) -> Iterator[Found]:
    """Yield the run of one trace's spans, and notes about it."""
    from replaykit.formats.spans.runs import run_of  # noqa: PLC0415 (slow to import)

    # A span may be exported twice; the last copy wins.
    by_id = {span.id: span for span in spans}
    trace = next((span.trace for span in by_id.values()), "")
    result = run_of(by_id.values())
    if result.run is None:
        yield f"trace {trace}: skipped: no span belongs to an agent, a model or a tool"
        return
    run = labelled(_with(result.run, summary), summary.labels)
    yield with_lacks(run, _lacks(run, by_id, summary), summary.advice)
    missing = {span.parent for span in by_id.values() if span.parent} - by_id.keys()
    if missing:
        yield f"trace {trace}: {len(missing)} of its spans are named by others and are not there"


def nanoseconds(moment: float | None) -> int:
    """Return a time in seconds as nanoseconds, as spans have it; 0 if it is missing or out of range."""
    if moment is not None and 0 <= moment < _LATEST:
        return round(moment * 1e6) * _MICROSECOND_NS
    return 0


def identity(fields: Fields, *names: str) -> str:
    """Return an id; raise `InvalidFile` if it is missing or blank."""
    text = fields.required_text(*names)
    if not text.strip():
        raise fields.error("is empty", *names)
    return text


def _records(
    source: Source, records: Callable[[TraceItem], Iterable[Keyed | InvalidFile]]
) -> Iterator[Keyed | InvalidFile]:
    for document in source.documents():
        try:
            yield from records(TraceItem(document, document.value))
        except InvalidFile as error:
            if not source.is_lines:
                raise
            yield error


def _text(record: TraceItem) -> bytes:
    if record.path:
        return encode(record.value)
    return record.source.text


def _reparse(source: Source, text: bytes, line: int) -> TraceItem:
    piece = Source(text, source.file, line=line)
    return TraceItem(piece, piece.value)


def _with(run: TraceRun, summary: TraceSummary) -> TraceRun:
    error, status = run.error, run.status
    # A vendor's status only adds to what the spans say.
    if summary.error is not None and status is RunStatus.SUCCESS:
        error, status = summary.error, ending_of(summary.error)
    elif summary.is_running and status is RunStatus.SUCCESS:
        status = RunStatus.RUNNING
    input_json, output_json = run.input_json, run.output_json
    if summary.input is not UNSET:
        input_json = raw(summary.input)
    # A failed run has no output, whatever the trace's last answer was.
    if summary.output is not UNSET and error is None:
        output_json = raw(summary.output)
    return replace(
        run,
        name=summary.name or run.name,
        agent_version=summary.version or run.agent_version,
        input_json=input_json,
        output_json=output_json,
        error=error,
        status=status,
        tags=summary.tags,
        metadata_json=raw(as_object(run.metadata) | filled(summary.metadata)),
        origin=Origin(kind="imported", format=summary.format),
    )


def _lacks(run: TraceRun, spans: Mapping[str, Span], summary: TraceSummary) -> dict[int, set[Lack]]:
    """Return the gaps of calls by sequence number, matching calls and spans by their start."""
    by_start: dict[float, set[Lack]] = {}
    for span_id, lacks in summary.lacks.items():
        if span_id in spans:
            by_start.setdefault(seconds(spans[span_id].started_ns), set()).update(lacks)
    by_call: dict[int, set[Lack]] = {}
    for call in run.tool_calls:
        lacking = set(by_start.get(call.at, ()))
        if bytes(call.arguments_json) != _NO_ARGUMENTS:
            lacking.discard(Lack.ARGUMENTS)  # the conversation supplied them
        if lacking:
            by_call[call.seq] = lacking
    return by_call
