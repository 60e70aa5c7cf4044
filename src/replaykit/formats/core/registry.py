"""The importers, by the name of the format they read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias

from msgspec import Struct

from replaykit.errors import InvalidFile
from replaykit.formats.core.source import Source
from replaykit.model.run import TraceRun
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
