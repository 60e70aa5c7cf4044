"""Pruning while others record: nobody is turned away, nothing that stays is lost, and the file shrinks."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import replaykit as rk
from replaykit.model.run import RunStatus, TraceRun
from replaykit.retention.policy import FOREVER, RetentionPolicy
from replaykit.retention.prune import PruneResult, prune
from replaykit.testing import sample_call

WORKER = Path(__file__).with_name("pruned_worker.py")
WRITERS = 4
OLD = 200
SECONDS = float(os.environ.get("PRUNE_SECONDS", "0.5"))
NOTHING_SUCCESSFUL = RetentionPolicy(successful_s=0, failed_s=FOREVER)


def filled(path: Path, runs: int) -> None:
    """A store with that many runs that may go, of 40 KB each."""
    with rk.Store.open(path) as store:
        for number in range(runs):
            call = sample_call(0, os.urandom(40_000).hex())
            store.add(TraceRun(id=f"old-{number}", status=RunStatus.SUCCESS, events=(call,)))
        store.query("PRAGMA wal_checkpoint(TRUNCATE)")


def start(path: Path, seed: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, str(WORKER), str(path), str(seed)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def is_early(store: rk.Store, rounds: list[PruneResult]) -> bool:
    """True while too little was recorded and pruned to tell.

    On a busy machine writers take a while to start, and the first rounds may find readers of the log, which keep the
    file as large as it is.
    """
    if not rounds or min(one.file_bytes for one in rounds) >= rounds[0].file_bytes_before / 2:
        return True
    return sum(len(one.runs) for one in rounds) <= OLD or len(list(store.headers())) <= WRITERS


@pytest.mark.exhaustive
def test_writers_go_on_while_runs_are_pruned(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    filled(path, OLD)
    workers = [start(path, seed) for seed in range(WRITERS)]
    rounds: list[PruneResult] = []
    began = time.monotonic()
    with rk.Store.open(path) as store:
        while time.monotonic() < began + SECONDS or (is_early(store, rounds) and time.monotonic() < began + 60):
            rounds.append(prune(store, NOTHING_SUCCESSFUL))
        ended = [worker.communicate(timeout=60) for worker in workers]
        last = prune(store, NOTHING_SUCCESSFUL)

        assert [error.decode() for _, error in ended] == [""] * WRITERS
        stay = {run: int(steps) for out, _ in ended for run, steps in map(str.split, out.decode().splitlines())}
        assert {header.id: header.event_count for header in store.headers()} == stay
        assert {run: len(list(store.load(run).calls)) for run in stay} == stay
        assert list(store.verify()) == []
    before, gone = rounds[0].file_bytes_before, sum(len(one.runs) for one in rounds)
    least = min(one.file_bytes for one in rounds)  # on a busy machine the first may have to wait for readers of its log
    print(
        f"{len(rounds)} prunings, {gone} runs went, {len(stay)} stayed; they took the file from {before} to {least}"
        f" bytes while {WRITERS} processes wrote, and to {last.file_bytes} in the end"
    )
    assert len(stay) > WRITERS
    assert gone > OLD, "nothing that was recorded meanwhile went"
    assert least < before / 2
    assert last.free_bytes <= last.file_bytes / 10, "what nobody needs any more was not given back"
