"""kill -9 while two processes with two threads each take turns at the same shared runs, at times on a full disk: no
acknowledged event is lost or doubled, no turn is cut in half, and nobody ever reads half an event."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import pytest

import replaykit as rk

KILLS = int(os.environ.get("SHARED_LOG_KILLS", "8"))
WRITERS = 2
KILLS_PER_STORE = 20
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="turns are told apart by locks of open files")


def started(path: Path, seed: str, acknowledged: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.crash.shared_log_worker", str(path), seed, str(acknowledged)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT)


def written_in(path: Path) -> dict[str, list[str]]:
    """Return what the events of each run say at this moment, in order; their numbers have no gap."""
    found = {}
    with rk.Store.open(path, read_only=True) as store, store.snapshot():
        for header in store.headers():
            calls = list(store.load(header.id).calls)
            assert [call.seq for call in calls] == list(range(len(calls)))
            found[header.id] = [str(call.result).split()[0] for call in calls]
    return found


def check_alongside(path: Path, until: float) -> None:
    """Read while others write: no run ever loses an event that was read before."""
    before: dict[str, list[str]] = {}
    while time.monotonic() < until:
        found = written_in(path)
        for run_id, tokens in before.items():
            assert found[run_id][: len(tokens)] == tokens
        before = found


def acknowledged_in(file: Path) -> dict[str, list[str]]:
    found = defaultdict(list)
    for line in file.read_text().splitlines():
        run_id, token = line.split()
        found[run_id].append(token)
    return found


def check_acknowledged(found: dict[str, list[str]], acknowledged: dict[str, list[str]], trials: int) -> None:
    """Check that each acknowledged event is there once, in its writer's order; others only from turns in progress."""
    unacknowledged = 0
    for run_id, tokens in found.items():
        assert Counter(tokens).most_common(1)[0][1] == 1, "an event is there twice"
        known = set(acknowledged[run_id])
        assert known <= set(tokens), known - set(tokens)
        unacknowledged += len(tokens) - len(known)
        last: dict[str, int] = {}
        for token in tokens:
            writer, _, number = token.rpartition(".")
            assert last.get(writer, -1) < int(number), token
            last[writer] = int(number)
    assert unacknowledged <= trials * WRITERS * 2 * 2, "of each killed thread, its last turn at most"


def test_no_kill_loses_doubles_or_cuts_an_acknowledged_turn(tmp_path: Path) -> None:
    total = 0
    for first in range(0, KILLS, KILLS_PER_STORE):
        path, acknowledged = tmp_path / f"{first}.db", tmp_path / f"{first}.txt"
        acknowledged.touch()
        for trial in range(first, min(first + KILLS_PER_STORE, KILLS), WRITERS):
            rng = random.Random(trial)
            size = acknowledged.stat().st_size
            writers = [started(path, f"{trial}.{number}", acknowledged) for number in range(WRITERS)]
            try:
                while acknowledged.stat().st_size == size:
                    assert all(writer.poll() is None for writer in writers)
                check_alongside(path, time.monotonic() + rng.uniform(0.05, 0.6))
            finally:
                for writer in writers:
                    writer.kill()
            for writer in writers:
                assert writer.communicate()[1] == ""
                assert writer.returncode == -9
            check_acknowledged(written_in(path), acknowledged_in(acknowledged), trial - first + 1)
            with rk.Store.open(path, read_only=True) as store:
                assert list(store.verify()) == []
        total += sum(map(len, acknowledged_in(acknowledged).values()))
    assert total >= KILLS
    print(f"{KILLS} kills, {total} events acknowledged, 0 lost, 0 doubled")
