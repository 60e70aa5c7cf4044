"""Exports of spans: what the formats of vendors who trace with spans of their own have in common.

A file's records are put together by their traces (`traces_in`), whichever way they lie in it; the spans that an
importer makes of them become the trace's run (`run_from`), with what the vendor says of the trace beside its spans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec
from msgspec import Struct, field

from replaykit.errors import InvalidFile
from replaykit.formats.core.errors import ending_of
from replaykit.formats.core.fields import Fields
from replaykit.formats.core.labels import Label, labelled
from replaykit.formats.core.piece_groups import PieceGroups
from replaykit.formats.core.registry import Found
from replaykit.formats.core.replayability import Lack, with_lacks
from replaykit.formats.core.source import JsonPath, Source
from replaykit.formats.spans.calls import seconds
from replaykit.formats.spans.meaning import UNSET
from replaykit.formats.spans.span import Span
from replaykit.model.events import ErrorInfo, ToolCall
from replaykit.model.run import Origin, RunStatus, TraceRun
from replaykit.model.values import Json, Raw, encode
from replaykit.wire.json_fields import as_object

_NOTHING: tuple[Json, ...] = (None, "", [], {})
_NO_ARGUMENTS = b"{}"
_MICROSECOND_NS = 1000
_LATEST = 4e9  # in seconds: the year 2096


class SpanRecord(Struct, frozen=True):
    """A record of a file, and where it stands."""

    source: Source
    value: Json
    path: JsonPath = ()

    @property
    def fields(self) -> Fields:
        """Taken apart; `InvalidFile` where it is no object."""
        return Fields(self.source, self.value, self.path)

    def error(self, message: str, *path: str | int) -> InvalidFile:
        """Return an error about it."""
        return self.source.error(message, (*self.path, *path))


Keyed: TypeAlias = tuple[str | None, SpanRecord]
"""The id of the trace that a record is a part of; None for one that holds all of its trace."""
Trace: TypeAlias = list[SpanRecord]


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


def traces_in(
    source: Source, records: Callable[[SpanRecord], Iterable[Keyed | InvalidFile]]
) -> Iterator[Trace | InvalidFile]:
    """The records of each trace of a file. Those that hold all of one are given at once, others when all is read.

    `records` takes what a document holds apart, and says which of it is not of its format.
    """
    held: dict[str, Trace] = {}
    with PieceGroups(source.file) as gathering:
        for found in _taken_apart(source, records):
            if isinstance(found, InvalidFile):
                yield found
                continue
            key, record = found
            if key is None:
                yield [record]
            elif source.is_lines:
                gathering.add(key, _text(record), record.source.line)
            else:
                held.setdefault(key, []).append(record)
        yield from held.values()
        for _key, pieces in gathering.groups():
            yield [_again(source, text, line) for text, line, _note in pieces]


def listed(record: SpanRecord, *names: str) -> Iterator[SpanRecord]:
    """The records of a list, or of an object that has one under one of the names; else the record itself."""
    value, path = record.value, record.path
    name = next((name for name in names if isinstance(value, dict) and isinstance(value.get(name), list)), None)
    if name is not None:
        value, path = value[name], (*path, name)
    if not isinstance(value, list):
        yield record
        return
    for index, item in enumerate(value):
        yield SpanRecord(record.source, item, (*path, index))


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


def _taken_apart(
    source: Source, records: Callable[[SpanRecord], Iterable[Keyed | InvalidFile]]
) -> Iterator[Keyed | InvalidFile]:
    for document in source.documents():
        try:
            yield from records(SpanRecord(document, document.value))
        except InvalidFile as error:
            if not source.is_lines:
                raise
            yield error


def _text(record: SpanRecord) -> bytes:
    if record.path:
        return encode(record.value)
    return record.source.text


def _again(source: Source, text: bytes, line: int) -> SpanRecord:
    piece = Source(text, source.file, line=line)
    return SpanRecord(piece, piece.value)


def _with(run: TraceRun, summary: TraceSummary) -> TraceRun:
    error, status = run.error, run.status
    if summary.error is not None and status is RunStatus.SUCCESS:
        error, status = summary.error, ending_of(summary.error)
    elif summary.is_running and status is RunStatus.SUCCESS:
        status = RunStatus.RUNNING
    metadata = as_object(run.metadata) | {
        name: value for name, value in summary.metadata.items() if value not in _NOTHING
    }
    return msgspec.structs.replace(
        run,
        name=summary.name or run.name,
        agent_version=summary.version or run.agent_version,
        input_json=run.input_json if summary.input is UNSET else Raw(encode(summary.input)),
        output_json=run.output_json if summary.output is UNSET or error is not None else Raw(encode(summary.output)),
        error=error,
        status=status,
        tags=summary.tags,
        metadata_json=Raw(encode(metadata)),
        origin=Origin(kind="imported", format=summary.format),
    )


def _lacks(run: TraceRun, spans: Mapping[str, Span], summary: TraceSummary) -> dict[int, set[Lack]]:
    """Return the gaps of calls by sequence number, matching calls and spans by their start."""
    by_start: dict[float, set[Lack]] = {}
    for span_id, lacks in summary.lacks.items():
        if span_id in spans:
            by_start.setdefault(seconds(spans[span_id].started_ns), set()).update(lacks)
    found: dict[int, set[Lack]] = {}
    for event in run.events:
        lacking = set(by_start.get(event.at, ()))
        if not isinstance(event, ToolCall):
            continue
        if bytes(event.arguments_json) != _NO_ARGUMENTS:
            lacking.discard(Lack.ARGUMENTS)  # the conversation tells them
        if lacking:
            found[event.seq] = lacking
    return found
