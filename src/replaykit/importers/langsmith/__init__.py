"""LangSmith runs: what its client, its API, its webhooks and its SDKs write.

    {run} with `child_runs`   [run, …]   {runs: [run, …]}   {items: [run, …]}   {post: [run, …], patch: [run, …]}

Any of them may also stand on a line of its own (JSONL). Runs are put together by their id and become one run for
each root. A root that cannot be read, or has a child that cannot, is left out and named, and the others are imported.
"""

from __future__ import annotations

from collections.abc import Sequence

from replaykit.errors import InvalidFile
from replaykit.importers.langsmith.collecting import Node, collect
from replaykit.importers.langsmith.documents import FORMAT, documents, holds_runs
from replaykit.importers.registry import IMPORTERS, Imported
from replaykit.importers.source import JsonPath, Source
from replaykit.model.run import TraceRun
from replaykit.model.values import Json

_WITH_LINES = 10
_SCANNED_BYTES = 16 * 1024 * 1024  # to find a line is to scan the file, which for each bad run of many takes too long
_MAX_NOTES = 100


class LangSmithImporter:
    """Reads runs of LangSmith."""

    name = FORMAT

    def recognises(self, source: Source) -> bool:
        return holds_runs(source)

    def read(self, source: Source) -> Imported:
        source, problems, found = documents(source)
        runs: list[TraceRun] = []
        notes: list[str] = []
        with_lines = max(1, min(_WITH_LINES, _SCANNED_BYTES // (len(source.text) + 1)))
        for root in collect(found):
            try:
                runs.append(_read(source if len(problems) < with_lines else _Unplaced(source), root, notes))
            except InvalidFile as problem:
                problems.append(problem)
        if not runs:
            raise _nothing(source, problems)
        left_out = some([problem.message for problem in problems])
        return Imported(format=self.name, runs=tuple(runs), left_out=left_out, notes=some(notes))


IMPORTERS.register(FORMAT)(LangSmithImporter())


def read_runs(runs: list[Json], origin: str) -> Imported:
    """The runs that the API gave; `origin` is what errors call it."""
    return IMPORTERS.get(FORMAT).read(_Unplaced(Source(b"", origin, value=runs)))


class _Unplaced(Source):
    """The file, with errors that name the place by its path, which costs nothing."""

    __slots__ = ()

    def __init__(self, source: Source) -> None:
        super().__init__(b"", source.file, value=source.value)

    def error(self, message: str, path: JsonPath = (), *, hint: str | None = None) -> InvalidFile:
        place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
        return InvalidFile(f"{message} (at ${place})", file=self.file, hint=hint)


def _read(source: Source, root: Node, notes: list[str]) -> TraceRun:
    from replaykit.importers.langsmith.traces import read_trace  # noqa: PLC0415 (slow to import)

    said: list[str] = []
    run = read_trace(source, root, said)
    notes += said  # of a run that is imported only
    return run


def _nothing(source: Source, problems: list[InvalidFile]) -> InvalidFile:
    if not problems:
        return source.error("the file holds no run")
    first, more = problems[0], len(problems) - 1
    hint = f"{more} more could not be read." if more else first.hint
    return InvalidFile(first.reason, file=first.file, line=first.line, hint=hint)


def some(notes: Sequence[str]) -> tuple[str, ...]:
    """As many of them as anybody reads."""
    more = len(notes) - _MAX_NOTES
    return (*notes[:_MAX_NOTES], f"and {more} more") if more > 0 else tuple(notes)
