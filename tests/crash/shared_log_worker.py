"""Writes shared runs in turn with others until it is killed, with logs that are moved and folded after a few events.

Every acknowledged event is written to a file. With a limit on the size of files, the disk is full now and then.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading

from tests.crash.full_disk import acknowledge, insist, limit_files

import replaykit as rk
from replaykit.model.run import RunHeader, RunStatus
from replaykit.store import shared_writer
from replaykit.testing import sample_call

shared_writer.PACK_EVENTS = 5
shared_writer.LOG_PACKS = 2
TURNS_PER_STORE = 60
SIZES = (0, 0, 20, 500, 500, 9_000, 70_000)
RUN_IDS = ("thread:a", "thread:b")


class TurnTaker:
    """Takes turns at shared runs, and says which events were acknowledged."""

    def __init__(self, store: rk.Store, name: str, acknowledged: int) -> None:
        self._store = store
        self._name = name
        self._rng = random.Random(name)
        self._acknowledged = acknowledged
        self._writers = {run_id: store.share(run_id) for run_id in RUN_IDS}
        self._count = 0

    def write(self) -> None:
        for _ in range(TURNS_PER_STORE // 2):
            run_id = self._rng.choice(RUN_IDS)
            if self._rng.random() < 0.03:
                insist(lambda run_id=run_id: self._rewrite(run_id))
            else:
                self._take_turn(run_id)

    def _take_turn(self, run_id: str) -> None:
        count = self._rng.choice((1, 1, 1, 1, 1, 2))
        tokens = [f"{self._name}.{self._count + number}" for number in range(count)]
        self._count += count
        texts = [f"{token} {'x' * self._rng.choice(SIZES)}" for token in tokens]
        has_header = self._rng.random() < 0.05
        insist(lambda: self._append(run_id, texts, has_header))
        acknowledge(self._acknowledged, "".join(f"{run_id} {token}\n" for token in tokens))

    def _append(self, run_id: str, texts: list[str], has_header: bool) -> None:
        writer = self._writers[run_id]
        with writer.turn():
            if writer.header is None:
                writer.write_header(RunHeader(id=run_id))
            for text in texts:
                writer.append(sample_call(writer.next_seq, text))
            if has_header:
                writer.write_header(RunHeader(id=run_id, status=RunStatus.SUCCESS, event_count=writer.next_seq))

    def _rewrite(self, run_id: str) -> None:
        """Put the run in its own place, as pruning does with what is left of one."""
        with self._store.exclusive():
            if any(header.id == run_id for header in self._store.headers()):
                self._store.replace([self._store.load(run_id)])


def main(path: str, seed: str, acknowledged_path: str) -> None:
    rng = random.Random(seed)
    acknowledged = os.open(acknowledged_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    number = 0
    while True:
        with rk.Store.open(path) as store:  # each one folds what killed processes left
            takers = [TurnTaker(store, f"{seed}.{each}", acknowledged) for each in (number, number + 1)]
            number += 2
            threads = [threading.Thread(target=taker.write) for taker in takers]
            for thread in threads:
                thread.start()
            if rng.random() < 0.3:
                limit_files(rng.choice((2_000, os.stat(path).st_size + rng.randrange(60_000))))
            for thread in threads:
                thread.join()
            limit_files(0)


main(*sys.argv[1:4])
