"""Pin the clock, randomness and the environment while an agent runs.

time-machine pins `time` and `datetime`, even for C code. `monotonic` and `perf_counter` are left alone, so that
timeouts and sleeps work. `seam.chance` pins randomness; the operating system's is replaced for Python code only, so TLS
is not affected.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from replaykit.model.pins import Clock, Pins
from replaykit.seam.chance import HeldChance

Resalt = Callable[[str], None]
"""Restarts randomness for a process of that name: a forked one would otherwise repeat its parent's."""


@contextmanager
def pinned(pins: Pins, salt: str = "", *, keys: bool = True, not_held: set[str] | None = None) -> Iterator[Resalt]:
    """Apply the pins during the block, for the whole process. `salt` tells the processes of a run apart.

    `keys`: also pin `os.urandom` and `secrets`. `not_held` collects the names of unpinned sources that were used.
    """
    resalt: Resalt = lambda _: None  # noqa: E731
    with ExitStack() as stack:
        if pins.environment:
            stack.enter_context(_environment(pins.environment))
        if pins.started_at and pins.clock is not Clock.LIVE:
            stack.enter_context(_travel(pins.started_at, tick=pins.clock is Clock.TICK))
            stack.enter_context(_written_times())
        if pins.seed is not None:  # last, because a pinned clock also replaces a part of `uuid1`
            chance = HeldChance(pins.seed, pins.started_at, keys=keys, draw=pins.draw)
            if not_held is not None:
                chance.not_held = not_held
            resalt = stack.enter_context(chance.standing(salt)).begin
        yield resalt


def _travel(moment: float, *, tick: bool) -> Any:
    return _time_machine().travel(moment, tick=tick)


@contextmanager
def travelled(started_at: float, passed_s: Callable[[], float]) -> Iterator[None]:
    """Let the date follow a clock: its seconds are added to the pinned date, or the current one."""
    machine = _time_machine()
    with ExitStack() as stack:
        if machine.traveller_stack:
            traveller = machine.traveller_stack[-1]
        else:
            import uuid  # noqa: PLC0415 (time-machine has it loaded)

            held = vars(uuid).get("_generate_time_safe")
            traveller = stack.enter_context(_travel(started_at or time.time(), tick=False))
            if held is not None:
                # Pinned randomness has already replaced this part of `uuid1`.
                uuid._generate_time_safe = held  # type: ignore[attr-defined]
            stack.enter_context(_written_times())
        start_ns = traveller.time_ns()
        traveller.time_ns = lambda: start_ns + int(passed_s() * 1e9)
        try:
            yield
        finally:
            del traveller.time_ns


@contextmanager
def _written_times() -> Iterator[None]:
    """Pin `ctime` and `asctime` as well, which time-machine leaves out."""
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
    """Import time-machine without pytest, which it would import if installed."""
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
    if "TZ" in values and hasattr(time, "tzset"):  # not available on Windows
        time.tzset()
