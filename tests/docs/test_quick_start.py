"""The quick start of the first README, word for word, and the example traces: each fails, and each is fixed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.matrix import sampled

EXAMPLES = Path(__file__).parents[2] / "examples"
TRACES = sorted(file.stem for file in (EXAMPLES / "traces").glob("*.json"))

SCAFFOLD = "replaykit scaffold examples/traces/search-loop.json --out cases/search-loop"
LINT = "replaykit lint cases/search-loop/case.yaml"
REPLAY_BAD = r"""replaykit replay cases/search-loop/case.yaml \
  --runner-cmd "python examples/runners/reproduce_failure.py"
"""
REPLAY_FIXED = r"""replaykit replay cases/search-loop/case.yaml \
  --runner-cmd "python examples/runners/fixed_runner.py"
"""

Shell = Callable[[str], "subprocess.CompletedProcess[str]"]


@pytest.fixture
def shell(own_directory: Path) -> Shell:
    """Type a command into a shell, in a directory that holds the examples."""
    shutil.copytree(EXAMPLES, own_directory / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}

    def type_in(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["sh", "-c", command], env=env, capture_output=True, text=True, timeout=60)

    return type_in


def panel_text(output: str) -> str:
    """The words inside the box, in one line."""
    return " ".join(" ".join(line.strip("│ ") for line in output.splitlines() if line.startswith("│")).split())


def test_the_quick_start_says_what_it_promises(shell: Shell) -> None:
    made = shell(SCAFFOLD)

    assert made.returncode == 0, made.stderr
    assert sorted(file.name for file in Path("cases/search-loop").iterdir()) == [
        "case.yaml",
        "fixtures",
        "notes.md",
        "proof.json",
        "source-trace.json",
    ]
    assert list(Path("cases/search-loop/fixtures").iterdir()) != []

    sound = shell(LINT)

    assert (sound.returncode, sound.stdout) == (0, "1 case: ok\n")

    bad = shell(REPLAY_BAD)

    assert bad.returncode == 1
    assert panel_text(bad.stdout) == (
        "Run ended with error; Tool 'lookup_billing' called 5 times; No final output Result: FAILURE REPRODUCED"
    )
    assert bad.stdout.splitlines()[0].strip("┌─┐") == " ReplayKit Result "
    assert "  Observed failure reproduced: Yes\n" in bad.stdout
    assert "  Desired assertions: 0/3 passed\n" in bad.stdout
    assert "  Semantic checks needing review: 1\n" in bad.stdout

    fixed = shell(REPLAY_FIXED)

    assert fixed.returncode == 0
    assert "  Observed failure reproduced: No\n" in fixed.stdout
    assert "  Desired assertions: 3/3 passed\n" in fixed.stdout
    assert "  Semantic checks needing review: 1\n" in fixed.stdout

    evidence = sorted(Path(".replaykit/runs").iterdir())
    assert len(evidence) == 2
    for directory in evidence:
        assert directory.name.split("-", 2)[2].startswith("search-loop")
        assert sorted(file.name for file in directory.iterdir()) == [
            "result.json",
            "runner-output.json",
            "stderr.log",
            "stdout.log",
            "summary.md",
        ]


def test_the_trace_is_the_one_of_the_readme() -> None:
    trace = json.loads((EXAMPLES / "traces" / "search-loop.json").read_text(encoding="utf-8"))

    assert (trace["run_id"], trace["status"]) == ("run-billing-2024-0312", "error")
    assert trace["events"][0]["content"] == "Why was I charged $49.99?"
    assert [event["type"] for event in trace["events"]].count("tool_call") == 5
    assert trace["events"][-1]["error"] == "Max tool call limit exceeded. Agent terminated."


def test_the_original_trace_is_kept_as_it_was(shell: Shell) -> None:
    shell(SCAFFOLD)

    kept = Path("cases/search-loop/source-trace.json").read_bytes()
    assert kept == Path("examples/traces/search-loop.json").read_bytes()


def test_the_observed_and_desired_assertions_are_those_of_the_readme(shell: Shell) -> None:
    made = json.loads(shell(f"{SCAFFOLD} --json").stdout)

    assert made["observed"] == [
        {"status_is": "error"},
        {"max_tool_calls": {"tool": "lookup_billing", "count": 5}},
        {"final_output_exists": False},
    ]
    assert made["desired"] == [{"status_is": "success"}, {"max_tool_calls": 3}, {"final_output_exists": True}]


def test_there_are_five_example_traces() -> None:
    assert TRACES == [
        "fabricated-after-504",
        "ignored-tool-error",
        "prompt-injection",
        "search-loop",
        "wrong-tool-argument",
    ]


@sampled("name", TRACES, count=1, start=1)
@pytest.mark.exhaustive
def test_every_example_is_red_with_the_bad_runner_and_green_with_the_fixed_one(shell: Shell, name: str) -> None:
    made = shell(f"replaykit scaffold examples/traces/{name}.json --out cases/{name}")
    linted = shell(f"replaykit lint --strict cases/{name}")
    red = shell(f'replaykit replay cases/{name} --runner-cmd "python examples/runners/reproduce_failure.py"')
    green = shell(f'replaykit replay cases/{name} --runner-cmd "python examples/runners/fixed_runner.py"')

    ready = "Ready: reproduced by the recorded run\n"
    assert (made.returncode, made.stderr) == (0, ready), "nothing in the trace is unknown"
    assert linted.returncode == 0, linted.stdout
    assert (red.returncode, green.returncode) == (1, 0), red.stdout + green.stdout
    assert "Result: FAILURE REPRODUCED" in red.stdout
    assert "Observed failure reproduced: Yes" in red.stdout
    assert "Result: FIXED" in green.stdout
    assert "Observed failure reproduced: No" in green.stdout


@pytest.mark.exhaustive
def test_the_example_agents_are_red_and_green_too(shell: Shell) -> None:
    shell(SCAFFOLD)

    proof = shell(
        "replaykit prove cases/search-loop --bad examples.agents.billing:looping_agent"
        " --good examples.agents.billing:patient_agent"
    )

    assert proof.returncode == 0, proof.stdout
