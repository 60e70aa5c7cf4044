"""Clocks and scales: what a stretch of code, a process or a directory costs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time, sleep  # by name: a replay has virtual ones in `time`
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


def process_cost(
    arguments: list[str],
    *,
    cwd: Path,
    env: dict[str, str] | None = None,
    expect: str = "",
    start: Callable[[], None] | None = None,
) -> Stopwatch:
    """What running this interpreter with these arguments costs, its own children included.

    Another exit code than 0, or an output without the expected text, is an error: a crash is fast. `start` is called in
    the new process first.
    """
    cost = Stopwatch()
    with (cwd / "process.log").open("w+b") as log:
        started = perf_counter()
        command = [sys.executable, *arguments]
        process = subprocess.Popen(command, cwd=cwd, env=env, stdout=log, stderr=log, preexec_fn=start)
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


def tree_cost(arguments: list[str], *, cwd: Path, env: dict[str, str], expect: str = "") -> Stopwatch:
    """What running this interpreter costs, with all processes that it starts: also those that nobody waits for.

    They are counted by a control group of their own, which takes Linux and root.
    """
    with _ControlGroup() as group:
        began_s = group.cpu_s()
        cost = process_cost(arguments, cwd=cwd, env=env, expect=expect, start=group.enter)
        cost.cpu_s = group.cpu_s() - began_s
    return cost


class _ControlGroup:
    """A control group, of version 2 or 1, that is made and removed by a `with` block."""

    def __enter__(self) -> _ControlGroup:
        name = f"replaykit-bench-{os.getpid()}"
        version_2, version_1 = Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/cpuacct")
        self._place = (version_1 if version_1.is_dir() else version_2) / name
        try:
            self._place.mkdir()
        except OSError as error:
            raise RuntimeError(f"the CPU of all processes takes a control group: {error}") from None
        return self

    def __exit__(self, *_: object) -> None:
        while (self._place / "cgroup.procs").read_text():  # what was killed a moment ago is still there
            sleep(0.01)
        self._place.rmdir()

    def enter(self) -> None:
        (self._place / "cgroup.procs").write_text(str(os.getpid()))

    def cpu_s(self) -> float:
        usage = self._place / "cpuacct.usage"
        if usage.exists():
            return int(usage.read_text()) / 1e9
        line = (self._place / "cpu.stat").read_text().splitlines()[0]
        return int(line.removeprefix("usage_usec ")) / 1e6


def disk_bytes(path: Path) -> int:
    """Bytes of all files below a directory."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
