"""Runs in a process of its own: records agents of one module, and replays them in process where that is asked for.

python -m tests.fidelity.worker declared MODULE
python -m tests.fidelity.worker record MODULE AGENT
python -m tests.fidelity.worker replay MODULE AGENT[,AGENT...] TIMES [SAFEGUARD]

The working directory is the agent's own. Results are printed as one line of JSON.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.fidelity.safeguards import SAFEGUARDS

import replaykit as rk

Agent = Callable[[str], Any]


def recorded(name: str, agent: Agent, text: str) -> rk.TraceRun:
    """Run the agent once for real, and give back what was recorded."""
    before = set(threading.enumerate())
    try:
        with rk.record(name, input=text) as run:
            run.output = finished(agent, text)
    except Exception:
        pass  # it is there to fail
    _let_go(before)
    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        return store.load(run.id)


def finished(agent: Agent, text: str) -> Any:
    """Call the agent, whether it is a coroutine or not."""
    answer = agent(text)
    return asyncio.run(answer) if inspect.iscoroutine(answer) else answer


def _let_go(before: set[threading.Thread], limit_s: float = 5.0) -> None:
    """Wait until threads that the recording left behind have ended: their marks belong to it."""
    deadline = time.monotonic() + limit_s
    idle = ("ThreadPoolExecutor", "asyncio_")
    while time.monotonic() < deadline:
        left = [thread for thread in threading.enumerate() if thread not in before]
        if all(thread.name.startswith(idle) for thread in left):
            return
        time.sleep(0.02)


@contextmanager
def marks(file: str) -> Iterator[None]:
    """Marks go to this file, beside the one that the environment names."""
    os.environ["FIDELITY_MARKS"] = str(Path(os.environ["FIDELITY_MARKS"]).with_name(file))
    yield


def replayed(run: rk.TraceRun, agent: Agent) -> dict[str, Any]:
    """Call the agent inside of `rk.replaying`, and say how it ended."""
    ended: dict[str, Any] = {"status": "success", "error": None}
    with rk.replaying(rk.Tape.of(run)) as replayer:
        try:
            finished(agent, run.input)
        except BaseException as error:
            ended = {"status": "error", "error": [type(error).__qualname__, str(error)]}
    return ended | {"deviations": [deviation.kind for deviation in replayer.all_deviations()]}


def judged(case: str, agent: Agent) -> dict[str, Any]:
    """Replay the case in this process, and give its verdict."""
    result = rk.replay(case, agent)
    return {
        "verdict": result.verdict.value,
        "duration_s": result.duration_s,
        "reason": result.reason,
        "deviations": [deviation.text for deviation in result.deviations],
        "error": _error_of(result.run),
    }


def requests_so_far() -> int:
    """How often the server that stands for the network was asked."""
    log = Path("server.marks")
    return len(log.read_bytes()) if log.exists() else 0


def main() -> None:
    """Do what the command line says."""
    what, module_name, *more = sys.argv[1:]
    module = importlib.import_module(module_name)
    if what == "declared":
        agents = {name: agent for name, agent in vars(module).items() if hasattr(agent, "declared")}
        print(json.dumps({name: asdict(agent.declared) for name, agent in agents.items()}))
        return
    if what == "record":
        (name,) = more
        recorded(name, getattr(module, name), getattr(module, name).declared.input)
        return
    names, times, *safeguards = more
    for safeguard in safeguards:
        SAFEGUARDS[safeguard].patch()
    print(json.dumps({name: tried(name, getattr(module, name), int(times)) for name in names.split(",")}), flush=True)
    os._exit(0)  # threads that were left behind must not keep the process


def tried(name: str, agent: Agent, times: int) -> dict[str, Any]:
    """Record and replay one agent."""
    with marks(f"{name}.recorded.marks"):
        run = recorded(name, agent, agent.declared.input)
    case = f"{name}.case"
    rk.scaffold(run, case)
    replays = [one_of_each(run, case, agent, number) for number in range(times)]
    return {"declared": asdict(agent.declared), "recorded": {"error": _error_of(run)}, "replays": replays}


def one_of_each(run: rk.TraceRun, case: str, agent: Agent, number: int) -> dict[str, Any]:
    """Replay the agent by `rk.replaying` and by `rk.replay`."""
    before = requests_so_far()
    with marks(f"{run.name}.replaying.{number}.marks"):
        ended = replayed(run, agent) | {"requests": requests_so_far() - before}
    before = requests_so_far()
    with marks(f"{run.name}.replay.{number}.marks"):
        verdict = judged(case, agent) | {"requests": requests_so_far() - before}
    return {"ended": ended, "judged": verdict}


def _error_of(run: rk.TraceRun | None) -> list[str] | None:
    error = run.error if run is not None else None
    return [error.type, error.message] if error else None


if __name__ == "__main__":
    main()
