"""Hold the clock, chance and the environment still while an agent runs.

`time` and `datetime` are held by time-machine, which reaches them where C code looks. `monotonic` and `perf_counter`
are left alone: timeouts and sleeps go on working. The randomness of the operating system is replaced for Python code
only; what TLS uses is not touched. In a recording it is not replaced at all, but for `uuid4`: keys that a recorded
program makes are real ones.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from replaykit.model.pins import Clock, Pins

Resalt = Callable[[str], None]
"""Begin chance anew, for a process of that name: a forked one would go on as its parent does."""


@contextmanager
def pinned(pins: Pins, salt: str = "", *, keys: bool = True) -> Iterator[Resalt]:
    """The world as the pins say, inside of this block, for the whole process. `salt` tells its processes apart.

    `keys`: what is drawn for keys (`os.urandom`, `secrets`) is pinned as well.
    """
    resalt: Resalt = lambda _: None  # noqa: E731
    with ExitStack() as stack:
        if pins.environment:
            stack.enter_context(_environment(pins.environment))
        if pins.seed is not None:
            resalt = stack.enter_context(_chance(pins.seed, salt, keys=keys))
        if pins.started_at and pins.clock is not Clock.LIVE:
            stack.enter_context(_travel(pins.started_at, tick=pins.clock is Clock.TICK))
            stack.enter_context(_written_times())
        yield resalt


def _travel(moment: float, *, tick: bool) -> Any:
    return _time_machine().travel(moment, tick=tick)


@contextmanager
def _written_times() -> Iterator[None]:
    """`ctime` and `asctime` of the held clock as well: time-machine leaves them out."""
    ctime, asctime = time.ctime, time.asctime

    def held_ctime(seconds: Any = None, /) -> str:
        return ctime(time.time() if seconds is None else seconds)

    def held_asctime(*moment: Any) -> str:
        return asctime(*(moment or (time.localtime(),)))

    time.ctime, time.asctime = held_ctime, held_asctime
    try:
        yield
    finally:
        time.ctime, time.asctime = ctime, asctime


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
    _look_at_the_zone(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        _look_at_the_zone(values)


def _look_at_the_zone(values: dict[str, str]) -> None:
    if "TZ" in values and hasattr(time, "tzset"):  # not on every system
        time.tzset()


@contextmanager
def _chance(seed: int, salt: str, *, keys: bool) -> Iterator[Resalt]:
    """`random` seeded, and generators that it makes; `uuid4`, and with `keys` all that `os.urandom` gives, from
    generators of our own."""
    import random  # noqa: PLC0415 (slow to import, as the next one; few cases have a seed)
    from hashlib import blake2b  # noqa: PLC0415

    state, in_common = random.getstate(), random.getrandbits
    uuids, bits, seeds, lock = random.Random(), random.Random(), random.Random(), threading.Lock()
    real, in_random, real_seed = os.urandom, random._urandom, random.Random.seed  # type: ignore[attr-defined]

    def urandom(size: int, /) -> bytes:
        is_uuid = sys._getframe(1).f_globals.get("__name__") == "uuid"
        if not is_uuid and not keys:
            return real(size)
        with lock:
            return (uuids if is_uuid else bits).randbytes(size)

    def getrandbits(count: int, /) -> int:
        if sys._getframe(1).f_globals.get("__name__") != "uuid":
            return in_common(count)
        with lock:  # uuid1, which asks the system where the clock is real: `random` must not go on for it
            return bits.getrandbits(count)

    def seed_itself(generator: random.Random, a: Any = None, version: int = 2) -> None:
        if a is None:  # it would ask the operating system, where no Python code is asked
            with lock:
                a = seeds.getrandbits(128)
        real_seed(generator, a, version)

    def begin(salt: str) -> None:
        for number, reseed in enumerate((random.seed, uuids.seed, bits.seed, seeds.seed)):
            reseed(blake2b(f"{seed}/{number}/{salt}".encode(), digest_size=16).digest())

    begin(salt)
    os.urandom = urandom
    random.Random.seed = seed_itself  # type: ignore[method-assign,assignment]
    random.seed = partial(seed_itself, random._inst)
    random.getrandbits = getrandbits
    if keys:
        random._urandom = urandom  # type: ignore[attr-defined]
    try:
        yield begin
    finally:
        os.urandom = real
        random.Random.seed = real_seed  # type: ignore[method-assign]
        random.seed, random.getrandbits = random._inst.seed, in_common
        random._urandom = in_random  # type: ignore[attr-defined]
        random.setstate(state)
