"""What work costs as it grows: replayed calls, runs in a store, recordings at the same time, threads, and a state.

Whatever is written for a measurement is written by a process of its own: its memory is no part of the figure.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter  # by name: a replay has virtual ones in `time`
from types import ModuleType
from typing import Any

import workloads
from clock import Stopwatch, process_cost
from measurements import Numbers

_STARTED_AT = 1_700_000_000.0
_CALL_S = 0.001
_CALLS_OF_RUN = 3
_RECORDED_CALLS = 20  # of each of the recordings at the same time
_THREADED_CALLS = 3200  # of all threads together
_APPENDS = 40
_LOADS = 5
_RUNS_BESIDE = 10
Arguments = dict[str, Any]


def _plain(index: int, is_recorded: bool) -> Arguments:
    return {"index": index}


def _ignored(index: int, is_recorded: bool) -> Arguments:
    """The same for all calls, but for an id that every execution draws anew."""
    return {"query": "order 7", "request_id": f"{'recorded' if is_recorded else 'replayed'}-{index}"}


def _redacted(index: int, is_recorded: bool) -> Arguments:
    return {"index": index, "to": f"kora.velan{index}@tulen-sera.de"}


def _now(index: int, is_recorded: bool) -> Arguments:
    return {"index": index, "at": _STARTED_AT + index * _CALL_S if is_recorded else time.time()}


def _polling(index: int, is_recorded: bool) -> Arguments:
    return {"job": 7}


_KINDS: dict[str, Callable[[int, bool], Arguments]] = {
    "plain": _plain,
    "ignored": _ignored,
    "redacted": _redacted,
    "now": _now,
    "polling": _polling,
}


def _answer(index: int) -> dict[str, Any]:
    return {"order": index, "status": "shipped"}


def write_calls(work: str, kind: str, count: int) -> None:
    """Write a run of calls into the store of a project."""
    import replaykit as rk
    from replaykit.model.run import RunHeader, RunStatus

    header = RunHeader(id="bench", name="bench", started_at=_STARTED_AT, status=RunStatus.SUCCESS)
    calls = _calls(lambda index: _KINDS[kind](index, True), count, _STARTED_AT)
    with rk.Store.open(_store(Path(work)), redact=kind == "redacted") as store:
        store.add(rk.TraceRun.of(header, tuple(calls)))
    print("written")


def _calls(arguments: Callable[[int], Arguments], count: int, started_at: float) -> Iterator[Any]:
    from replaykit.model.events import CallSpan, ToolCall
    from replaykit.model.values import Raw, canonical, raw

    for index in range(count):
        begin_s = index * _CALL_S
        yield ToolCall(
            seq=index,
            at=started_at + begin_s,
            duration_s=_CALL_S / 2,
            name="lookup",
            arguments_json=Raw(canonical(arguments(index))),
            result_json=raw(_answer(index)),
            span=CallSpan(begin=2 * index, begin_s=begin_s, end=2 * index + 1, end_s=begin_s + _CALL_S / 2),
        )


def replayed_calls(rk: ModuleType, source: str, work: Path, kind: str, count: int) -> Numbers:
    """Replay a run of `count` calls: CPU of a call by itself, of one with loading and judging, and memory at most."""
    _written(source, work, f"write_calls({str(work)!r}, {kind!r}, {count})")
    os.chdir(work)  # the project, whose key redacts what is compared

    @rk.tool
    def lookup(**arguments: Any) -> Any:
        raise AssertionError("a replayed call ran live")

    arguments = _KINDS[kind]
    rules = rk.MatchRules(ignore=("$.request_id",)) if kind == "ignored" else None
    with Stopwatch() as whole:
        with rk.Store.open(_store(work), read_only=True) as store:
            tape = rk.Tape.of(store.load("bench"))
        with rk.replaying(tape, rules) as replayer, Stopwatch() as loop:
            for index in range(count):
                if lookup(**arguments(index, False)) != _answer(index):
                    raise AssertionError(f"call {index} gave another result than was recorded")
        deviations, events = replayer.all_deviations(), replayer.events()
    expected = {"now"} if kind == "now" else set()
    if {deviation.kind for deviation in deviations} != expected or len(events) != count:
        raise AssertionError(f"the replay left its tape: {deviations[:1]}")
    return {
        "call_us": loop.cpu_s / count * 1e6,
        "session_us": whole.cpu_s / count * 1e6,
        "peak_bytes": _peak_bytes(),
    }


def write_runs(work: str, count: int) -> None:
    """Write small runs into the store of a project, the oldest first; one in five failed."""
    import replaykit as rk
    from replaykit.model.run import RunHeader, RunStatus

    with rk.Store.open(_store(Path(work)), redact=False) as store, store.exclusive():
        for number in range(count):
            at = _STARTED_AT + number
            status = RunStatus.ERROR if number % 5 == 0 else RunStatus.SUCCESS
            name = ("billing", "search")[number % 2]
            header = RunHeader(id=_run_id(number), name=name, started_at=at, ended_at=at + 1, status=status)
            calls = _calls(lambda index, number=number: {"run": number, "index": index}, _CALLS_OF_RUN, at)
            store.add(rk.TraceRun.of(header, tuple(calls)))
    print("written")


def stored_runs(rk: ModuleType, source: str, work: Path, count: int) -> Numbers:
    """Verbs on a store of `count` runs, each in a process of its own, its start included; all runs are deleted last."""
    _written(source, work, f"write_runs({str(work)!r}, {count})")
    with rk.Store.open(_store(work), read_only=True) as store:
        for number in {0, count // 2, count - 1}:
            run = store.load(_run_id(number))
            if [call.arguments["run"] for call in run.calls] != [number] * _CALLS_OF_RUN:
                raise AssertionError(f"run {number} is not the one that was written")
    verbs = {
        "runs": (["runs"], _run_id(count - 1)),
        "show": (["show", _run_id(count // 2)], "lookup"),
        "stats": (["store", "stats"], f"{count}: {count // 5} error"),
        "plan": (["store", "prune", "--dry-run", "--json"], _run_id(count - 1)),
        "verify": (["store", "verify"], f"{count} runs, none damaged"),
        "prune": (["store", "prune", "--json"], _run_id(0)),
    }
    numbers: Numbers = {}
    for name, (arguments, expect) in verbs.items():
        cost = process_cost(["-m", "replaykit", *arguments], cwd=work, env=_environment(source), expect=expect)
        numbers |= {f"{name}_s": cost.cpu_s, f"{name}_peak_bytes": cost.peak_bytes}
    process_cost(["-m", "replaykit", "runs"], cwd=work, env=_environment(source), expect="no runs")
    return numbers


def recordings(rk: ModuleType, work: Path, count: int) -> Numbers:
    """Record `count` runs side by side in one event loop: memory that each takes, and CPU of a call."""
    results = workloads.results(64)

    @rk.tool
    async def lookup(run: int, index: int) -> Any:
        return results[(run + index) % len(results)]

    async def agent(run: int, store: Any) -> None:
        with rk.record(f"run-{run}", store=store):
            for index in range(_RECORDED_CALLS):
                await lookup(run, index)
                await asyncio.sleep(0)  # the turn of the others

    async def agents(runs: range, store: Any) -> None:
        await asyncio.gather(*(agent(run, store) for run in runs))

    with rk.Store.open(_store(work), redact=False) as store:
        asyncio.run(agents(range(_RUNS_BESIDE), store))
        gc.collect()
        before = _peak_bytes()
        with Stopwatch() as watch:
            asyncio.run(agents(range(_RUNS_BESIDE, _RUNS_BESIDE + count), store))
        peak = _peak_bytes() - before
        for run in range(_RUNS_BESIDE, _RUNS_BESIDE + count):
            found = [call.result for call in store.load(f"run-{run}").calls]
            if found != [results[(run + index) % len(results)] for index in range(_RECORDED_CALLS)]:
                raise AssertionError(f"run {run} is not the one that was recorded")
    return {"each_bytes": peak / count, "call_us": watch.cpu_s / count / _RECORDED_CALLS * 1e6}


def threaded_calls(rk: ModuleType, work: Path, count: int) -> Numbers:
    """Record calls in `count` threads of one run: CPU of a call, and the wall time that one in a hundred exceeds."""
    results = workloads.results(64)
    took_s: list[float] = []

    @rk.tool
    def lookup(thread: int, index: int) -> Any:
        return results[index % len(results)]

    def agent(thread: int) -> None:
        own_s = []
        for index in range(_THREADED_CALLS // count):
            began_s = perf_counter()
            lookup(thread, index)
            own_s.append(perf_counter() - began_s)
        took_s.extend(own_s)

    with rk.Store.open(_store(work), redact=False) as store, rk.record("threads", store=store):
        lookup(-1, 0)  # what is imported on first use
        threads = [threading.Thread(target=agent, args=(thread,)) for thread in range(count)]
        with Stopwatch() as watch:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    with rk.Store.open(_store(work), read_only=True) as store:
        calls = store.load("threads").calls
    right = [call for call in calls if call.result == results[call.arguments["index"] % len(results)]]
    if len(right) != 1 + _THREADED_CALLS:
        raise AssertionError(f"{len(right)} calls of {_THREADED_CALLS} came back")
    p99_s = sorted(took_s)[int(len(took_s) * 0.99)]
    return {"call_us": watch.cpu_s / _THREADED_CALLS * 1e6, "p99_us": p99_s * 1e6}


def growing_state(rk: ModuleType, work: Path, size: int, *, is_bare: bool = False) -> Numbers:
    """Append messages of 1 KB to a state of `size` bytes, step by step: CPU of a checkpoint, and of loading one.

    The state is an object with a list of messages, or the list alone.
    """
    count = size // workloads.MESSAGE_BYTES
    messages = workloads.messages(count + _APPENDS)
    log = messages[:count]

    def state_of(log: list[dict[str, Any]]) -> Any:
        return log if is_bare else {"messages": log}

    writing, loading = Stopwatch(), Stopwatch()
    with rk.Store.open(_store(work), redact=False) as store:
        with rk.record("state", store=store) as run:
            run.checkpoint(state_of(log))
            for message in messages[count:]:
                log.append(message)
                with writing:
                    run.checkpoint(state_of(log))
        seqs = [event.seq for event in store.load("state").events]
    size_bytes = _store(work).stat().st_size
    with rk.Store.open(_store(work), read_only=True) as store:
        for step in range(1, _LOADS + 1):
            with loading:
                found = store.state_at("state", seqs[step * _APPENDS // _LOADS])
            if found != state_of(messages[: count + step * _APPENDS // _LOADS]):
                raise AssertionError(f"the state after step {step} is not the one that was written")
    return {
        "write_us": writing.cpu_s / _APPENDS * 1e6,
        "load_us": loading.cpu_s / _LOADS * 1e6,
        "bytes": size_bytes,
    }


def _store(work: Path) -> Path:
    return work / ".replaykit" / "store.db"


def _run_id(number: int) -> str:
    return f"run-{number:06}"


def _written(source: str, work: Path, statement: str) -> None:
    process_cost(["-c", f"import growing; growing.{statement}"], cwd=work, env=_environment(source), expect="written")


def _environment(source: str) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join((source, str(Path(__file__).parent)))}


def _peak_bytes() -> int:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
