"""Exports of spans: what the formats of vendors who trace with spans of their own have in common.

A file's records are put together by their traces (`traces_in`), whichever way they lie in it; the spans that an
importer makes of them become the trace's run (`run_from`), with what the vendor says of the trace beside its spans.
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
"""The id of the trace that a record is a part of; None for one that holds all of its trace."""
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
    """The trace as a whole failed, where none of its spans says so."""
    is_running: bool = False
    metadata: Mapping[str, Json] = field(default_factory=dict)
    labels: tuple[Label, ...] = ()
    lacks: Mapping[str, Iterable[Lack]] = field(default_factory=dict)
    """By the ids of spans: what is not in them."""
    advice: tuple[str, ...] = ()


def read_traces(
    source: Source,
    records: Callable[[TraceItem], Iterable[Keyed | InvalidFile]],
    read: Callable[[Trace], Iterable[Found]],
) -> Iterator[Found]:
    """Read the run of each trace of a file.

    `records` takes what a document holds apart, and says which of it is not of its format. Records that hold all of a
    trace are read at once, others when all is gathered.
    """
    held: dict[str, Trace] = {}
    with PieceGroups(source.file) as gathering:
        for found in _records(source, records):
            if isinstance(found, InvalidFile):
                yield found
                continue
            key, record = found
            if key is None:
                yield from read([record])
            elif source.is_lines:
                gathering.add(key, _text(record), record.source.line)
            else:
                held.setdefault(key, []).append(record)
        for trace in held.values():
            yield from read(trace)
        for _key, pieces in gathering.groups():
            yield from read([_again(source, text, line) for text, line, _note in pieces])


def first_records(source: Source, *names: str) -> list[Json]:
    """Enough of the records to recognise a format by: the first two of each document, or of a list under a name."""
    found: list[Json] = []
    for value in source.first:
        found += [record.value for record in islice(TraceItem(source, value).members(*names), 2)]
    return found


def run_of_trace(spans: Iterable[Span], summary: TraceSummary) -> Iterator[Found]:
    """The run of one trace's spans, and what there is to say of it."""
    from replaykit.formats.spans.runs import run_of  # noqa: PLC0415 (slow to import)

    known = {span.id: span for span in spans}
    trace = next((span.trace for span in known.values()), "")
    result = run_of(known.values())
    if result.run is None:
        yield f"trace {trace}: left aside, none of its spans is of an agent, a model or a tool"
        return
    run = labelled(_with(result.run, summary), summary.labels)
    yield with_lacks(run, _lacks(run, known, summary), summary.advice)
    missing = {span.parent for span in known.values() if span.parent} - known.keys()
    if missing:
        yield f"trace {trace}: {len(missing)} of its spans are named by others and are not there"


def nanoseconds(moment: float | None) -> int:
    """A time in seconds as spans have it; 0 where it is none, or one at which nothing ran."""
    if moment is not None and 0 <= moment < _LATEST:
        return round(moment * 1e6) * _MICROSECOND_NS
    return 0


def identity(fields: Fields, *names: str) -> str:
    """An id, which has to be there and to say something."""
    found = fields.required_text(*names)
    if not found.strip():
        raise fields.error("is empty", *names)
    return found


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


def _again(source: Source, text: bytes, line: int) -> TraceItem:
    piece = Source(text, source.file, line=line)
    return TraceItem(piece, piece.value)


def _with(run: TraceRun, summary: TraceSummary) -> TraceRun:
    error, status = run.error, run.status
    if summary.error is not None and status is RunStatus.SUCCESS:
        error, status = summary.error, ending_of(summary.error)
    elif summary.is_running and status is RunStatus.SUCCESS:
        status = RunStatus.RUNNING
    input_json, output_json = run.input_json, run.output_json
    if summary.input is not UNSET:
        input_json = raw(summary.input)
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
    found: dict[int, set[Lack]] = {}
    for call in run.tool_calls:
        lacking = set(by_start.get(call.at, ()))
        if bytes(call.arguments_json) != _NO_ARGUMENTS:
            lacking.discard(Lack.ARGUMENTS)  # the conversation tells them
        if lacking:
            found[call.seq] = lacking
    return found
