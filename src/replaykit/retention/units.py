"""Units: what stays or goes together. A program with its parts, a thread with its subgraphs, any other run alone."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from replaykit.model.run import RunStatus
from replaykit.store.summaries import RunSummary

_BELOW = frozenset({"part", "subgraph"})  # origins of runs that belong to another
THREAD = "langgraph"
"""The format of runs that are threads: the memory of an application."""


class Unit(Struct, frozen=True, kw_only=True, gc=False):
    """A run, and what belongs to it."""

    root: RunSummary
    runs: tuple[RunSummary, ...]
    """The root and all below it."""

    @property
    def is_thread(self) -> bool:
        return self.root.origin.format == THREAD

    @property
    def is_success(self) -> bool:
        return self.root.status is RunStatus.SUCCESS

    @property
    def time(self) -> float:
        """When it ended; of one that never did, when its last part began."""
        root = self.root
        if root.ended_at is not None or len(self.runs) == 1:
            return root.ended_at or root.started_at
        return max(run.started_at for run in self.runs)

    @property
    def word(self) -> str:
        """How it ended."""
        if self.root.status is RunStatus.RUNNING:
            return "abandoned"
        return "successful" if self.is_success else "failed"


def units_of(runs: Iterable[RunSummary]) -> list[Unit]:
    """The runs, each with what is below it, in the order of their numbers. What is below nothing is alone."""
    by_id = {run.id: run for run in runs}
    roots = {run.id: run for run in by_id.values() if run.origin.kind not in _BELOW}
    below: dict[str, list[RunSummary]] = {}
    if len(roots) < len(by_id):
        for run in by_id.values():
            if run.id not in roots:
                root = _root(run, by_id)
                roots[root.id] = root
                if root is not run:
                    below.setdefault(root.id, []).append(run)
    return [Unit(root=root, runs=(root, *below.get(root.id, ()))) for root in roots.values()]


def _root(run: RunSummary, by_id: dict[str, RunSummary]) -> RunSummary:
    seen = {run.id}
    while run.origin.kind in _BELOW and run.origin.run in by_id and run.origin.run not in seen:
        run = by_id[run.origin.run]
        seen.add(run.id)
    return run
