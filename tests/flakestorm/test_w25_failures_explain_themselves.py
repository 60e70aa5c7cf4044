"""A failed invariant is told with its id, its severity, what was expected, what came, and the agent's own error."""

from __future__ import annotations

from pathlib import Path

import pytest

from replaykit.cli import run

CONFIG = """\
version: "2.0"
agent: {endpoint: "w25agent:answer", type: python}
golden_prompts: [How much?]
contract:
  name: Finance
  invariants:
    - {id: no-dollars, type: excludes_pattern, patterns: ['\\$\\d+'], severity: critical}
    - {id: in-time, type: latency, max_ms: 1000}
"""


def out_of(agent: str, capsys: pytest.CaptureFixture[str]) -> str:
    Path("w25agent.py").write_text(f"def answer(text):\n    {agent}\n")
    Path("flakestorm.yaml").write_text(CONFIG)
    assert run(["contract", "run"]) == 1
    return capsys.readouterr().out


def test_a_wrong_answer_is_shown_with_what_was_expected_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    out = out_of("return 'It costs $200.'", capsys)

    assert "no-dollars (critical, excludes_pattern)" in out
    assert "input     How much?" in out
    assert r"expected  output that does not match /\$\d+/i" in out
    assert "got       '$200' in output 'It costs $200.'" in out
    assert "where     flakestorm.yaml:7" in out
    assert "in-time" not in out


def test_an_exception_of_the_agent_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    out = out_of("raise RuntimeError('the till is closed')", capsys)

    assert "error     RuntimeError: the till is closed" in out


def test_latency_is_that_of_the_calls_and_not_of_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    out = out_of("import time; time.sleep(0); return '$5'", capsys)

    assert "Finance: broken, score 25, 1 invariant failed" in out


def test_an_agents_output_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    out = out_of(r"return '$5 \x1b[2J\x1b]0;pwned\x07'", capsys)

    assert "\x1b[2J" not in out
    assert "\\x1b[2J" in out
