"""The example of an agent behind HTTP, run as its README says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.commands import run_here

EXAMPLE = Path(__file__).parents[2] / "examples" / "http_agent"
BLOCKS = re.findall(r"```bash\n(.*?)\n```", (EXAMPLE / "README.md").read_text(encoding="utf-8"), re.DOTALL)
Start = Callable[[str], subprocess.Popen[str]]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start the agent as a command of the README does, on a port that is free."""
    shutil.copytree(EXAMPLE, ".", dirs_exist_ok=True)
    for name in ("REPLAYKIT_TAPE", "REPLAYKIT_TAPE_TOKEN", "VERSION"):
        monkeypatch.delenv(name, raising=False)
    running: list[subprocess.Popen[str]] = []

    def agent(command: str) -> subprocess.Popen[str]:
        *variables, python, file = command.split()
        assert python == "python"
        environment = {**os.environ, **dict(word.split("=", 1) for word in variables), "PORT": "0"}
        process = subprocess.Popen([sys.executable, file], env=environment, stdout=subprocess.PIPE, text=True)
        running.append(process)
        assert process.stdout is not None
        monkeypatch.setenv("AGENT_URL", process.stdout.readline().strip())
        return process

    yield agent
    for process in running:
        process.kill()
        process.communicate(timeout=20)


def replayed(command: str = "replaykit replay") -> tuple[int, Any]:
    verb = command.removeprefix("replaykit ").split()
    done = run_here(*verb, "--json")
    (result,) = json.loads(done.stdout)["results"]
    return done.returncode, result


def test_the_readme_has_these_commands() -> None:
    assert BLOCKS == [
        "REPLAYKIT_TAPE=1 python agent.py",
        "replaykit replay",
        "REPLAYKIT_TAPE=1 VERSION=first python agent.py",
    ]


def test_the_agent_keeps_its_contract_and_calls_no_tool(start: Start) -> None:
    agent = start(BLOCKS[0])

    code, result = replayed(BLOCKS[1])

    assert (code, result["verdict"]) == (0, "fixed"), result
    assert [event["name"] for event in result["run"]["events"]] == ["market_data_api", "web_search"]
    assert agent.poll() is None


def test_the_agent_of_that_day_breaks_it(start: Start) -> None:
    start(BLOCKS[2])

    code, result = replayed()

    assert code == 1
    broken = [finding["id"] for finding in result["desired"] if not finding["holds"]]
    assert broken == ["no-invented-figure", "says-when-it-cannot-tell"]


def test_an_agent_that_takes_no_tape_is_not_asked(start: Start) -> None:
    agent = start(BLOCKS[0].removeprefix("REPLAYKIT_TAPE=1 "))

    code, result = replayed()

    assert code == 3
    assert "takes no tape" in result["reason"]
    assert "app = replaykit.middleware.wsgi(app)" in result["reason"]
    assert agent.poll() is None


def test_its_tools_would_end_it(start: Start) -> None:
    agent = start(BLOCKS[0])

    with pytest.raises(OSError):
        urllib.request.urlopen(f"{os.environ['AGENT_URL']}/ask", b'{"input": "x"}', timeout=20)

    assert agent.wait(20) == 9
