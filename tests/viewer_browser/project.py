"""A project to look at: recorded, forked, imported and replayed runs, and `replaykit view` of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.viewer_browser.made_runs import made_runs

from replaykit.store.sqlite import SQLiteStore

ROOT = Path(__file__).resolve().parents[2]
BILLING = "run-billing-2024-0312"
FINANCE = "run-finance-2026-0215"
COMMANDS = (
    "import examples/traces",
    "fork weather --step 3 --set max_retries=3 --agent examples.agents.weather:agent",
    "scaffold examples/traces/search-loop.json --out cases/search-loop",
    "replay cases/search-loop --runner-cmd {python}",
    "replay cases/search-loop --agent examples.agents.weather:agent",
)


@dataclass(frozen=True)
class ViewedProject:
    """A project, and the address of its viewer."""

    directory: Path
    url: str

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return replaykit(self.directory, *arguments, **variables)

    def evidence(self, verdict: str) -> str:
        """Return the name of the replay that ended with a verdict."""
        for result in sorted((self.directory / ".replaykit" / "runs").glob("*/result.json")):
            if json.loads(result.read_bytes())["verdict"] == verdict:
                return result.parent.name
        raise LookupError(verdict)

    def run_named(self, name: str) -> str:
        """Return the id of the newest run with a name."""
        with SQLiteStore.open(self.directory / ".replaykit" / "store.db", read_only=True) as store:
            return store.header(name).id


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1"}


def replaykit(directory: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "replaykit", *arguments]
    variables = {**environment(), **variables}
    return subprocess.run(
        command, cwd=directory, env=variables, capture_output=True, text=True, timeout=120, check=False
    )


@contextmanager
def viewed_project(directory: Path) -> Iterator[ViewedProject]:
    """Make the runs, and serve them during the block."""
    shutil.copytree(ROOT / "examples", directory / "examples")
    agent = [sys.executable, "examples/run_agent.py", "--query", "What is the weather in Berlin?"]
    subprocess.run(agent, cwd=directory, env=environment(), check=True, capture_output=True, timeout=120)
    for command in COMMANDS:
        words = [
            word.format(python=f"{sys.executable} examples/runners/reproduce_failure.py") for word in command.split()
        ]
        done = replaykit(directory, *words)
        assert done.returncode in (0, 1), done.stderr
    with SQLiteStore.open(directory / ".replaykit" / "store.db") as store:
        for run in made_runs():
            store.add(run)
    with viewer(directory, "--agent", "examples.agents.weather:agent") as url:
        yield ViewedProject(directory, url)


@contextmanager
def viewer(directory: Path, *options: str) -> Iterator[str]:
    """Serve a project during the block; give the address of its page."""
    command = [sys.executable, "-m", "replaykit", "view", *options, "--json", "--no-browser"]
    with subprocess.Popen(command, cwd=directory, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["url"].partition("#")[0]
        finally:
            process.terminate()
