"""LangSmith runs from its client, API, webhooks and SDKs.

    {run} with `child_runs`   [run, …]   {runs: [run, …]}   {items: [run, …]}   {post: [run, …], patch: [run, …]}

Each of these may also be on a line (JSONL). The parts of a run are joined by id, and each root becomes one run. A root
that cannot be read, or has a child that cannot, is reported, and the others are imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from replaykit.errors import InvalidFile
from replaykit.formats.core.registry import IMPORTERS, Found, Imported, read_all, register_format, safely
from replaykit.formats.core.source import Source
from replaykit.formats.langsmith.documents import FORMAT, documents, holds_runs
from replaykit.formats.langsmith.run_tree import collect
from replaykit.model.values import Json


def _read_file(source: Source) -> Iterator[Found]:
    from replaykit.formats.langsmith.requests import Requests  # noqa: PLC0415 (slow to import)
    from replaykit.formats.langsmith.traces import read_trace  # noqa: PLC0415 (slow to import)

    requests = Requests()
    for found in documents(source):
        if isinstance(found, InvalidFile):
            yield found
            continue
        for root in collect(found):
            yield from safely(partial(read_trace, requests), root)


register_format(
    FORMAT,
    "LangSmith: runs of its API (v1, v2), client, webhooks and SDKs",
    holds_runs,
    _read_file,
)


def read_runs(runs: list[Json], origin: str) -> Imported:
    """Read runs from the API; `origin` names them in errors."""
    return read_all(IMPORTERS.get(FORMAT), Source(b"", origin, value=runs))
