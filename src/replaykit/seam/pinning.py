"""Hold the clock, chance and the environment still while an agent runs.

`time` and `datetime` are held by time-machine, which reaches them where C code looks. `monotonic` and `perf_counter`
are left alone: timeouts and sleeps go on working. The randomness of the operating system is replaced for Python code
only; what TLS uses is not touched.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from typing import Any

from replaykit.model.pins import Clock, Pins


@contextmanager
def pinned(pins: Pins, salt: str = "") -> Iterator[None]:
    """The world as the pins say, inside of this block, for the whole process. `salt` tells its processes apart."""
    with ExitStack() as stack:
        if pins.environment:
            stack.enter_context(_environment(pins.environment))
        if pins.seed is not None:
            stack.enter_context(_chance(pins.seed, salt))
        if pins.started_at and pins.clock is not Clock.LIVE:
            stack.enter_context(_travel(pins.started_at, tick=pins.clock is Clock.TICK))
        yield


def _travel(moment: float, *, tick: bool) -> Any:
    return _time_machine().travel(moment, tick=tick)


def _time_machine() -> Any:
    """time-machine, without pytest, which it would import wherever there is one."""
    if "time_machine" in sys.modules or "pytest" in sys.modules:
        import time_machine  # noqa: PLC0415 (few agents need it)

        return time_machine
    sys.modules["pytest"] = None  # type: ignore[assignment]
    try:
        import time_machine  # noqa: PLC0415
    finally:
        del sys.modules["pytest"]
    return time_machine


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _chance(seed: int, salt: str) -> Iterator[None]:
    """`random` seeded; `os.urandom`, and with it `uuid4` and `secrets`, from a generator of our own."""
    state = random.getstate()
    number = int.from_bytes(blake2b(f"{seed}/{salt}".encode(), digest_size=8).digest())
    generator, lock = random.Random(number), threading.Lock()

    def urandom(size: int, /) -> bytes:
        with lock:
            return generator.randbytes(size)

    real, in_random = os.urandom, random._urandom  # type: ignore[attr-defined]
    random.seed(number)
    os.urandom = urandom
    random._urandom = urandom  # type: ignore[attr-defined]
    try:
        yield
    finally:
        os.urandom = real
        random._urandom = in_random  # type: ignore[attr-defined]
        random.setstate(state)
