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


def test_no_acknowledged_step_is_lost_and_the_store_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "crash.db"
    total: Counter[str] = Counter()
    for trial in range(TRIALS):
        total += killed_worker(path, trial)
        with rk.Store.open(path) as store:
            assert list(store.verify()) == [], f"trial {trial} damaged the store"
            for run_id, steps in total.items():
                run = store.load(run_id)
                calls = [call.arguments["n"] for call in run.calls]
                assert calls[:steps] == list(range(steps)), f"trial {trial} lost steps of {run_id}"
                assert len(store.state_at(run_id)["messages"]) >= steps
            with rk.record("after", store=store) as run:
                run.checkpoint({"trial": trial})
            assert store.state_at(run.id) == {"trial": trial}

    print(f"{TRIALS} kills, {sum(total.values())} acknowledged steps, 0 lost, 0 damaged stores")
    assert sum(total.values()) > TRIALS
