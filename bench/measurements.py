"""The measurements that several systems share. Each returns plain numbers, units in their names.

A system hands over how it wraps a function and how it opens a session; what is called, how often, and what
is compared is the same for all. Every value that comes back is checked, so that a system cannot win by
doing nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import workloads
from clock import Stopwatch, disk_bytes, process_cost

Numbers = dict[str, float]
Function = Callable[..., Any]
Session = Callable[[Path], AbstractContextManager[Any]]

_RESULTS = 256  # different results; the calls cycle through them
_WARM_STEPS = 100
_PROCESSES = 3  # processes started for one measurement, besides the first that warms the caches


@dataclass(frozen=True)
class CallRecorder:
    """How a system records and replays calls of a plain Python function."""

    wrap: Callable[[Function], Function]
    record: Session
    replay: Session


class Lookup:
    """A tool that answers with 1 KB."""

    def __init__(self) -> None:
        self.results = workloads.results(_RESULTS)

    def function(self, *, is_live: bool = True) -> Function:
        """The tool, which has no side effects, as most; with `is_live=False`, one that fails where it really runs."""
        results = self.results if is_live else _Unreachable()

        def lookup(query: str, index: int = 0) -> dict[str, Any]:
            return results[index % _RESULTS]

        return lookup

    def counting_function(self) -> Function:
        """A tool that changes an object of its own in every call."""
        counter, results = _Counter(), self.results

        def lookup(query: str, index: int = 0) -> dict[str, Any]:
            counter.value += 1
            return results[index % _RESULTS]

        return lookup

    def expect(self, index: int, result: object) -> None:
        if result != self.results[index % _RESULTS]:
            raise AssertionError(f"call {index} gave another result than was recorded")


class _Unreachable(list[Any]):
    """The results of a tool that is not to run."""

    def __getitem__(self, index: Any) -> Any:
        raise AssertionError("a replayed call ran live")


class _Counter:
    value = 0


def calls(recorder: CallRecorder, work: Path, count: int) -> Numbers:
    """Record `count` tool calls of 1 KB, then replay them: microseconds a call over the bare function.

    `…_us` is the loop alone; `…_session_us` includes opening, loading, saving and closing.
    """
    lookup = Lookup()
    bare, tool = lookup.function(), recorder.wrap(lookup.function())
    replayed_tool = recorder.wrap(lookup.function(is_live=False))
    bare_s = min(_loop(bare, count).cpu_s for _ in range(5))
    # Imports and compiles what is needed first; all results once, because one in many needs a closer look for secrets.
    _session(recorder.record, _made(work / "warm"), tool, _RESULTS)
    _session(recorder.replay, work / "warm", replayed_tool, _RESULTS)

    home = _made(work / "calls")
    record = _session(recorder.record, home, tool, count)
    size = disk_bytes(home)
    replay = _session(recorder.replay, home, replayed_tool, count)
    with recorder.replay(home):
        for index in range(count):
            lookup.expect(index, replayed_tool(query="order 7", index=index))
    return {
        "record_us": (record.loop_s - bare_s) / count * 1e6,
        "record_session_us": (record.whole_s - bare_s) / count * 1e6,
        "replay_us": (replay.loop_s - bare_s) / count * 1e6,
        "replay_session_us": (replay.whole_s - bare_s) / count * 1e6,
        "bytes": size,
    }


def counting_calls(recorder: CallRecorder, work: Path, count: int) -> Numbers:
    """Record `count` calls of a tool that changes an object of its own: microseconds a call over the bare function."""
    lookup = Lookup()
    bare, tool = lookup.counting_function(), recorder.wrap(lookup.counting_function())
    bare_s = min(_loop(bare, count).cpu_s for _ in range(5))
    _session(recorder.record, _made(work / "warm"), tool, _RESULTS)
    record = _session(recorder.record, _made(work / "calls"), tool, count)
    return {"record_us": (record.loop_s - bare_s) / count * 1e6}


@dataclass(frozen=True)
class _Costs:
    loop_s: float
    whole_s: float


def _session(enter: Session, home: Path, tool: Function, count: int) -> _Costs:
    with Stopwatch() as whole, enter(home):
        loop = _loop(tool, count)
    return _Costs(loop.cpu_s, whole.cpu_s)


def _loop(function: Function, count: int) -> Stopwatch:
    with Stopwatch() as watch:
        for index in range(count):
            function(query="order 7", index=index)
    return watch


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


def growing_calls(recorder: CallRecorder, work: Path, count: int) -> Numbers:
    """Bytes on disk of `count` recorded model calls whose message list grows by 1 KB a call."""
    messages = workloads.messages(count)

    def complete(messages: list[dict[str, Any]]) -> dict[str, str]:
        return {"role": "assistant", "content": "ok"}

    model = recorder.wrap(complete)
    home = _made(work / "calls")
    with Stopwatch() as watch, recorder.record(home):
        for index in range(count):
            model(messages=messages[: index + 1])
    return {"bytes": disk_bytes(home), "record_us": watch.cpu_s / count * 1e6}


@dataclass(frozen=True)
class Checkpoints:
    """How a system writes and loads the full state of an agent after each step."""

    write: Callable[[dict[str, Any]], Any]
    """Stores one state, on disk when it returns; gives the address to load it by."""
    close: Callable[[], None]
    reopen: Callable[[], Callable[[Any], dict[str, Any]]]
    """Opens the same place afresh; gives the function that loads a state by its address."""


def checkpoints(begin: Callable[[Path], Checkpoints], work: Path, steps: int, text: str = "prose") -> Numbers:
    """Write a state after every step, close, count the bytes, open again, load some from mid-run."""
    messages = workloads.messages(steps, text)
    warm = begin(_made(work / "warm"))  # imports and compiles what is needed first
    for state in workloads.states(messages[:_WARM_STEPS]):
        warm.write(state)
    warm.close()
    home = _made(work / "checkpoints")
    system = begin(home)
    with Stopwatch() as writing:
        addresses = [system.write(state) for state in workloads.states(messages)]
    system.close()
    size = disk_bytes(home)
    load = system.reopen()
    for step in _around_the_middle(steps, 4, offset=1):
        load(addresses[step])  # warms the page cache; none of these steps is loaded again
    loading, wanted = Stopwatch(), _around_the_middle(steps, 24)
    for step in wanted:
        with loading:
            state = load(addresses[step])
        if state != workloads.state_at(messages, step):
            raise AssertionError(f"the state loaded for step {step} is not the one that was written")
    return {
        "bytes": size,
        "write_us": writing.cpu_s / steps * 1e6,
        "write_wall_us": writing.wall_s / steps * 1e6,
        "load_us": loading.cpu_s / len(wanted) * 1e6,
        "load_wall_us": loading.wall_s / len(wanted) * 1e6,
    }


def _around_the_middle(count: int, wanted: int, offset: int = 0) -> list[int]:
    """Different steps spread over the middle fifth of a run: no cache of one step, no lucky keyframe."""
    spread = max(2, count // 5 // wanted)
    first = count // 2 - spread * wanted // 2 + offset
    return [step for step in range(first, first + spread * wanted, spread) if 0 <= step < count]


def start_up(statement: str, work: Path, *, env: dict[str, str] | None = None) -> Numbers:
    """CPU milliseconds of a fresh interpreter that runs one statement, over one that does nothing."""
    env = os.environ | (env or {})
    process_cost(["-c", statement], cwd=work, env=env)  # writes the bytecode caches
    bare, full = [], []
    for _ in range(_PROCESSES):
        bare.append(process_cost(["-c", "pass"], cwd=work, env=env).cpu_s)
        full.append(process_cost(["-c", statement], cwd=work, env=env).cpu_s)
    return {"over_bare_ms": (min(full) - min(bare)) * 1e3, "bare_ms": min(bare) * 1e3}


def process(arguments: list[str], work: Path, *, env: dict[str, str], expect: str, times: int = _PROCESSES) -> Numbers:
    """CPU and wall seconds of one whole process, its start included."""
    env = os.environ | env
    process_cost(arguments, cwd=work, env=env, expect=expect)  # writes the bytecode caches
    costs = [process_cost(arguments, cwd=work, env=env, expect=expect) for _ in range(times)]
    return {
        "total_s": min(cost.cpu_s for cost in costs),
        "total_wall_s": min(cost.wall_s for cost in costs),
    }


def help_statement(entry_point: str, program: str) -> str:
    """What a console script does for `PROGRAM --help`, as a statement."""
    module, function = entry_point.split(":")
    return f"import sys; from {module} import {function} as f; sys.argv = [{program!r}, '--help']; sys.exit(f())"


def first_call_statement(imports: str, *, session: str, wrap: str) -> str:
    """Import a system, open a session, record one call, close: what is put off at import is paid here."""
    return f"{imports}\n@{wrap}\ndef lookup(query): return {{'found': query}}\nwith {session}: lookup(query=7)"
