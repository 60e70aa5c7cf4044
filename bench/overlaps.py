"""What time costs: plain calls, calls that overlap, and sleeps, recorded and replayed by ReplayKit itself.

The clocks are imported by name: a replay has virtual ones in `time`.
"""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter, process_time
from types import ModuleType
from typing import Any

from measurements import Numbers

_REPLAYS = 5
_PLAIN_REPLAYS = 15  # a few microseconds each: the least of many
_WORKERS = 4
_SIDE_BY_SIDE = 8  # awaited calls at a time
_CALL_S = 0.002
_SLEEPS_S = (5.0, 20.0, 40.0)  # 65 s
_RESULT = {"order": 7, "status": "shipped", "parts": [{"name": "lamp", "count": number} for number in range(8)]}


def plain(rk: ModuleType, work: Path, count: int) -> Numbers:
    """CPU of a recorded and of a replayed call, beside that of `copy.deepcopy` of its result in the same process."""

    @rk.tool
    def lookup(index: int) -> Any:
        return _RESULT

    def agent() -> None:
        for index in range(count):
            lookup(index)

    def bare() -> None:
        for _ in range(count):
            copy.deepcopy(_RESULT)

    bare_s = min(_cpu_s(bare) for _ in range(_PLAIN_REPLAYS))
    with rk.Store.open(work / "store.db") as store:
        record_s = min(_recorded(rk, store, agent)[1] for _ in range(_REPLAYS))
        run, _ = _recorded(rk, store, agent)
    replay_s = min(_replayed_s(rk, run, agent) for _ in range(_PLAIN_REPLAYS))
    return {"record_times": record_s / bare_s, "replay_times": replay_s / bare_s}


def awaited(rk: ModuleType, work: Path, count: int) -> Numbers:
    """CPU of replaying one of several calls that are awaited side by side."""

    @rk.tool
    async def lookup(index: int) -> int:
        await asyncio.sleep(_CALL_S)
        return index

    async def main() -> None:
        for first in range(0, count, _SIDE_BY_SIDE):
            indexes = range(first, first + _SIDE_BY_SIDE)
            if await asyncio.gather(*map(lookup, indexes)) != list(indexes):
                raise AssertionError("a call got the answer of another one")

    return _overlapping(rk, work, lambda: asyncio.run(main()), count)


def pooled(rk: ModuleType, work: Path, count: int) -> Numbers:
    """CPU of replaying one of several calls that the threads of a pool make side by side."""

    @rk.tool
    def lookup(index: int) -> int:
        time.sleep(_CALL_S)
        return index

    def agent() -> None:
        with ThreadPoolExecutor(_WORKERS) as pool:
            if list(pool.map(lookup, range(count))) != list(range(count)):
                raise AssertionError("a call got the answer of another one")

    return _overlapping(rk, work, agent, count)


def sleeps(rk: ModuleType, work: Path) -> Numbers:
    """Wall seconds of a replay whose recording slept for 65 seconds."""

    @rk.tool
    def lookup(index: int) -> int:
        time.sleep(_SLEEPS_S[index] / 2)
        return index

    def agent() -> None:
        for index, seconds in enumerate(_SLEEPS_S):
            lookup(index)
            time.sleep(seconds / 2)

    with rk.Store.open(work / "store.db") as store:
        run, _ = _recorded(rk, store, agent)
    started = perf_counter()
    with rk.replaying(rk.Tape.of(run)):
        began_s = time.time()
        agent()
        passed_s = time.time() - began_s
    wall_s = perf_counter() - started
    if passed_s < sum(_SLEEPS_S):
        raise AssertionError(f"only {passed_s:.1f} s have passed for the agent")
    return {"replay_wall_s": wall_s}


def _overlapping(rk: ModuleType, work: Path, agent: Callable[[], None], count: int) -> Numbers:
    with rk.Store.open(work / "store.db") as store:
        run, _ = _recorded(rk, store, agent)
    return {"replay_us": min(_replayed_s(rk, run, agent) for _ in range(_REPLAYS)) / count * 1e6}


def _recorded(rk: ModuleType, store: Any, agent: Callable[[], None]) -> tuple[Any, float]:
    """The run, and the CPU seconds of the agent in it."""
    with rk.record("bench", store=store) as run:
        cpu_s = _cpu_s(agent)
    return store.load(run.id), cpu_s


def _replayed_s(rk: ModuleType, run: Any, agent: Callable[[], None]) -> float:
    with rk.replaying(rk.Tape.of(run)) as replayer:
        cpu_s = _cpu_s(agent)
    if replayer.all_deviations():
        raise AssertionError(f"the replay left its tape: {replayer.all_deviations()[0]}")
    return cpu_s


def _cpu_s(work: Callable[[], None]) -> float:
    before_s = process_time()
    work()
    return process_time() - before_s
