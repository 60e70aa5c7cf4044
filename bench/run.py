"""Measure ReplayKit and its peers side by side: `python bench/run.py`; see README.md beside this file."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import chart
import table
from rows import GROUPS, ROWS, Job, Row
from table import Results

HERE = Path(__file__).parent
TIMEOUT_S = 180
TIMEOUT_ONCE_S = 1200  # of what is slow, and measured once

METHOD = (
    "Each measurement runs in a process of its own, ReplayKit and its peers in turn, {repeat}. A value is the"
    " least of the repetitions, with their median beside it; a ratio is the peer's value divided by ours, so above"
    " 1 the peer takes more. Times are CPU time of the process (user and system) unless the row says wall, over the"
    " bare function or bare Python where that applies. Every value read back is compared with what was written."
)


def main() -> int:
    options = parse_arguments()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # nobody who uses these tools compiles them anew each time
    rows = [row for row in ROWS if row.group in options.only]
    started = time.perf_counter()
    results = measure(rows, options)
    lines = [table.fill(row, results) for row in rows]
    if options.json:
        print(json.dumps({"about": about(results, options), "rows": table.as_json(lines)}, indent=2))
    else:
        print(table.text(lines))
        print(f"\n{method(options)}")
    if options.only == GROUPS and not options.quick:
        (HERE / "results.md").write_text(document(lines, results, options), encoding="utf-8")
        (HERE / "results.svg").write_text(chart.svg(lines), encoding="utf-8")
    say(f"{time.perf_counter() - started:.0f} s")
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure ReplayKit and its peers side by side.")
    parser.add_argument("--quick", action="store_true", help="one repetition, without the slowest; writes no file")
    parser.add_argument("--only", action="append", choices=GROUPS, metavar="ROW", help=", ".join(GROUPS))
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="repetitions (3)")
    parser.add_argument("--json", action="store_true", help="JSON on stdout instead of the table")
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="SYSTEM=PATH",
        help="interpreter for one system, when its package lives in an environment of its own",
    )
    options = parser.parse_args()
    options.only = options.only or GROUPS
    options.repeat = 1 if options.quick else max(1, options.repeat)
    options.interpreters = dict(pair.split("=", 1) for pair in options.python)
    return options


def measure(rows: list[Row], options: argparse.Namespace) -> Results:
    """Run every job the rows need, repetition by repetition, so that drift of the machine meets all alike."""
    jobs = list(dict.fromkeys(job for row in rows for job in row.jobs))
    plan = list(schedule(jobs, options.repeat, quick=options.quick))
    results: Results = {}
    for number, job in enumerate(plan, 1):
        say(f"[{number}/{len(plan)}] {job}")
        outcome = run_child(job, options.interpreters.get(job.system, sys.executable))
        if "missing" in outcome:
            say(f"    {outcome['missing']} {outcome.get('why', '')}")
        results.setdefault(job, []).append(outcome)
    return results


def schedule(jobs: list[Job], repeat: int, *, quick: bool) -> Iterator[Job]:
    """The jobs in turn; every second repetition backwards, so that nobody always comes after the same one."""
    for turn in range(repeat):
        for job in jobs if turn % 2 == 0 else reversed(jobs):
            if not job.once or (turn == 0 and not quick):
                yield job


def run_child(job: Job, interpreter: str) -> dict[str, Any]:
    """One measurement in a fresh process."""
    command = [interpreter, str(HERE / "child.py"), job.system, job.measurement, json.dumps(dict(job.parameters))]
    timeout_s = TIMEOUT_ONCE_S if job.once else TIMEOUT_S
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return {"missing": f"took more than {timeout_s} s"}
    if done.returncode != 0:
        return {"missing": "failed", "why": done.stderr.strip()[-800:]}
    outcome: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return outcome


def about(results: Results, options: argparse.Namespace) -> dict[str, Any]:
    """Where and with what the numbers were taken."""
    versions = {
        table.name_of(job.system): outcome["version"]
        for job, outcomes in results.items()
        for outcome in outcomes
        if outcome.get("version")
    }
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 1),
        "repetitions": options.repeat,
        "versions": dict(sorted(versions.items())),
    }


def document(lines: list[table.Line], results: Results, options: argparse.Namespace) -> str:
    """The whole of results.md."""
    facts = about(results, options)
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    where = f"{facts['system']}, {facts['cores']} cores, load average {facts['load_average']} at the end"
    return (
        "# Results\n\nWritten by `python bench/run.py`. "
        f"{facts['date']}, Python {facts['python']}, {where}. {versions}.\n\n"
        "![ReplayKit beside other tools, in bars; the table has the numbers](results.svg)\n\n"
        f"{method(options)}\n\n{table.markdown(lines)}\n"
    )


def method(options: argparse.Namespace) -> str:
    """How the numbers came about, in a paragraph."""
    repeat = "once" if options.repeat == 1 else f"{options.repeat} times (the slowest and what does not move, once)"
    return textwrap.fill(METHOD.format(repeat=repeat), width=110)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
