"""kill -9 while logs are written, folded, removed and recovered, by two processes with two threads each, at times on a
full disk: no acknowledged event is lost or doubled, and nobody ever reads half an event."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

import replaykit as rk

KILLS = int(os.environ.get("LOG_KILLS", "4"))
WRITERS = 2
KILLS_PER_STORE = 20
WORKER = "tests.crash.log_worker"
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="who writes a run is known from locks of open files")


def check_runs(path: Path) -> dict[str, int]:
    """Check that every run is an unbroken beginning of what its writer wrote; gives the length of each."""
    lengths = {}
    with rk.Store.open(path, read_only=True) as store:
        for header in store.headers():
            numbers = [event.seq for event in store.events(header.id)]
            assert numbers == list(range(len(numbers))), header.id
            lengths[header.id] = len(numbers)
    return lengths


def read_until(path: Path, end: float) -> None:
    while time.monotonic() < end:
        check_runs(path)


def acknowledged_in(file: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Return how many events of each run were acknowledged, and the length of each run whose end was."""
    events: dict[str, int] = defaultdict(int)
    ended = {}
    for line in file.read_text().splitlines() if file.exists() else ():
        run_id, *rest = line.split()
        if rest[0] == "ended":
            ended[run_id] = int(rest[1])
        else:
            events[run_id] += 1
    return events, ended


def test_no_kill_loses_doubles_or_cuts_an_acknowledged_event(tmp_path: Path) -> None:
    total = 0
    for first in range(0, KILLS, KILLS_PER_STORE):
        path, acknowledged = tmp_path / f"{first}.db", tmp_path / f"{first}.txt"
        for trial in range(first, min(first + KILLS_PER_STORE, KILLS), WRITERS):
            rng = random.Random(trial)
            writers = [
                subprocess.Popen(
                    [sys.executable, "-m", WORKER, str(path), f"{trial}-{number}", str(acknowledged)],
                    stderr=subprocess.PIPE,
                    text=True,
                    cwd=ROOT,
                )
                for number in range(WRITERS)
            ]
            while not (acknowledged.exists() and acknowledged.stat().st_size):
                assert all(writer.poll() is None for writer in writers)
            read_until(path, time.monotonic() + rng.uniform(0.05, 0.6))
            for writer in writers:
                writer.kill()
                assert writer.communicate()[1] == ""
                assert writer.returncode == -9
            lengths = check_runs(path)
            events, ended = acknowledged_in(acknowledged)
            for run_id, count in events.items():
                assert lengths[run_id] - count in (0, 1), run_id  # the last one may not have been acknowledged yet
            for run_id, count in ended.items():
                assert lengths[run_id] == count
            with rk.Store.open(path, read_only=True) as store:
                assert list(store.verify()) == []
        total += sum(events.values())
    assert total >= KILLS
    print(f"{KILLS} kills, {total} events acknowledged, 0 lost, 0 doubled")
