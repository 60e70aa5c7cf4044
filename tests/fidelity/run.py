"""`make fidelity`: the unchanged law over the whole collection, random agents and edited agents, in figures.

python -m tests.fidelity.run                           everything
python -m tests.fidelity.run timeouts races:hedged     some agents of the collection only
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from tests.fidelity.false_fixes import misjudged
from tests.fidelity.figures import report_collection, report_edited, report_false_fixes, report_unchanged
from tests.fidelity.harness import WAYS, Agent, Trial, collection, declarations, tried
from tests.fidelity.hold_ups import IS_POSSIBLE
from tests.fidelity.parallel_agents import tally
from tests.fidelity.safeguards import FALSE_FIXES, HELD_UP, RANDOM, SAFEGUARDS

CLASSES_MATTER = ("values", "exceptions", "processes", "chance")
"""Modules whose agents are recorded as scripts as well: there their classes belong to `__main__`."""
MOST_RANDOM = 600
"""Random agents that are tried at most, until one breaks the law without a safeguard; most take one batch."""
BATCH = 40
"""Random agents that are tried at a time where one breach is enough."""
LOAD = """
import os, sys, time
parent, end = os.getppid(), time.monotonic() + float(sys.argv[1])
while os.getppid() == parent and time.monotonic() < end:
    sum(range(20_000))
"""


@contextmanager
def load(processes: int, limit_s: float = 3600.0) -> Iterator[None]:
    """Keep so many cores busy; each process ends with this one, or by itself at the limit."""
    command = [sys.executable, "-S", "-c", LOAD, str(limit_s)]
    busy = [subprocess.Popen(command) for _ in range(processes)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def selected(names: Sequence[str]) -> list[Agent]:
    """The agents that the command line names: modules, or `module:agent`; all where it names none."""
    if not names:
        return collection()
    return [agent for agent in collection() if agent.module in names or str(agent) in names]


def ways_of(agent: Agent, ways: Sequence[str]) -> list[str]:
    """The ways in which an agent is tried."""
    if declarations(agent.module)[agent.name]["takes_s"]:
        return [way for way in ways if way == "agent"]
    return [way for way in ways if way != "script" or agent.module in CLASSES_MATTER]


def try_all(agents: Sequence[Agent], ways: Sequence[str], *, times: int, jobs: int, directory: Path) -> list[Trial]:
    """Try all agents in all ways, several at once; the slowest begin first."""
    work = [(agent, way) for agent in agents for way in ways_of(agent, ways)]
    work.sort(key=lambda pair: -float(declarations(pair[0].module)[pair[0].name]["takes_s"]))

    def one(pair: tuple[Agent, str]) -> Trial:
        agent, way = pair
        trial = tried(agent, way, directory / way / agent.module / agent.name, times)
        if trial.breaches:
            print(f"  {agent} {way}: {'; '.join(trial.breaches)[:400]}", flush=True)
        return trial

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, work))


def report_safeguards(directory: Path, seed: int) -> bool:
    """Take each safeguard away, one at a time; True when each is missed."""
    print()
    noticed = []
    for name, safeguard in SAFEGUARDS.items():
        missed = [who for who in safeguard.noticed_by if not _notices(who, name, directory / name, seed)]
        noticed.append(not missed)
        words = f"not noticed by {', '.join(missed)}" if missed else f"noticed by {', '.join(safeguard.noticed_by)}"
        print(f"without {name}: {words}")
    return all(noticed)


def _notices(who: str, safeguard: str, directory: Path, seed: int) -> bool:
    """True when this agent, or the random ones, break the law without the safeguard.

    A trial that could not be carried out says nothing: a patch that has gone stale must not look like a breach.
    """
    if who == FALSE_FIXES:
        return misjudged(without=safeguard) != misjudged()
    if who == RANDOM:
        return _is_broken("unchanged", MOST_RANDOM, seed=seed, without=safeguard)
    if who == HELD_UP:
        return not IS_POSSIBLE or _is_broken(HELD_UP, 600, seed=seed, without=safeguard)
    agent = Agent(*who.split(":"))
    trial = tried(agent, "in_process", directory / agent.name, without=safeguard)
    return not trial.problem and bool(trial.breaches)


def _is_broken(what: str, count: int, *, seed: int, without: str) -> bool:
    """Return whether one of so many random agents breaks the law; those after the first that does are not tried."""
    batches = range(0, count, BATCH)
    return any(not tally(what, BATCH, processes=4, seed=seed + first, without=without).holds for first in batches)


def main() -> int:
    """Run what the command line says; 1 when a law is broken."""
    options = _options()
    began = time.monotonic()
    holds = []
    with load(options.load):
        if not options.only_random:
            trials = _try(options)
            holds.append(report_collection(trials))
        if not options.agents:
            unchanged = tally("unchanged", options.random, processes=options.processes, seed=options.seed)
            changed = tally("edited", options.random // 10, processes=options.processes, seed=options.seed)
            holds += [report_unchanged(unchanged), report_edited(changed), report_false_fixes(misjudged())]
            if IS_POSSIBLE:
                held_up = tally(HELD_UP, options.random // 10, processes=4, seed=options.seed)
                holds.append(report_unchanged(held_up, HELD_UP))
            with tempfile.TemporaryDirectory(prefix="fidelity-") as directory:
                holds.append(report_safeguards(Path(directory), options.seed))
    print(f"\n{time.monotonic() - began:.0f} s, seed {options.seed}: {'the laws hold' if all(holds) else 'BROKEN'}")
    return 0 if all(holds) else 1


def _options() -> argparse.Namespace:
    cores = os.cpu_count() or 2
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("agents", nargs="*", help="Modules, or module:agent; without any, random agents follow.")
    parser.add_argument("--way", action="append", choices=WAYS)
    times = int(os.environ.get("FIDELITY_TIMES") or "3")
    parser.add_argument("--times", type=int, default=times, help="Replays of each agent in each way.")
    parser.add_argument("--jobs", type=int, default=cores)
    parser.add_argument("--load", type=int, default=max(1, cores // 2), help="Cores that are kept busy meanwhile.")
    parser.add_argument("--random", type=int, default=int(os.environ.get("FIDELITY_RANDOM") or "5000"))
    parser.add_argument("--only-random", action="store_true")
    parser.add_argument("--processes", type=int, default=5 * cores, help="For random agents, which mostly wait.")
    seed = int(os.environ.get("FIDELITY_SEED") or int.from_bytes(os.urandom(3)))
    parser.add_argument("--seed", type=int, default=seed)
    parser.add_argument("--json", type=Path, help="Write each trial of the collection to this file.")
    return parser.parse_args()


def _try(options: argparse.Namespace) -> list[Trial]:
    with tempfile.TemporaryDirectory(prefix="fidelity-") as directory:
        trials = try_all(
            selected(options.agents),
            options.way or WAYS,
            times=options.times,
            jobs=options.jobs,
            directory=Path(directory),
        )
    if options.json:
        rows = [asdict(trial) | {"breaches": trial.breaches} for trial in trials]
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return trials


if __name__ == "__main__":
    sys.exit(main())
