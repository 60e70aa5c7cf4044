"""The README's code and commands, run as they stand."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


PROGRAM = "python my_agent.py"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def run(command: str, *, cwd: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "PYTHONPATH": ""}
    return subprocess.run(["bash", "-c", command], cwd=cwd, env=env, capture_output=True, text=True, timeout=120)


def test_the_first_example_records_a_failure_and_replays_it(own_directory: Path) -> None:
    code = blocks("python")[0]
    (own_directory / "my_agent.py").write_text(code)
    commands = [line.strip() for line in README.splitlines() if line.startswith("    replaykit ") and "billing" in line]
    (shown,) = [text for text in blocks("text") if "ReplayKit Result" in text]

    recorded = run(PROGRAM, cwd=own_directory)
    scaffolded = run(commands[0], cwd=own_directory)
    replayed = run(commands[1], cwd=own_directory)

    assert "Max tool call limit exceeded" in recorded.stderr
    assert scaffolded.returncode == 0, scaffolded.stderr
    assert replayed.stdout.strip() == shown.strip()
    assert replayed.returncode == 1


def test_the_commands_on_a_trace_do_what_their_comments_say(own_directory: Path) -> None:
    shutil.copytree(ROOT / "examples", own_directory / "examples")
    (script,) = blocks("bash")
    commands = re.findall(r"^(# .*)\n((?:.*\\\n)*.+)$", script, re.MULTILINE)
    expected = {"Scaffold": 0, "Lint": 0, "bad": 1, "fixed": 0, "prove": 0}

    for comment, command in commands:
        (code,) = [value for word, value in expected.items() if word in comment]
        done = run(command, cwd=own_directory)
        assert done.returncode == code, f"{command}\n{done.stdout}\n{done.stderr}"
    assert len(commands) == len(expected)


def test_an_incident_a_contract_and_an_outage_are_tried_as_shown(own_directory: Path) -> None:
    shutil.copytree(ROOT / "examples", own_directory / "examples")
    shown = re.findall(r"^    (replaykit .*-c replaykit\.yaml[^#\n]*)", (ROOT / "README.md").read_text(), re.MULTILINE)

    assert [command.split()[1] for command in shown] == ["replay", "contract", "chaos", "ci"]
    for command in shown:
        done = run(command, cwd=own_directory / "examples/sessions")
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    first = run(f"{shown[0]} --agent finance_agent:first_version", cwd=own_directory / "examples/sessions")
    assert first.returncode == 1
    assert "no-invented-figure (critical): expected anything but output that matches" in first.stdout


@pytest.mark.parametrize("target", ["demo", "test", "bench", "lint", "clean", "crash"])
def test_the_makefile_has_the_target(target: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")

    assert re.search(rf"^{target}:", makefile, re.MULTILINE)
