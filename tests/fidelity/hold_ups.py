"""Recordings on a machine that holds up single threads for real, for tens and hundreds of milliseconds.

The process shares a core with a program that never rests. A helper takes the priority of one or two of its threads away
for a while: the kernel lets them wait, and counts that, as it does on a machine with too much to do.
"""

from __future__ import annotations

import mmap
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.fidelity.execution import Execution
from tests.fidelity.programs import Program
from tests.fidelity.random_agents import Laboratory

import replaykit as rk

BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n sum(range(20_000))"
HELD_UP_S = (0.06, 0.3)
BETWEEN_S = (0.005, 0.12)
WANTED, HOLDING = 0, 1
"""Bytes of the memory that is shared with the helper."""
IS_POSSIBLE = sys.platform == "linux" and os.geteuid() == 0
"""Only root may give a thread its priority back."""


class HoldingLaboratory(Laboratory):
    """A laboratory that holds up the threads of its recordings, and not those of its replays."""

    def __init__(self, store: rk.Store, chance: random.Random, machine: BusyMachine) -> None:
        super().__init__(store, chance)
        self._machine = machine

    def record(self, program: Program) -> tuple[Execution, rk.TraceRun]:
        with self._machine.at_work():
            return super().record(program)


class BusyMachine:
    """What holds up threads: a program that never rests, and a helper that chooses them."""

    def __init__(self, busy: subprocess.Popen[bytes], switch: mmap.mmap) -> None:
        self._busy = busy
        self._switch = switch

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Threads are held up inside."""
        self._busy.send_signal(signal.SIGCONT)
        self._switch[WANTED] = 1
        try:
            yield
        finally:
            self._switch[WANTED] = 0
            while self._switch[HOLDING]:
                time.sleep(0.001)
            self._busy.send_signal(signal.SIGSTOP)


@contextmanager
def busy_machine(seed: int) -> Iterator[BusyMachine]:
    """Share a core of this machine with a program that never rests."""
    switch = mmap.mmap(-1, 2)
    everywhere = os.sched_getaffinity(0)
    helper = os.fork()
    if helper == 0:
        _hold_up_threads(os.getppid(), switch, random.Random(seed))
    core = sorted(everywhere)[seed % len(everywhere)]
    os.sched_setaffinity(0, {core})
    busy = subprocess.Popen([sys.executable, "-S", "-c", BUSY])  # on the same core
    busy.send_signal(signal.SIGSTOP)
    try:
        yield BusyMachine(busy, switch)
    finally:
        busy.kill()
        busy.wait()
        os.kill(helper, signal.SIGKILL)
        os.waitpid(helper, 0)
        os.sched_setaffinity(0, everywhere)


def _hold_up_threads(process: int, switch: mmap.mmap, chance: random.Random) -> None:
    """Hold up one or two threads after the other, in a process of its own that ends with that one."""
    os.nice(-10)
    while os.getppid() == process:
        switch[HOLDING] = 1
        if not switch[WANTED]:
            switch[HOLDING] = 0
            time.sleep(0.002)
            continue
        threads = _threads_of(process)
        chosen = chance.sample(threads, min(len(threads), chance.choice((1, 1, 2))))
        for thread in chosen:
            _set_policy(thread, os.SCHED_IDLE)
        time.sleep(chance.uniform(*HELD_UP_S))
        for thread in _threads_of(process):  # those that it has started meanwhile are held up as well
            _set_policy(thread, os.SCHED_OTHER)
        time.sleep(chance.uniform(*BETWEEN_S))
    os._exit(0)


def _threads_of(process: int) -> list[int]:
    with suppress(FileNotFoundError):
        return [int(task.name) for task in Path(f"/proc/{process}/task").iterdir()]
    return []


def _set_policy(thread: int, policy: int) -> None:
    with suppress(ProcessLookupError):  # it has ended
        os.sched_setscheduler(thread, policy, os.sched_param(0))
