"""Work out where a suite on many workers saturates, from what was measured on few. It runs nothing.

    python bench/cluster_simulation.py                                # 100 workers, 1,000,000 cases
    python bench/cluster_simulation.py --workers 400 --case-ms 2
    python bench/cluster_simulation.py --driver-ms 0.4                # with figures of your own

A discrete simulation with a seed. Workers ask for chunks. Scheduler and driver are single servers with a cost for each
chunk and each case. Before the first chunk, the scheduler sends every worker the bundle over one link. Times of cases
are drawn from a log-normal distribution, and workers die and come back as often as `--deaths` says.
"""

from __future__ import annotations

import argparse
import heapq
import math
import random
from dataclasses import dataclass, replace

SEED = 7
CHUNK_S = 1.0
MAX_CHUNK = 512
AHEAD = 8


@dataclass(frozen=True)
class Costs:
    """What was measured with `bench/cluster.py`, and what is assumed of the network."""

    case_ms: float = 10.0  # a replay on a worker, all of its processes together
    prepare_case_ms: float = 0.2  # index a case and pack it, before the first chunk
    driver_case_ms: float = 0.35  # decode a reply, write its record
    driver_chunk_ms: float = 3.0  # submit and gather a chunk
    scheduler_chunk_ms: float = 1.0  # the transitions of a task, and its messages
    bundle_mb: float = 100.0  # compressed
    link_mb_per_s: float = 120.0  # 1 Gbit/s
    unpack_case_ms: float = 0.05  # on each worker, once
    spread: float = 0.5  # sigma of the times of cases
    restart_s: float = 20.0


@dataclass(frozen=True)
class Outcome:
    """How long a suite took, and who was busy."""

    hours: float
    efficiency: float
    driver: float
    scheduler: float
    chunks_per_s: float
    bundle_s: float
    lost_s: float


def simulate(costs: Costs, *, workers: int, cases: int, deaths: int = 0, max_chunk: int = MAX_CHUNK) -> Outcome:
    """Run one suite."""
    chance = random.Random(SEED)
    bundle_s = costs.bundle_mb / costs.link_mb_per_s
    prepare_s = cases * costs.prepare_case_ms / 1000
    unpack_s = cases * costs.unpack_case_ms / 1000
    events: list[tuple[float, int, int]] = []  # the time at which a worker is free, and the size of what it did
    for number in range(workers):
        heapq.heappush(events, (prepare_s + (number + 1) * bundle_s + unpack_s, number, 0))
    planned_s = cases * costs.case_ms / 1000 / workers
    fatal = sorted(chance.uniform(0, planned_s) for _ in range(deaths))
    remaining, chunks = cases, 0
    driver_free = scheduler_free = driver_busy = scheduler_busy = work_s = lost_s = 0.0
    ended = 0.0
    while events:
        now, number, size = heapq.heappop(events)
        if size:
            if fatal and fatal[0] < now:  # the chunk is lost with its worker, and runs again
                fatal.pop(0)
                lost_s += size * costs.case_ms / 1000
                remaining += size
                heapq.heappush(events, (now + costs.restart_s + bundle_s + unpack_s, number, 0))
                continue
            spent_s = (costs.driver_chunk_ms + size * costs.driver_case_ms) / 1000
            driver_free = max(driver_free, now) + spent_s
            driver_busy += spent_s
            ended = max(ended, driver_free)
        if not remaining:
            continue
        size = max(1, min(round(CHUNK_S * 1000 / costs.case_ms), remaining // (2 * workers), max_chunk, remaining))
        remaining -= size
        chunks += 1
        scheduler_free = max(scheduler_free, now) + costs.scheduler_chunk_ms / 1000
        scheduler_busy += costs.scheduler_chunk_ms / 1000
        # A driver that lags behind by the whole window submits no more until it has caught up.
        window_s = AHEAD * CHUNK_S
        begin = max(scheduler_free, driver_free - window_s)
        took_s = (
            size
            * costs.case_ms
            / 1000
            * chance.lognormvariate(-(costs.spread**2) / 2 / size, costs.spread / math.sqrt(size))
        )
        work_s += took_s
        heapq.heappush(events, (begin + took_s, number, size))
    return Outcome(
        hours=ended / 3600,
        efficiency=(work_s - lost_s) / (ended * workers),
        driver=driver_busy / ended,
        scheduler=scheduler_busy / ended,
        chunks_per_s=chunks / ended,
        bundle_s=workers * bundle_s,
        lost_s=lost_s,
    )


def main() -> None:
    """Print a table: the case that was asked for, and what changes when one thing does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=100)
    parser.add_argument("--cases", type=int, default=1_000_000)
    parser.add_argument("--deaths", type=int, default=20)
    parser.add_argument("--case-ms", type=float, default=Costs.case_ms)
    parser.add_argument("--driver-ms", type=float, default=Costs.driver_case_ms)
    parser.add_argument("--bundle-mb", type=float, default=Costs.bundle_mb)
    arguments = parser.parse_args()
    costs = Costs(case_ms=arguments.case_ms, driver_case_ms=arguments.driver_ms, bundle_mb=arguments.bundle_mb)
    size = {"workers": arguments.workers, "cases": arguments.cases, "deaths": arguments.deaths}
    rows = [
        ("as asked", costs, size),
        ("a tenth of the workers", costs, {**size, "workers": max(1, arguments.workers // 10)}),
        ("four drivers, `--shard K/4`", costs, {key: max(1, value // 4) for key, value in size.items()}),
        ("four times the workers", costs, {**size, "workers": 4 * arguments.workers}),
        ("cases that take 10 × as long", replace(costs, case_ms=10 * costs.case_ms), size),
        ("one case in a chunk", costs, {**size, "max_chunk": 1}),
        ("ten times the bundle", replace(costs, bundle_mb=10 * costs.bundle_mb), size),
    ]
    print("| suite | minutes | efficiency | driver busy | scheduler busy | chunks a second | bundle to all, s |")
    print("|---|---|---|---|---|---|---|")
    for name, changed, options in rows:
        found = simulate(changed, **options)
        cells = [name, f"{60 * found.hours:.1f}", f"{found.efficiency:.2f}", f"{found.driver:.0%}"]
        cells += [f"{found.scheduler:.0%}", f"{found.chunks_per_s:.0f}", f"{found.bundle_s:.0f}"]
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
