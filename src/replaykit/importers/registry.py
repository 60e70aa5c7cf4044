"""The importers, by the name of the format they read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeAlias

from msgspec import Struct

from replaykit.errors import InvalidFile
from replaykit.importers.source import Source
from replaykit.model.run import TraceRun
from replaykit.registry import Registry

Found: TypeAlias = TraceRun | InvalidFile | str
"""What is found in a file, one after another: a run, why one could not be read, or a remark about what was."""


class Imported(Struct, frozen=True, kw_only=True):
    """What an importer made of a file: its runs, and in words whatever it could not map."""

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
        """What people call it, and which files those are: for the table of formats."""

    def recognises(self, source: Source) -> bool:
        """True when the file is of this format. Never raises; looks at `source.first`, however long the file is."""

    def read(self, source: Source) -> Iterator[Found]:
        """The file's runs, one by one; raises `InvalidFile` where nothing more of it can be read."""


_HOMES = {
    "run_log": "replaykit.importers.run_log",
    "inspect": "replaykit.importers.inspect",
    "otlp": "replaykit.importers.otel",
    "otel_spans": "replaykit.importers.otel_spans",
    "phoenix": "replaykit.importers.phoenix",
    "trail": "replaykit.importers.trail",
    "atif": "replaykit.importers.atif",
    "langfuse": "replaykit.importers.langfuse",
    "mlflow": "replaykit.importers.mlflow",
    "openai_agents": "replaykit.importers.openai_agents",
    "langsmith": "replaykit.importers.langsmith",
    "tau2": "replaykit.importers.tau2",
    "tau_bench": "replaykit.importers.tau_bench",
    "swe_agent": "replaykit.importers.swe_agent",
    "openhands": "replaykit.importers.openhands",
    "who_and_when": "replaykit.importers.who_and_when",
    "claude_code": "replaykit.importers.claude_code",
    "claude_stream": "replaykit.importers.claude_stream",
    "anthropic_sessions": "replaykit.importers.anthropic_sessions",
    "ag_ui": "replaykit.importers.ag_ui",
    "a2a": "replaykit.importers.a2a",
    "har": "replaykit.importers.har",
    "pydantic_ai": "replaykit.importers.pydantic_ai",
    "ai_sdk": "replaykit.importers.ai_sdk",
    "langchain": "replaykit.importers.langchain",
    "openai_responses": "replaykit.importers.openai_responses",
    "anthropic": "replaykit.importers.anthropic",
    "gemini": "replaykit.importers.gemini",
    "openai_chat": "replaykit.importers.openai_chat",
    "replaykit": "replaykit.importers.native",
}
"""The built-in formats, each with the module that enters it. A file is tried with them in this order: what only one
format can look like goes before what many do."""

IMPORTERS: Registry[Importer] = Registry("importer", _HOMES)
"""Every trace format that can be read."""

_MAX_NOTES = 100


def is_built_in(name: str) -> bool:
    """True for a format that is part of ReplayKit."""
    return name in _HOMES


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
        raise nothing_found(source, problems, notes)
    left_out = some([problem.message for problem in problems])
    return Imported(format=importer.name, runs=tuple(runs), left_out=left_out, notes=some(notes))


def some(notes: list[str]) -> tuple[str, ...]:
    """As many of them as anybody reads, each once."""
    told = list(dict.fromkeys(notes))
    more = len(told) - _MAX_NOTES
    return (*told[:_MAX_NOTES], f"and {more} more") if more > 0 else tuple(told)


def nothing_found(source: Source, problems: list[InvalidFile], notes: list[str]) -> InvalidFile:
    """The error that says why a file gave no run."""
    if not problems:
        return InvalidFile("the file holds no run", file=source.file, hint="\n".join(some(notes)) or None)
    first, more = problems[0], len(problems) - 1
    hint = f"{more} more could not be read." if more else first.hint
    return InvalidFile(first.reason, file=first.file, line=first.line, hint=hint)
