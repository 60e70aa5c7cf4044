"""Clocks and scales: what a stretch of code, a process or a directory costs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter, process_time  # by name: a replay has virtual ones in `time`
from types import TracebackType


class Stopwatch:
    """CPU and wall seconds of a `with` block; CPU is user and system time of the whole process."""

    cpu_s = 0.0
    wall_s = 0.0
    peak_bytes = 0
    """Of a process: the most memory that it, or one of its own children, had at a time."""

    def __enter__(self) -> Stopwatch:
        self._wall = perf_counter()
        self._cpu = process_time()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cpu_s += process_time() - self._cpu
        self.wall_s += perf_counter() - self._wall


def process_cost(arguments: list[str], *, cwd: Path, env: dict[str, str] | None = None, expect: str = "") -> Stopwatch:
    """What running this interpreter with these arguments costs, its own children included.

    Another exit code than 0, or an output without the expected text, is an error: a crash is fast.
    """
    cost = Stopwatch()
    with (cwd / "process.log").open("w+b") as log:
        started = perf_counter()
        process = subprocess.Popen([sys.executable, *arguments], cwd=cwd, env=env, stdout=log, stderr=log)
        _, status, usage = os.wait4(process.pid, 0)
        cost.wall_s = perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        log.seek(0)
        said = log.read().decode(errors="replace")
    if process.returncode != 0 or expect not in said:
        raise RuntimeError(f"{arguments} ended with {process.returncode}: {said[-800:]}")
    cost.cpu_s = usage.ru_utime + usage.ru_stime
    cost.peak_bytes = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return cost


def disk_bytes(path: Path) -> int:
    """Bytes of all files below a directory."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
