"""The importers by format name, and the ways in which they split a file into items.

The items of a trace come in three forms:

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
"""An item of a file: a run, the reason why a run could not be read, or a note."""


class Imported(Struct, frozen=True, kw_only=True):
    """The runs of a file, and notes on data that has no place in a run."""

    format: str
    runs: tuple[TraceRun, ...]
    left_out: tuple[str, ...] = ()
    """Why other runs of the file could not be read: a bad run does not stop the others."""
    notes: tuple[str, ...] = ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """Notes and problems, one line each."""
        return (*(f"left out: {problem}" for problem in self.left_out), *self.notes)


class Importer(Protocol):
    """Reads one trace format."""

    @property
    def name(self) -> str:
        """The format's name, for `--format NAME` and a run's origin."""

    @property
    def title(self) -> str:
        """The display name and the files it covers, for the table of formats."""

    def recognises(self, source: Source) -> bool:
        """Return whether the file has this format. Looks at `source.first` only, however long the file is; never
        raises."""

    def read(self, source: Source) -> Iterator[Found]:
        """Yield the file's runs; raise `InvalidFile` if the rest of the file cannot be read."""


# The built-in formats and the modules that register them. A file is tried with them in this order: ReplayKit's own
# formats first, then those with distinctive members, last those that resemble many others.
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

IMPORTERS: Registry[Importer] = Registry("importer", _FORMATS)
"""All importers."""

_MAX_NOTES = 100


def importers_in_order() -> Iterator[Importer]:
    """Yield the importers in the order in which a file is tried; load a built-in one only when its turn comes."""
    for name in _FORMATS:
        yield IMPORTERS.get(name)
    for importer in IMPORTERS.values():
        if not is_built_in(importer.name):
            yield importer


def is_built_in(name: str) -> bool:
    return name in _FORMATS


def read_all(importer: Importer, source: Source) -> Imported:
    """Read everything in the file; raise `InvalidFile` if it holds no run."""
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
    """Drop repeated notes, and those beyond the first hundred."""
    unique = list(dict.fromkeys(notes))
    more = len(unique) - _MAX_NOTES
    if more > 0:
        return (*unique[:_MAX_NOTES], f"and {more} more")
    return tuple(unique)


def no_run_error(source: Source, problems: list[InvalidFile], notes: list[str]) -> InvalidFile:
    """Return an error that says why a file gave no run."""
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
    """Register a built-in format; the parameters are the members of an `Importer`."""
    IMPORTERS.register(name)(FormatImporter(name, title, recognises, read))


T = TypeVar("T")
R = TypeVar("R")
_DATA = b"data:"
_SSE = (_DATA, b"event:", b"id:", b"retry:", b":")


def of_each(source: Source, read: Callable[[Source], Iterable[Found]]) -> Iterator[Found]:
    """Read each document of the file; a bad one does not stop the others."""
    for document in source.documents():
        yield from safely(read, document)


def read_each(items: Iterable[T], read: Callable[[T], R]) -> Iterator[R | InvalidFile]:
    """Read each item; a bad one does not stop the others."""
    for item in items:
        try:
            yield read(item)
        except InvalidFile as problem:
            yield problem


def collect(items: Iterable[T | InvalidFile], read: Callable[[T], R], found: list[R]) -> Iterator[InvalidFile]:
    """Append the result of reading each item to `found`; yield the errors."""
    for item in items:
        if isinstance(item, InvalidFile):
            yield item
            continue
        try:
            found.append(read(item))
        except InvalidFile as problem:
            yield problem


class ItemReader(Struct, frozen=True, kw_only=True):
    """How the items of a file become runs."""

    is_item: Callable[[Json], object]
    expected: str
    """The error for any other item."""
    runs: Callable[[list[TraceItem]], Iterable[Found]]
    begins: Callable[[Json, Json], bool] = lambda _before, _value: False
    """True if an item starts another run than the item before it belongs to."""
    is_run: bool = False
    """True if each item is a run of its own."""

    def read(self, items: Iterable[TraceItem | InvalidFile]) -> Iterator[Found]:
        """Read runs from consecutive items; a bad one does not stop the others."""
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
    """Read an item; yield an error in it instead of raising it."""
    try:
        yield from read(item)
    except InvalidFile as problem:
        yield problem


def documents_in(source: Source) -> Iterator[TraceItem | InvalidFile]:
    """Yield each document of the file, or an `InvalidFile` if it is not JSON."""
    for document in source.documents():
        try:
            yield TraceItem(document, document.value)
        except InvalidFile as problem:
            yield problem


def items_of(source: Source) -> Iterator[TraceItem | InvalidFile]:
    """Yield each line or list member; the document itself if it is not a list. A bad line becomes an `InvalidFile`."""
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
    """Return enough items to recognise a format by; skip what is not JSON. Never raises."""
    if not source.is_lines and is_sse(source):
        values = [event.peek() for event in _lines(source.head, source.file)]
        return [value for value in values if value is not None]
    values = list(source.first)
    if len(values) == 1 and isinstance(values[0], list) and not source.is_lines:
        return values[0]
    return values


def nothing_of(source: Source, expected: str) -> InvalidFile:
    """Return why the file holds nothing of a format: it is not JSON, or not what was expected."""
    if not source.is_lines and not is_sse(source):
        try:
            _ = source.value
        except InvalidFile as problem:
            return problem
    return InvalidFile(expected, file=source.file)


def mostly(test: Callable[[Json], object], values: Sequence[Json]) -> bool:
    """Return whether more than half of the values pass: a file with a bad member still has its format."""
    return 2 * sum(map(bool, map(test, values))) > len(values)


def is_sse(source: Source) -> bool:
    """Return whether the file is a stream of server-sent events."""
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
    """Yield the data of each event, which may span several lines up to an empty one."""
    begun, data = 0, []
    for number, line in enumerate((*text.replace(b"\r\n", b"\n").split(b"\n"), b""), 1):
        if line.startswith(_DATA):
            begun = begun or number
            data.append(line.removeprefix(_DATA))
        elif not line.strip() and data:
            event = b"\n".join(data)
            if event.strip() != b"[DONE]":  # how OpenAI and compatible APIs end a stream
                yield Source(event, file, line=begun)
            begun, data = 0, []
