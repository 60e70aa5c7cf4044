"""What the command line's tests share: a project with a case, candidates and a store, and two ways to run a command."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Ran, caller
from tests.forked_commands import run_forked

import replaykit as rk

CASE = {
    "replaykit": 1,
    "id": "billing",
    "scenario": {"input": "Why was I charged $49.99?"},
    "observed": [{"status_is": "error"}],
    "desired": [{"status_is": "success"}, {"final_output_exists": True}],
    "semantic": ["The answer is polite"],
}


@pytest.fixture
def replaykit(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run a command line in this process."""
    return caller(capsys, Ran)


@pytest.fixture
def spawned() -> Callable[..., Ran]:
    """Run a command line in a process of its own."""

    def call(*arguments: object, **env: str) -> Ran:
        return Ran(*run_forked(list(map(str, arguments)), {**os.environ, **env}))

    return call


@pytest.fixture
def make_case(own_directory: Path) -> Callable[..., Path]:
    def make(name: str = "billing", **changed: Any) -> Path:
        directory = own_directory / "cases" / name
        directory.mkdir(parents=True)
        (directory / "case.yaml").write_text(json.dumps({**CASE, "id": name, **changed}), encoding="utf-8")
        return Path("cases") / name

    return make


@pytest.fixture
def case(make_case: Callable[..., Path]) -> Path:
    """A case that is reproduced by an error, and fixed by an answer."""
    return make_case()


@pytest.fixture
def runner(own_directory: Path) -> Callable[..., str]:
    """The command of a runner that writes this output, or runs this code. Without code no Python has to start."""

    def write(name: str, output: Any = None, code: str = "") -> str:
        if not code:
            (own_directory / f"{name}.json").write_text(json.dumps(output), encoding="utf-8")
            (own_directory / f"{name}.sh").write_text(f'cat {name}.json > "$REPLAYKIT_OUTPUT_PATH"\n')
            return f"sh {name}.sh"
        told = f"open(os.environ['REPLAYKIT_OUTPUT_PATH'], 'w').write({json.dumps(output)!r})" if output else ""
        (own_directory / f"{name}.py").write_text(f"import os, sys, time\n{code}\n{told}\n", encoding="utf-8")
        return shlex.join([sys.executable, f"{name}.py"])

    return write


@pytest.fixture
def bad(runner: Callable[..., str]) -> str:
    return runner("bad", {"status": "error", "errors": ["out of luck"]})


@pytest.fixture
def good(runner: Callable[..., str]) -> str:
    return runner("good", {"status": "success", "final_output": "You paid for a year."})


@rk.tool
def lookup(user: str) -> str:
    return f"charges of {user}"


@pytest.fixture
def recorded(own_directory: Path) -> Path:
    """The project's store, with a run that marks steps and a later one that failed."""
    path = own_directory / ".replaykit" / "store.db"
    with rk.Store.open(path) as store:
        with rk.record("checkout", input="buy it", store=store, tags=["shop"]) as run:
            run.message("user", "buy it")
            with run.step("plan") as step:
                step.decide("look first")
            with run.step("act"):
                lookup("u1")
            run.output = "bought"
        with pytest.raises(RuntimeError), rk.record("billing", input="why?", store=store):
            lookup("u2")
            raise RuntimeError("out of luck")
    return path
