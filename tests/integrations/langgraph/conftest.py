"""For the tests of the LangGraph saver: a saver on a store of its own, and programs that run in other processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from replaykit.integrations.langgraph import ReplayKitSaver

HERE = Path(__file__).parent
DEPRECATED_IN_LANGSMITH = "ignore::DeprecationWarning:langsmith._internal._beta_decorator"  # on Python 3.14
sys.path.insert(0, str(HERE))  # `graphs_for_savers` is imported here, and in the programs that the tests start


@pytest.fixture
def saver(own_directory: Path) -> Iterator[ReplayKitSaver]:
    with ReplayKitSaver("threads.db") as opened:
        yield opened


@pytest.fixture
def elsewhere(own_directory: Path) -> Callable[..., Any]:
    """Run a program in another process; gives what it printed last, as JSON."""

    def run(program: str, *arguments: str, **variables: str) -> Any:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]), **variables}
        command = [sys.executable, "-W", "error", "-W", DEPRECATED_IN_LANGSMITH, "-c", program, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run
