"""Random agents in many processes at once: a recording mostly waits, so that there are more of them than cores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fidelity.programs import program_of

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(".fidelity")
"""Where programs that failed are left, to be tried again."""
WORKER = (sys.executable, "-m", "tests.fidelity.random_agents")
CURRENT, DONE = "current.json", "figures.json"
MOST_HANGS = 3
"""A process that hung is replaced so many times; what is left then is not run."""


@dataclass
class Tally:
    """The figures of all processes."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)

    def add(self, figures: dict[str, Any]) -> None:
        """Add the figures of one process."""
        self.counts.update(figures["counts"])
        self.failures += figures["failures"]

    def save(self, name: str) -> None:
        """Write each program that failed to a file of its own."""
        for number, failure in enumerate(self.failures):
            PROGRAMS.mkdir(exist_ok=True)
            file = PROGRAMS / f"{name}-{number}.json"
            file.write_text(json.dumps(failure, indent=1), encoding="utf-8")
            failure["file"] = str(file)

    @property
    def holds(self) -> bool:
        """True when something was checked, and no law was broken."""
        return self.counts["agents"] > 0 and not self.counts["breaches"]


def tally(what: str, count: int, *, processes: int, seed: int, without: str = "") -> Tally:
    """Check so many random agents, `unchanged` or `edited`, in so many processes; `without` a safeguard."""
    shares = [count // processes + (number < count % processes) for number in range(processes)]
    total = Tally()
    with ThreadPoolExecutor(processes) as pool:
        for parts in pool.map(lambda pair: list(_checked(what, pair[1], seed + pair[0], without)), enumerate(shares)):
            for part in parts:
                total.add(part)
    return total


def _checked(what: str, count: int, seed: int, without: str) -> Iterator[dict[str, Any]]:
    """Run one process after the other until the share is done; a process that hangs ends itself."""
    for hangs in range(MOST_HANGS + 1):
        if count <= 0:
            return
        with tempfile.TemporaryDirectory(prefix="fidelity-") as place:
            env = {**os.environ, "FIDELITY_DIRECTORY": place}
            command = [*WORKER, what, str(count), str(seed + 1000 * hangs), *([without] if without else [])]
            ended = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
            if ended.returncode == 0:
                yield json.loads(ended.stdout)
                return
            done = _hung(Path(place), ended.stderr)
        count -= done["counts"]["agents"] + 1
        yield done


def _hung(place: Path, stderr: str) -> dict[str, Any]:
    """The figures of a process that did not come to its end, with the program that it was at."""
    done = place / DONE
    found = json.loads(done.read_text(encoding="utf-8")) if done.exists() else {"counts": {}, "failures": []}
    counts = Counter(found["counts"])
    counts.update(["breaches", "breach: hung or crashed"])
    counts["agents"] += 0
    current = place / CURRENT
    program = json.loads(current.read_text(encoding="utf-8")) if current.exists() else None
    text = str(program_of(program)) if program else ""
    failure = {
        "why": "hung or crashed",
        "text": text,
        "stderr": f"{stderr[:4000]}\n…\n{stderr[-4000:]}",
        "program": program,
    }
    return {"counts": dict(counts), "failures": [*found["failures"], failure]}
