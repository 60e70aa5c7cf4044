"""LangSmith runs: what its client, its API, its webhooks and its SDKs write.

    {run} with `child_runs`   [run, …]   {runs: [run, …]}   {items: [run, …]}   {post: [run, …], patch: [run, …]}

Any of them may also stand on a line of its own (JSONL). Runs are put together by their id and become one run for
each root. A root that cannot be read, or has a child that cannot, is left out and named, and the others are imported.
"""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.errors import InvalidFile
from replaykit.importers.langsmith.collecting import Node, collect
from replaykit.importers.langsmith.documents import FORMAT, documents, holds_runs
from replaykit.importers.registry import IMPORTERS, Found, Imported, read_all
from replaykit.importers.source import JsonPath, Source
from replaykit.model.run import TraceRun
from replaykit.model.values import Json

_WITH_LINES = 10
_SCANNED_BYTES = 16 * 1024 * 1024  # to find a line is to scan the file, which for each bad run of many takes too long


class LangSmithImporter:
    """Reads runs of LangSmith."""

    name = FORMAT
    title = "LangSmith: runs of its API (v1, v2), client, webhooks and SDKs"

    def recognises(self, source: Source) -> bool:
        return holds_runs(source)

    def read(self, source: Source) -> Iterator[Found]:
        source, problems, found = documents(source)
        yield from problems
        bad = len(problems)
        with_lines = max(1, min(_WITH_LINES, _SCANNED_BYTES // (len(source.text) + 1)))
        for root in collect(found):
            notes: list[str] = []
            try:
                yield _read(source if bad < with_lines else _Unplaced(source), root, notes)
            except InvalidFile as problem:
                bad += 1
                yield problem
            else:
                yield from notes


IMPORTERS.register(FORMAT)(LangSmithImporter())


def read_runs(runs: list[Json], origin: str) -> Imported:
    """The runs that the API gave; `origin` is what errors call it."""
    return read_all(IMPORTERS.get(FORMAT), _Unplaced(Source(b"", origin, value=runs)))


class _Unplaced(Source):
    """The file, with errors that name the place by its path, which costs nothing."""

    def __init__(self, source: Source) -> None:
        super().__init__(b"", source.file, value=source.value)

    def error(self, message: str, path: JsonPath = (), *, hint: str | None = None) -> InvalidFile:
        place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
        return InvalidFile(f"{message} (at ${place})", file=self.file, hint=hint)


def _read(source: Source, root: Node, notes: list[str]) -> TraceRun:
    from replaykit.importers.langsmith.traces import read_trace  # noqa: PLC0415 (slow to import)

    return read_trace(source, root, notes)
