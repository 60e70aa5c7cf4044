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
from replaykit.importers.errors import ending_of
from replaykit.importers.fields import Fields
from replaykit.importers.gathering import Gathering
from replaykit.importers.labels import Label, labelled
from replaykit.importers.otel.calls import seconds
from replaykit.importers.otel.meaning import UNSET
from replaykit.importers.otel.span import Span
from replaykit.importers.registry import Found
from replaykit.importers.replayable import Lack, with_lacks
from replaykit.importers.source import JsonPath, Source
from replaykit.model.events import ErrorInfo, ToolCall
from replaykit.model.run import Origin, RunStatus, TraceRun
from replaykit.model.values import Json, Raw, encode
from replaykit.wire.fields import as_object

_NOTHING: tuple[Json, ...] = (None, "", [], {})
_NO_ARGUMENTS = b"{}"
_MICROSECOND_NS = 1000
_LATEST = 4e9  # in seconds: the year 2096


class Record(Struct, frozen=True):
    """A record of a file, and where it stands."""

    source: Source
    value: Json
    path: JsonPath = ()

    @property
    def fields(self) -> Fields:
        """Taken apart; `InvalidFile` where it is no object."""
        return Fields(self.source, self.value, self.path)

    def error(self, message: str, *path: str | int) -> InvalidFile:
        """What is wrong with it."""
        return self.source.error(message, (*self.path, *path))


Keyed: TypeAlias = tuple[str | None, Record]
"""The id of the trace that a record is a part of; None for one that holds all of its trace."""
Trace: TypeAlias = list[Record]


class About(Struct, frozen=True, kw_only=True):
    """What a vendor says of a trace beside its spans."""

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
    source: Source, records: Callable[[Record], Iterable[Keyed | InvalidFile]]
) -> Iterator[Trace | InvalidFile]:
    """The records of each trace of a file. Those that hold all of one are given at once, others when all is read.

    `records` takes what a document holds apart, and says which of it is not of its format.
    """
    held: dict[str, Trace] = {}
    with Gathering(source.file) as gathering:
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


def listed(record: Record, *names: str) -> Iterator[Record]:
    """The records of a list, or of an object that has one under one of the names; else the record itself."""
    value, path = record.value, record.path
    name = next((name for name in names if isinstance(value, dict) and isinstance(value.get(name), list)), None)
    if name is not None:
        value, path = value[name], (*path, name)
    if not isinstance(value, list):
        yield record
        return
    for index, item in enumerate(value):
        yield Record(record.source, item, (*path, index))


def run_from(spans: Iterable[Span], about: About) -> Iterator[Found]:
    """The run of one trace's spans, and what there is to say of it."""
    from replaykit.importers.otel.trace import run_of  # noqa: PLC0415 (slow to import)

    known = {span.id: span for span in spans}
    trace = next((span.trace for span in known.values()), "")
    made = run_of(known.values())
    if made.run is None:
        yield f"trace {trace}: left aside, none of its spans is of an agent, a model or a tool"
        return
    run = labelled(_with(made.run, about), about.labels)
    yield with_lacks(run, _lacks(run, known, about), about.advice)
    missing = {span.parent for span in known.values() if span.parent} - known.keys()
    if missing:
        yield f"trace {trace}: {len(missing)} of its spans are named by others and are not there"


def nanoseconds(moment: float | None) -> int:
    """A time in seconds as spans have it; 0 where it is none, or one at which nothing ran."""
    return round(moment * 1e6) * _MICROSECOND_NS if moment is not None and 0 <= moment < _LATEST else 0


def identity(fields: Fields, *names: str) -> str:
    """An id, which has to be there and to say something."""
    found = fields.required_text(*names)
    if not found.strip():
        raise fields.error("is empty", *names)
    return found


def _taken_apart(
    source: Source, records: Callable[[Record], Iterable[Keyed | InvalidFile]]
) -> Iterator[Keyed | InvalidFile]:
    for document in source.documents():
        try:
            yield from records(Record(document, document.value))
        except InvalidFile as error:
            if not source.is_lines:
                raise
            yield error


def _text(record: Record) -> bytes:
    return encode(record.value) if record.path else record.source.text


def _again(source: Source, text: bytes, line: int) -> Record:
    piece = Source(text, source.file, line=line)
    return Record(piece, piece.value)


def _with(run: TraceRun, about: About) -> TraceRun:
    error, status = run.error, run.status
    if about.error is not None and status is RunStatus.SUCCESS:
        error, status = about.error, ending_of(about.error)
    elif about.is_running and status is RunStatus.SUCCESS:
        status = RunStatus.RUNNING
    told = as_object(run.metadata) | {name: value for name, value in about.metadata.items() if value not in _NOTHING}
    return msgspec.structs.replace(
        run,
        name=about.name or run.name,
        agent_version=about.version or run.agent_version,
        input_json=run.input_json if about.input is UNSET else Raw(encode(about.input)),
        output_json=run.output_json if about.output is UNSET or error is not None else Raw(encode(about.output)),
        error=error,
        status=status,
        tags=about.tags,
        metadata_json=Raw(encode(told)),
        origin=Origin(kind="imported", format=about.format),
    )


def _lacks(run: TraceRun, spans: Mapping[str, Span], about: About) -> dict[int, set[Lack]]:
    """What calls lack, by their numbers: a call began when its span did."""
    by_start: dict[float, set[Lack]] = {}
    for span_id, lacks in about.lacks.items():
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
