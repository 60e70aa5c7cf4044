"""Figures: how runs, replays and forks end, as metrics. A rate is one counter by its attribute, over all of it.

checkpoint success rate   replaykit.runs{replaykit.checkpointed}
replay success rate       replaykit.replays{replaykit.completed}
storage size              replaykit.store.size
replay latency            replaykit.replay.duration
divergence rate           replaykit.forks{replaykit.diverged}
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from replaykit.model.run import RunHeader

_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


class RunMetrics:
    """The instruments."""

    def __init__(self, meter: Meter) -> None:
        self._stores: dict[Path, None] = {}
        self._runs = meter.create_counter("replaykit.runs", "{run}", "Runs that were recorded")
        self._replays = meter.create_counter("replaykit.replays", "{replay}", "Candidates that were replayed")
        self._durations = meter.create_histogram(
            "replaykit.replay.duration",
            "s",
            "How long a replay took",
            explicit_bucket_boundaries_advisory=_BUCKETS_S,
        )
        self._forks = meter.create_counter("replaykit.forks", "{fork}", "Runs that went on from a step of another")
        meter.create_observable_gauge("replaykit.store.size", [self._sizes], "By", "What a store takes on the disk")

    def writes_to(self, store: Path) -> None:
        """This store's size is a figure from now on."""
        self._stores.setdefault(store.absolute())

    def ended(self, run: RunHeader, *, whole: bool) -> None:
        """A run has ended; `whole` is false when something of it is not on disk."""
        self._runs.add(1, {"replaykit.run.status": run.status.value, "replaykit.checkpointed": whole})

    def replayed(self, verdict: str, duration_s: float, *, completed: bool) -> None:
        """A candidate was replayed; one that could not be run is not completed."""
        attributes: dict[str, str | bool] = {"replaykit.verdict": verdict, "replaykit.completed": completed}
        self._replays.add(1, attributes)
        self._durations.record(duration_s, attributes)

    def forked(self, parent: RunHeader, fork: RunHeader) -> None:
        """A fork has ended: otherwise than its parent, or alike."""
        diverged = _outcome(parent) != _outcome(fork)
        self._forks.add(1, {"replaykit.origin.kind": fork.origin.kind, "replaykit.diverged": diverged})

    def _sizes(self, _options: CallbackOptions) -> Iterable[Observation]:
        for store in list(self._stores):
            files = (store, store.with_name(f"{store.name}-wal"))
            found = [file.stat().st_size for file in files if file.exists()]
            if found:
                yield Observation(sum(found), {"replaykit.store": str(store)})


def _outcome(run: RunHeader) -> tuple[str, bytes, str]:
    return run.status.value, bytes(run.output_json), str(run.error)
