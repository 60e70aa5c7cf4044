"""The importers, by the name of the format they read, and how they take a file apart.

A trace that is a list of things may lie in a file in three ways:

one JSON list        [{…}, {…}]
one a line           JSONL, streamed
server-sent events   data: {…}, for the formats that are spoken over HTTP
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeAlias, TypeVar

from msgspec import Struct

from replaykit.errors import InvalidFile
from replaykit.formats.core.fields import TraceItem
from replaykit.formats.core.source import Source
from replaykit.model.run import TraceRun
from replaykit.model.values import Json
from replaykit.registry import Registry

Found: TypeAlias = TraceRun | InvalidFile | str
"""An item of a file: a run, the reason why one could not be read, or a remark."""


class Imported(Struct, frozen=True, kw_only=True):
    """The runs of a file, and notes on what could not be mapped."""

    format: str
    runs: tuple[TraceRun, ...]
    left_out: tuple[str, ...] = ()
    """Runs of the file that could not be read, and why: one bad one stops no other."""
    notes: tuple[str, ...] = ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """All there is to say, one line each."""
        return (*(f"left out: {problem}" for problem in self.left_out), *self.notes)


class Importer(Protocol):
    """Reads one trace format."""

    @property
    def name(self) -> str:
        """The format's name, as in `--format NAME` and in a run's origin."""

    @property
    def title(self) -> str:
        """The display name and the files it covers, for the table of formats."""

    def recognises(self, source: Source) -> bool:
        """True when the file is of this format. Never raises; looks at `source.first`, however long the file is."""

    def read(self, source: Source) -> Iterator[Found]:
        """The file's runs, one by one; raises `InvalidFile` where nothing more of it can be read."""


_FORMATS = {
    "replaykit": "replaykit.formats.native",
    "run_log": "replaykit.formats.run_log",
    "inspect": "replaykit.formats.inspect",
    "otlp": "replaykit.formats.otel",
    "otel_spans": "replaykit.formats.otel_spans",
    "phoenix": "replaykit.formats.phoenix",
    "trail": "replaykit.formats.trail",
    "atif": "replaykit.formats.atif",
    "langfuse": "replaykit.formats.langfuse",
    "mlflow": "replaykit.formats.mlflow",
    "openai_agents": "replaykit.formats.openai_agents",
    "langsmith": "replaykit.formats.langsmith",
    "tau2": "replaykit.formats.tau2",
    "tau_bench": "replaykit.formats.tau_bench",
    "swe_agent": "replaykit.formats.swe_agent",
    "openhands": "replaykit.formats.openhands",
    "who_and_when": "replaykit.formats.who_and_when",
    "claude_code": "replaykit.formats.claude_code",
    "claude_stream": "replaykit.formats.claude_stream",
    "anthropic_sessions": "replaykit.formats.anthropic_sessions",
    "ag_ui": "replaykit.formats.ag_ui",
    "a2a": "replaykit.formats.a2a",
    "har": "replaykit.formats.har",
    "pydantic_ai": "replaykit.formats.pydantic_ai",
    "ai_sdk": "replaykit.formats.ai_sdk",
    "langchain": "replaykit.formats.langchain",
    "openai_responses": "replaykit.formats.openai_responses",
    "anthropic": "replaykit.formats.anthropic",
    "gemini": "replaykit.formats.gemini",
    "openai_chat": "replaykit.formats.openai_chat",
}
"""The built-in formats and the modules that register them. A file is tried with them in this order: ReplayKit's own
formats first, then those with distinctive members, last those that look like many others."""

IMPORTERS: Registry[Importer] = Registry("importer", _FORMATS)
"""Every trace format that can be read."""

_MAX_NOTES = 100


def importers_in_order() -> Iterator[Importer]:
    """Return the importers in the order in which a file is tried; a built-in one is loaded when it is its turn."""
    for name in _FORMATS:
        yield IMPORTERS.get(name)
    for importer in IMPORTERS.values():
        if not is_built_in(importer.name):
            yield importer


def is_built_in(name: str) -> bool:
    """True for a format that is part of ReplayKit."""
    return name in _FORMATS


def read_all(importer: Importer, source: Source) -> Imported:
    """Everything that the importer finds; `InvalidFile` when that is no run at all."""
    runs: list[TraceRun] = []
    problems: list[InvalidFile] = []
    notes: list[str] = []
    for found in importer.read(source):
        if isinstance(found, TraceRun):
            runs.append(found)
        elif isinstance(found, InvalidFile):
            problems.append(found)
        else:
            notes.append(found)
    if not runs:
        raise no_run_error(source, problems, notes)
    left_out = shorten_notes([problem.message for problem in problems])
    return Imported(format=importer.name, runs=tuple(runs), left_out=left_out, notes=shorten_notes(notes))


def shorten_notes(notes: list[str]) -> tuple[str, ...]:
    """As many of them as anybody reads, each once."""
    unique = list(dict.fromkeys(notes))
    more = len(unique) - _MAX_NOTES
    if more > 0:
        return (*unique[:_MAX_NOTES], f"and {more} more")
    return tuple(unique)


def no_run_error(source: Source, problems: list[InvalidFile], notes: list[str]) -> InvalidFile:
    """The error that says why a file gave no run."""
    if not problems:
        return InvalidFile("the file holds no run", file=source.file, hint="\n".join(shorten_notes(notes)) or None)
    first, more = problems[0], len(problems) - 1
    hint = f"{more} more could not be read." if more else first.hint
    return InvalidFile(first.reason, file=first.file, line=first.line, hint=hint)


class FormatImporter(Struct, frozen=True):
    """The importer of a built-in format."""

    name: str
    title: str
    recognises: Callable[[Source], bool]
    read: Callable[[Source], Iterator[Found]]


def register_format(
    name: str, title: str, recognises: Callable[[Source], bool], read: Callable[[Source], Iterator[Found]]
) -> None:
    """Enter a built-in format; the parameters are the members of an `Importer`."""
    IMPORTERS.register(name)(FormatImporter(name, title, recognises, read))


T = TypeVar("T")
R = TypeVar("R")
_DATA = b"data:"
_SSE = (_DATA, b"event:", b"id:", b"retry:", b":")


def of_each(source: Source, read: Callable[[Source], Iterable[Found]]) -> Iterator[Found]:
    """Read each document of the file; one that is wrong stops no other."""
    for document in source.documents():
        yield from safely(read, document)


def read_each(items: Iterable[T], read: Callable[[T], R]) -> Iterator[R | InvalidFile]:
    """Read each item; one that is wrong stops no other."""
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
                yield from safely(self.runs, [item])
            else:
                if waiting and self.begins(waiting[-1].value, item.value):
                    yield from safely(self.runs, waiting)
                    waiting = []
                waiting.append(item)
        if waiting:
            yield from safely(self.runs, waiting)


def safely(read: Callable[[T], Iterable[Found]], item: T) -> Iterator[Found]:
    """Read an item; what is wrong with it is one more thing that was found."""
    try:
        yield from read(item)
    except InvalidFile as problem:
        yield problem


def documents_in(source: Source) -> Iterator[TraceItem | InvalidFile]:
    """Each document of the file; one that is not JSON is an InvalidFile."""
    for document in source.documents():
        try:
            yield TraceItem(document, document.value)
        except InvalidFile as problem:
            yield problem


def items_of(source: Source) -> Iterator[TraceItem | InvalidFile]:
    """Each member of the list, or each line; the document itself where it is no list. A bad line is an InvalidFile."""
    if not source.is_lines and is_sse(source):
        yield from _events(source)
        return
    for item in documents_in(source):
        if source.is_lines:
            yield item
        elif isinstance(item, InvalidFile):
            raise item
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
            if event.strip() != b"[DONE]":  # how OpenAI, and those who speak alike, end a stream
                yield Source(event, file, line=begun)
            begun, data = 0, []
