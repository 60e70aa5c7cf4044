"""A wrong type, severity or condition is an error with its line, before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from replaykit.cli import run

CONFIG = """\
version: "2.0"
agent: {endpoint: "nowhere:answer", type: python}
golden_prompts: [hello]
contract:
  name: c
  invariants:
    - id: a
      WRONG
"""
CASES = [
    ("type: regx\n      pattern: x", 8, "unknown invariant type 'regx'; did you mean 'regex'?"),
    ("type: regex", 7, "the key 'pattern' is missing"),
    ("type: regex\n      pattern: '['", 9, "bad pattern"),
    ("type: completes\n      severity: fatal", 9, "expected critical | high | medium | low, got 'fatal'"),
    ("type: completes\n      when: sometimes", 9, "expected always | tool_faults_active"),
]


@pytest.mark.parametrize(("wrong", "line", "message"), CASES)
def test_lint_tells_the_line_and_what_is_valid(
    wrong: str, line: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("flakestorm.yaml").write_text(CONFIG.replace("WRONG", wrong))

    assert run(["contract", "lint"]) == 1
    out = capsys.readouterr().out
    assert f"flakestorm.yaml:{line}: error: " in out
    assert message in out


@pytest.mark.parametrize(("wrong", "line", "message"), CASES)
def test_run_refuses_the_file_and_shows_no_traceback(
    wrong: str, line: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("flakestorm.yaml").write_text(CONFIG.replace("WRONG", wrong))

    assert run(["contract", "run"]) == 2
    err = capsys.readouterr().err
    assert f"flakestorm.yaml:{line}: " in err
    assert message in err
    assert "Traceback" not in err


def test_similarity_works_in_a_contract(capsys: pytest.CaptureFixture[str]) -> None:
    Path("w07agent.py").write_text("def answer(text):\n    return 'The refund was sent today.'\n")
    right = 'type: similarity\n      expected: "the refund was sent today"\n      threshold: 0.8'
    Path("flakestorm.yaml").write_text(CONFIG.replace("WRONG", right).replace("nowhere:", "w07agent:"))

    assert run(["contract", "run"]) == 0
    Path("w07agent.py").write_text("def answer(text):\n    return 'Cars are fast.'\n")
    assert run(["contract", "run"]) == 1
    assert "similarity of at least 0.8" in " ".join(capsys.readouterr().out.split())
