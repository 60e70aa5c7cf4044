"""kill -9 at random moments: nothing acknowledged is lost, nothing is damaged, the store goes on."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import replaykit as rk

WORKER = Path(__file__).with_name("worker.py")
KILLS_PER_STORE = 10
TRIALS = int(os.environ.get("CRASH_TRIALS", "8"))


def acknowledged(output: bytes) -> Counter[str]:
    """How many steps of each run were acknowledged; a line that was cut off is not."""
    lines = output.decode().split("\n")[:-1]
    return Counter(line.split()[0] for line in lines)


def killed_worker(path: Path, seed: int) -> Counter[str]:
    """Let a worker record for a random while, and kill it."""
    process = subprocess.Popen([sys.executable, str(WORKER), str(path), str(seed)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    first = process.stdout.readline()
    time.sleep(random.Random(seed).random() * 0.15)
    process.kill()
    rest, _ = process.communicate()
    return acknowledged(first + rest)


def check(path: Path, acked: Counter[str]) -> None:
    """Everything acknowledged is there, nothing is damaged, and the store takes the next run."""
    with rk.Store.open(path) as store:
        assert list(store.verify()) == []
        for run_id, steps in acked.items():
            calls = [call.arguments["n"] for call in store.load(run_id).calls]
            assert calls[:steps] == list(range(steps)), f"steps of {run_id} are lost"
            assert len(store.state_at(run_id)["messages"]) >= steps
        with rk.record("after", store=store) as run:
            run.checkpoint({"fine": True})
        assert store.state_at(run.id) == {"fine": True}


def test_no_acknowledged_step_is_lost_and_the_store_goes_on(tmp_path: Path) -> None:
    total = 0
    for trial in range(TRIALS):
        path = tmp_path / f"crash-{trial // KILLS_PER_STORE}.db"
        acked = killed_worker(path, trial)
        check(path, acked)
        total += sum(acked.values())

    print(f"{TRIALS} kills, {total} acknowledged steps, 0 lost, 0 damaged stores")
    assert total > TRIALS
