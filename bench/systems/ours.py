"""ReplayKit, this checkout: through its public names only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import measurements
from measurements import CallRecorder, Checkpoints, Numbers

NAME = "ReplayKit"
DISTRIBUTION = ""  # measured from the checkout, whether it is installed or not

_SOURCE = str(Path(__file__).parents[2] / "src")
_ENVIRONMENT = {"PYTHONPATH": _SOURCE}


def _replaykit() -> ModuleType:
    sys.path.insert(0, _SOURCE)
    import replaykit

    return replaykit


def _recorder() -> CallRecorder:
    rk = _replaykit()

    @contextmanager
    def record(home: Path) -> Iterator[None]:
        with rk.Store.open(home / "store.db") as store, rk.record("bench", store=store):
            yield

    @contextmanager
    def replay(home: Path) -> Iterator[None]:
        with rk.Store.open(home / "store.db", read_only=True) as store:
            tape = rk.Tape.of(store.load("bench"))
        with rk.replaying(tape):
            yield

    return CallRecorder(wrap=rk.tool, record=record, replay=replay)


def calls(work: Path, count: int) -> Numbers:
    return measurements.calls(_recorder(), work, count)


def growing_calls(work: Path, count: int) -> Numbers:
    return measurements.growing_calls(_recorder(), work, count)


def checkpoints(work: Path, steps: int, durability: str = "process", text: str = "prose") -> Numbers:
    """The whole state handed over after each step."""
    rk = _replaykit()
    stack = ExitStack()
    store = stack.enter_context(rk.Store.open(work / "store.db", durability=durability))
    run = stack.enter_context(rk.record("bench", store=store))

    def write(state: dict[str, Any]) -> int:
        run.checkpoint(state)
        return int(state["step"])

    def reopen() -> Callable[[int], dict[str, Any]]:
        again = rk.Store.open(work / "store.db", read_only=True)
        seqs = [event.seq for event in again.load(run.id).events]
        return lambda step: again.state_at(run.id, seqs[step])

    return measurements.checkpoints(Checkpoints(write, stack.close, reopen), work, steps, text)


def first_call(work: Path) -> Numbers:
    statement = measurements.first_call_statement(
        "import replaykit as rk", session="rk.record('bench', store='first.db')", wrap="rk.tool"
    )
    return measurements.start_up(statement, work, env=_ENVIRONMENT)


def import_time(work: Path) -> Numbers:
    return measurements.start_up("import replaykit", work, env=_ENVIRONMENT)


def help_time(work: Path) -> Numbers:
    statement = measurements.help_statement("replaykit.cli:main", "replaykit")
    return measurements.start_up(statement, work, env=_ENVIRONMENT)
