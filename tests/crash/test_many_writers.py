"""Eight processes record into one store at once: nothing is lost, and nobody is turned away."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from tests.matrix import sampled

import replaykit as rk

PROCESSES, STEPS = 8, 100

PROGRAM = """
import sys
import replaykit as rk

@rk.tool
def work(who: str, run: int, n: int) -> dict:
    return {"who": who, "run": run, "n": n, "text": "x" * 200}

who = sys.argv[2]
with rk.Store.open(sys.argv[1]) as store:
    for run in range(int(sys.argv[3])):
        with rk.record(f"{who}-{run}", store=store):
            for n in range(int(sys.argv[4])):
                work(who, run, n)
"""


OPENING = """
import sys, time
import replaykit as rk
rk.Store
for number in range(15):
    begin = float(sys.argv[2]) + number * 0.03
    time.sleep(max(0, begin - time.time() - 0.002))
    while time.time() < begin:
        pass
    rk.Store.open(f"{sys.argv[1]}-{number}.db").close()
"""


def test_many_processes_may_make_the_same_store_at_the_same_moment(tmp_path: Path) -> None:
    start = str(time.time() + 1.0)
    processes = [
        subprocess.Popen([sys.executable, "-c", OPENING, str(tmp_path / "new"), start], stderr=subprocess.PIPE)
        for _ in range(6)
    ]
    errors = [process.communicate(timeout=120)[1].decode() for process in processes]

    assert errors == [""] * 6


@sampled("runs", [4, 50], count=1)
def test_eight_processes_write_many_runs_of_a_hundred_steps_each(tmp_path: Path, runs: int) -> None:
    path = tmp_path / "shared.db"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(path), str(who), str(runs), str(STEPS)], stderr=subprocess.PIPE
        )
        for who in range(PROCESSES)
    ]
    errors = [process.communicate(timeout=240)[1].decode() for process in processes]

    assert errors == [""] * PROCESSES
    with rk.Store.open(path, read_only=True) as store:
        names = {header.name: header.id for header in store.headers()}
        assert len(names) == PROCESSES * runs
        for name, run_id in names.items():
            who, run = name.split("-")
            found = [call.arguments for call in store.load(run_id).calls]
            assert found == [{"who": who, "run": int(run), "n": n} for n in range(STEPS)]
        assert list(store.verify()) == []
