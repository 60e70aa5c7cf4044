"""What isolation costs: a sandbox, a nested one, and a command that is started in one.

The setup is measured in the process that enters a sandbox, up to where it stands guard. What its overlays take is
counted apart, because that depends on how many directories the machine has below its root.
"""

from __future__ import annotations

import os
import resource
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time

Numbers = dict[str, float]
_TIMES = 20
_PAIR = struct.Struct("dd")


def sandboxes(work: Path) -> Numbers:
    """Start `true` plainly and in a sandbox, and enter a nested one: the least of some times, in milliseconds."""
    from replaykit.isolation import Level, Policy, Sandbox, support

    if support().level is not Level.FULL:
        raise RuntimeError(f"this machine has no sandboxes: {'; '.join(support().reasons())}")
    policy = Policy(project=work)

    def start() -> None:
        with Sandbox(policy) as sandbox:
            if sandbox.start(["/bin/true"]).wait() != 0 or sandbox.report().stopped:
                raise AssertionError("a sandboxed command failed")

    plain_cpu_ms, plain_wall_ms = _least(lambda: subprocess.run(["/bin/true"], check=True))
    cpu_ms, wall_ms = _least(start)
    setup_ms, overlays_ms = _setup(start)
    nested_cpu_ms, nested_wall_ms = _nested(work)
    return {
        "plain_cpu_ms": plain_cpu_ms,
        "plain_wall_ms": plain_wall_ms,
        "cpu_ms": cpu_ms,
        "wall_ms": wall_ms,
        "setup_ms": setup_ms,
        "overlays_ms": overlays_ms,
        "nested_cpu_ms": nested_cpu_ms,
        "nested_wall_ms": nested_wall_ms,
    }


def _least(action: Callable[[], object]) -> tuple[float, float]:
    """Return the least CPU time of this process and its children, and the least wall time, in milliseconds."""
    action()  # what is imported and found out once
    costs = []
    for _ in range(_TIMES):
        cpu_s, began = _cpu_s(), perf_counter()
        action()
        costs.append((_cpu_s() - cpu_s, perf_counter() - began))
    return min(cpu for cpu, _ in costs) * 1e3, min(wall for _, wall in costs) * 1e3


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _setup(start: Callable[[], None]) -> tuple[float, float]:
    """Return the CPU milliseconds of entering a sandbox besides its overlays, and those of the overlays."""
    from replaykit.isolation import guardian, mounts, sandbox

    source, sink = os.pipe()
    overlay, enter, stand = mounts._Builder._overlay, sandbox._Entrance.enter, guardian.Guardian.stand
    overlays_s = began_s = 0.0

    def timed_enter(self, level):
        nonlocal began_s
        began_s = process_time()
        enter(self, level)

    def timed_overlay(self, path):
        nonlocal overlays_s
        before_s = process_time()
        overlay(self, path)
        overlays_s += process_time() - before_s

    def timed_stand(self):
        os.write(sink, _PAIR.pack(process_time() - began_s - overlays_s, overlays_s))
        stand(self)

    close_all = sandbox._close_all_but
    mounts._Builder._overlay, sandbox._Entrance.enter = timed_overlay, timed_enter
    guardian.Guardian.stand = timed_stand
    sandbox._close_all_but = lambda *kept: close_all(*kept, sink)
    try:
        pairs = []
        for _ in range(_TIMES):
            start()
            pairs.append(_PAIR.unpack(os.read(source, _PAIR.size)))
    finally:
        mounts._Builder._overlay, sandbox._Entrance.enter = overlay, enter
        guardian.Guardian.stand, sandbox._close_all_but = stand, close_all
    return min(one for one, _ in pairs) * 1e3, min(other for _, other in pairs) * 1e3


def _nested(work: Path) -> tuple[float, float]:
    """Return the least CPU and wall milliseconds of a fork that enters a nested sandbox, measured inside of another."""
    from replaykit.isolation import Policy, Sandbox

    def fork() -> None:
        with Sandbox(Policy(project=work), nested=True) as nested:
            pid = os.fork()
            if pid == 0:
                nested.enter()
                os._exit(0)
            if os.waitpid(pid, 0)[1] != 0 or nested.level != "full":
                raise AssertionError("a nested sandbox failed")

    source, sink = os.pipe()
    with Sandbox(Policy(project=work)) as outer:
        pid = os.fork()
        if pid == 0:
            outer.enter()
            os.write(sink, _PAIR.pack(*_least(fork)))
            os._exit(0)
        os.close(sink)
        os.waitpid(pid, 0)
        with open(source, "rb") as answer:
            return _PAIR.unpack(answer.read(_PAIR.size))
