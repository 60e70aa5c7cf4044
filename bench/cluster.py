"""`ci` on a Dask cluster of two worker processes beside a serial run on two cores: verdicts, cost per case, memory.

    python bench/cluster.py                  # 20,000 cases, about half an hour on two free cores
    python bench/cluster.py --cases 1000     # about two minutes

Three runs of one suite: serial, on the cluster, and on the cluster with workers killed midway. CPU time is that of all
processes of a run, without what Dask takes when it is idle, which grows with the time that a busy machine takes. The
runs alternate in turns (`--turns`), and the least of each counts. Cases run behind Python's own guards: nobody is told
the CPU time of processes in a sandbox.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

WORKERS = 2
_SETTLE_S, _IDLE_S = 5.0, 10.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_AGENT = """
import replaykit as rk

@rk.tool
def lookup(order, part):
    raise AssertionError("a replay called the tool")

def answer(question):
    order = int(question.split()[-1])
    parts = [lookup(order=order, part=part)["status"] for part in range(5)]
    return f"{order}: {', '.join(parts)}"
"""


@dataclass(frozen=True)
class Measured:
    """One run of the suite."""

    verdicts: tuple[tuple[str, str], ...]
    wall_s: float
    cpu_s: float
    driver_cpu_s: float
    peak_bytes: int


def write_suite(directory: Path, count: int) -> None:
    """Write sessions; every tenth breaks its contract."""
    (directory / "shop.py").write_text(_AGENT)
    (directory / "sessions").mkdir()
    for number in range(count):
        status = "lost" if number % 10 == 3 else "shipped"
        answers = []
        for part in range(5):
            arguments = {"order": number, "part": part}
            answers.append({"tool": "lookup", "arguments": arguments, "response": {"status": status}, "status": 200})
        session = {"id": f"s{number:06}", "input": f"Where is {number}", "contract": "c", "tool_responses": answers}
        (directory / "sessions" / f"s{number:06}.json").write_text(json.dumps(session))
    contract = {"name": "c", "invariants": [{"id": "shipped", "type": "contains", "value": "shipped"}]}
    agent = {"type": "python", "endpoint": "shop:answer"}
    project = {"replaykit": 1, "agent": agent, "contract": contract, "cases": ["sessions"]}
    (directory / "replaykit.yaml").write_text(json.dumps(project))


@contextmanager
def dask_cluster(directory: Path, log: Path) -> Iterator[tuple[str, list[int]]]:
    """Start a scheduler, and a nanny for each worker; gives the address and the processes."""
    with ExitStack() as stack:
        out = stack.enter_context(log.open("w"))
        command = [sys.executable, "-m"]
        common = ["--host", "127.0.0.1", "--no-dashboard"]
        scheduler = subprocess.Popen(
            [*command, "distributed.cli.dask_scheduler", "--port", "0", *common], stderr=subprocess.PIPE, text=True
        )
        stack.callback(_end, scheduler)
        address = _address(scheduler)
        drain = threading.Thread(target=lambda: out.writelines(scheduler.stderr or ()), daemon=True)
        drain.start()
        options = ["--nworkers", str(WORKERS), "--nthreads", "1", "--local-directory", str(directory)]
        workers = subprocess.Popen(
            [*command, "distributed.cli.dask_worker", f"tcp://{address}", *options, *common],
            stderr=out,
            cwd=directory,
        )
        stack.callback(_end, workers)
        yield address, [scheduler.pid, workers.pid]


def _address(scheduler: subprocess.Popen[str]) -> str:
    for line in scheduler.stderr or ():
        found = re.search(r"Scheduler at:\s+tcp://(\S+)", line)
        if found:
            return found[1]
    raise SystemExit("the scheduler did not start")


def _end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(timeout=60)


def tree_cpu_s(roots: list[int]) -> float:
    """Return the CPU time of processes, of what runs below them, and of what has ended there."""
    parents, ticks = {}, {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            fields = Path("/proc", entry, "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:  # it ended meanwhile
            continue
        parents[int(entry)] = int(fields[1])
        ticks[int(entry)] = sum(map(int, fields[11:15]))
    wanted, size = set(roots), 0
    while size != len(wanted):
        size = len(wanted)
        wanted |= {pid for pid, parent in parents.items() if parent in wanted}
    return sum(ticks.get(pid, 0) for pid in wanted) / _TICKS_PER_S


def run_ci(directory: Path, *options: str, limit_s: float, others: list[int]) -> Measured:
    """Run `ci` once. `others` are the processes that work for it without being its children."""
    command = [sys.executable, "-m", "replaykit", "ci", "-q", *options]
    before, began = tree_cpu_s(others), time.monotonic()
    process = subprocess.Popen(command, cwd=directory, stdout=subprocess.DEVNULL)
    timer = threading.Timer(limit_s, process.kill)
    timer.start()
    _, status, usage = os.wait4(process.pid, 0)
    timer.cancel()
    code = os.waitstatus_to_exitcode(status)
    if code != 1:
        raise SystemExit(f"ci {' '.join(options)} ended with {code}; 1 was expected")
    wall_s = time.monotonic() - began
    driver_cpu_s = usage.ru_utime + usage.ru_stime
    return Measured(
        verdicts=tuple(verdicts_in(directory)),
        wall_s=wall_s,
        cpu_s=driver_cpu_s + tree_cpu_s(others) - before,
        driver_cpu_s=driver_cpu_s,
        peak_bytes=usage.ru_maxrss * 1024,
    )


def verdicts_in(directory: Path) -> Iterator[tuple[str, str]]:
    """Yield the id and the verdict of each result of the newest run. Reports would take memory of their own."""
    newest = max((directory / ".replaykit" / "ci").glob("*.jsonl"), key=lambda file: file.stat().st_mtime_ns)
    for line in newest.read_text().splitlines()[1:-1]:
        item = json.loads(line)["item"]
        yield item["id"], item["verdict"]


class Killer(threading.Thread):
    """Kills one worker after the other, each time that another share of the results is there."""

    def __init__(self, directory: Path, address: str, count: int, kills: int) -> None:
        super().__init__(daemon=True)
        self._directory = directory
        self._address = address
        self._marks = [count * (number + 1) // (kills + 1) for number in range(kills)]
        self._over = threading.Event()
        self.killed = 0

    def run(self) -> None:
        from distributed import Client

        with Client(f"tcp://{self._address}", set_as_default=False) as client:
            while self._marks and not self._over.wait(0.2):
                if self._lines() >= self._marks[0]:
                    self._marks.pop(0)
                    pids = sorted(client.run(os.getpid).values())
                    os.kill(pids[self.killed % len(pids)], signal.SIGKILL)
                    self.killed += 1

    def _lines(self) -> int:
        files = sorted((self._directory / ".replaykit" / "ci").glob("*.jsonl"))
        return files[-1].read_bytes().count(b"\n") if files else 0

    def stop(self) -> None:
        self._over.set()
        self.join()


def measure(count: int, turns: int, kills: int, limit_s: float) -> dict[str, float]:
    """Run the suite in turns, and return the figures; an error where a verdict differs."""
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-cluster-") as name:
        directory = Path(name).absolute() / "project"
        directory.mkdir()
        write_suite(directory, count)
        scratch = directory.parent / "dask"
        scratch.mkdir()
        serial, spread = [], []
        with dask_cluster(scratch, directory.parent / "dask.log") as (address, processes):
            idle_share = idle_cpu_share(processes)
            on = ("--on", f"dask://{address}")
            for _ in range(turns):
                serial.append(run_ci(directory, "-j", str(WORKERS), limit_s=limit_s, others=[]))
                spread.append(run_ci(directory, *on, limit_s=limit_s, others=processes))
            (directory / ".replaykit" / "ci").rename(directory.parent / "results")
            killer = Killer(directory, address, count, kills)
            killer.start()
            disturbed = run_ci(directory, *on, limit_s=limit_s, others=processes)
            killer.stop()
    if killer.killed < kills:
        raise SystemExit(f"only {killer.killed} of {kills} workers were killed: take more cases")
    for run in (*spread, disturbed):
        compare(serial[0].verdicts, run.verdicts)
    one, many = min(serial, key=lambda run: run.cpu_s), min(spread, key=lambda run: run.cpu_s)
    busy_s = many.cpu_s - idle_share * many.wall_s
    return {
        "cases": count,
        "workers_killed": killer.killed,
        "serial_cpu_ms_per_case": 1000 * one.cpu_s / count,
        "cluster_cpu_ms_per_case": 1000 * many.cpu_s / count,
        "driver_cpu_ms_per_case": 1000 * many.driver_cpu_s / count,
        "dask_idle_cpu_share": idle_share,
        "overhead_ms_per_case": 1000 * (busy_s - one.cpu_s) / count,
        "efficiency_cpu": one.cpu_s / busy_s,
        "efficiency_cpu_with_idle": one.cpu_s / many.cpu_s,
        "efficiency_wall": min(run.wall_s for run in serial) / min(run.wall_s for run in spread),
        "serial_wall_s": min(run.wall_s for run in serial),
        "cluster_wall_s": min(run.wall_s for run in spread),
        "disturbed_wall_s": disturbed.wall_s,
        "serial_driver_mb": one.peak_bytes / 1e6,
        "cluster_driver_mb": many.peak_bytes / 1e6,
    }


def idle_cpu_share(processes: list[int]) -> float:
    """Return the share of a processor that a cluster takes without work: its heartbeats and statistics."""
    time.sleep(_SETTLE_S)
    before, began = tree_cpu_s(processes), time.monotonic()
    time.sleep(_IDLE_S)
    return (tree_cpu_s(processes) - before) / (time.monotonic() - began)


def compare(expected: tuple[tuple[str, str], ...], found: tuple[tuple[str, str], ...]) -> None:
    """Stop where verdicts differ, are missing, or are there twice."""
    if found != expected:
        missing, added = Counter(expected) - Counter(found), Counter(found) - Counter(expected)
        raise SystemExit(f"verdicts differ; missing {missing.most_common(5)}, added {added.most_common(5)}")


def main() -> None:
    """Measure one suite, or several sizes, and print a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, nargs="+", default=[20_000])
    parser.add_argument("--turns", type=int, default=1, help="serial and cluster runs in turn; the least counts")
    parser.add_argument("--kills", type=int, default=3, help="workers to kill in the last run")
    parser.add_argument("--limit", type=float, default=1800, help="seconds for each run")
    arguments = parser.parse_args()
    os.environ["REPLAYKIT_ISOLATION"] = "process"
    for count in arguments.cases:
        for name, value in measure(count, arguments.turns, arguments.kills, arguments.limit).items():
            print(f"{name:24} {value:,.2f}", flush=True)
        print(flush=True)


if __name__ == "__main__":
    main()
