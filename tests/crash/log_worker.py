"""Writes two runs at a time until it is killed, with logs that are folded after a few events.

Every acknowledged event is written to a file. With a limit on the size of files, the disk is full now and then.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
from functools import partial

from tests.crash.full_disk import acknowledge, insist, limit_files

import replaykit as rk
from replaykit.model.run import RunHeader
from replaykit.store import writer
from replaykit.testing import sample_call

writer.PACK_EVENTS = 5
writer.LOG_PACKS = 2
RUNS_PER_STORE = 4
SIZES = (0, 0, 20, 500, 70_000)


def write_run(store: rk.Store, run_id: str, rng: random.Random, acknowledged: int) -> None:
    run = insist(lambda: store.begin(RunHeader(id=run_id)))
    count = rng.randrange(1, 40)
    for seq in range(count):
        event = sample_call(seq, "x" * rng.choice(SIZES))
        insist(partial(run.append, event))
        acknowledge(acknowledged, f"{run_id} {seq}\n")
    if rng.random() < 0.8:
        insist(lambda: run.finish(RunHeader(id=run_id)))
        acknowledge(acknowledged, f"{run_id} ended {count}\n")


def main(path: str, seed: str, acknowledged_path: str) -> None:
    rng = random.Random(seed)
    acknowledged = os.open(acknowledged_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    number = 0
    while True:
        with rk.Store.open(path) as store:  # each one folds what killed processes left
            for _ in range(RUNS_PER_STORE):
                numbers = (number, number + 1)
                number += 2
                threads = [
                    threading.Thread(
                        target=write_run,
                        args=(store, f"{seed}-{each}", random.Random(f"{seed} {each}"), acknowledged),
                    )
                    for each in numbers
                ]
                for thread in threads:
                    thread.start()
                if rng.random() < 0.3:
                    limit_files(os.stat(path).st_size + rng.randrange(60_000))
                for thread in threads:
                    thread.join()
                limit_files(0)


main(*sys.argv[1:4])
