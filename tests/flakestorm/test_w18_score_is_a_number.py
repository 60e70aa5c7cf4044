"""`contract score` prints the number and nothing else, and its errors are errors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from replaykit.cli import run

CONFIG = """\
version: "2.0"
agent: {endpoint: "w18agent:answer", type: python}
golden_prompts: [hello]
contract:
  name: c
  invariants:
    - {id: greets, type: contains, value: hello, severity: high}
    - {id: leaves, type: contains, value: goodbye}
"""


@pytest.fixture(autouse=True)
def project(own_directory: Path) -> None:
    Path("w18agent.py").write_text("def answer(text):\n    print('noise of the agent')\n    return text\n")
    Path("flakestorm.yaml").write_text(CONFIG)


def test_the_score_is_alone_on_stdout() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "replaykit", "contract", "score", "-c", "flakestorm.yaml"],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.stdout == "66.67\n"
    assert done.returncode == 1


def test_a_score_that_is_enough_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["contract", "score", "--min-score", "60"]) == 0
    assert capsys.readouterr().out == "66.67\n"


def test_an_agent_that_cannot_be_run_is_an_error_and_its_reason_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    Path("flakestorm.yaml").write_text(CONFIG.replace("w18agent", "w18nowhere"))

    assert run(["contract", "score"]) == 3
    err = capsys.readouterr().err
    assert "w18nowhere" in err
    assert "internal error" not in err


def test_a_missing_configuration_is_an_error_of_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["contract", "score", "-c", "nope.yaml"]) == 2
    captured = capsys.readouterr()
    assert "nope.yaml: no such file" in captured.err
    assert captured.out == ""
