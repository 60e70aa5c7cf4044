"""--quiet leaves the essential line, --verbose adds details, and neither changes the exit code or the JSON."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.commands import Ran
from tests.matrix import sampled

Command = Callable[..., Ran]

AGENT = "def answer(question):\n    return 'done'\n\n\ndef fails(question):\n    raise ValueError\n"
CONFIG = """replaykit: 1
agent: {type: python, endpoint: "quiet_agent:answer"}
cases: [cases]
inputs: [hello]
contract: {name: polite, invariants: [{id: answers, type: output_not_empty, severity: critical}]}
chaos: {tool_faults: [{tool: "*", mode: error}]}
"""
LINES = {
    "replay cases/billing": r"fixed  billing",
    "replay cases/billing --agent quiet_agent:fails": r"reproduced  billing",
    "lint cases": r"1 case: .*",
    "lint --upgrade --dry-run": r"1 case: 0 upgraded, 1 already current|1 case: 1 upgraded, 0 already current",
    "prove cases/billing --bad quiet_agent:fails --good quiet_agent:answer --dry-run": r"billing: proven: red → green",
    "retape cases/billing --agent quiet_agent:answer --dry-run": r"billing: FIXED",
    "ci": r"not tested: score 100; .*",
    "contract run": r"polite: .*score 100",
    "contract score": r"100",
    "contract lint": r"1 file: ok",
    "chaos mutate hello --count 2": r".+\n.+",
    "runs": r"run-b\nrun-a",
    "show run-a": r"run-a  success  first",
    "show run-a --steps": r"step_1\nstep_2",
    "show run-a --step -1": r" +\d.*look.*",
    "show run-a --forks": r"run-a",
    "compare run-a run-b": r"differs .*",
    "compare run-a run-a": r"identical: 2 events",
    "golden run-a -o golden --force": r"golden/first.golden.json",
    "export run-a -o run.json": r"",
    "import run-c.json --dry-run": r"nothing was written; a real import would give: 1 imported",
    "scaffold run-a --out new --force --no-check": r"new",
    "redact notes.txt --dry-run": r"1 would be replaced: 1 email",
    "redact scan notes.txt": r"1 file looked at, 1 finding: 1 email",
    "doctor": r"nothing is wrong.*|\d+ problems?: .*",
    "store stats": r"runs +2: 2 success",
    "store verify": r"2 runs, none damaged",
    "store prune --dry-run": r"0 runs would be deleted \(about 0 B\), 2 would stay",
    "store keep run-a": r"run-a",
    "store backup copy.db --force": r"copy.db: 2 runs, .*",
}
"""Command lines, and what is left of their output with --quiet."""


@pytest.fixture
def project(make_case: Callable[..., Path], replaykit: Command) -> Path:
    make_case(semantic=[])
    Path("quiet_agent.py").write_text(AGENT)
    Path("replaykit.yaml").write_text(CONFIG)
    Path("notes.txt").write_text("mail jane.doe@example.com\n")

    for run_id, name, asked in (("run-a", "first", "here"), ("run-b", "second", "there"), ("run-c", "third", "here")):
        calls = []
        for at in (asked, ""):
            calls.append({"type": "tool_call", "tool_name": "look", "tool_args": {"at": at}, "output": at})
        started_at = f"2026-02-15T14:32:0{len(name)}Z"
        trace = {"run_id": run_id, "name": name, "status": "success", "started_at": started_at, "input": asked}
        Path(f"{run_id}.json").write_text(json.dumps({**trace, "events": calls}))
    assert replaykit("import", "run-a.json", "run-b.json").code == 0
    return Path.cwd()


@sampled("line", LINES, count=3)
def test_quiet_leaves_the_essential_line_and_the_exit_code(project: Path, replaykit: Command, line: str) -> None:
    plain = replaykit(*shlex.split(line))
    quiet = replaykit(*shlex.split(line), "--quiet")
    verbose = replaykit(*shlex.split(line), "-v")

    assert (quiet.code, verbose.code) == (plain.code, plain.code)
    assert re.fullmatch(LINES[line], quiet.out.rstrip("\n")), quiet.out
    assert quiet.err == ""
    details = [text for text in verbose.err.splitlines() if text.startswith("detail: ")]
    assert re.fullmatch(r"detail: took \d+\.\d\d s", details[-1])
    assert "detail: " not in plain.err


def test_a_quiet_replay_without_a_verdict_still_says_why(project: Path, replaykit: Command) -> None:
    quiet = replaykit("replay", "cases/billing", "--agent", "quiet_agent:fials", "--quiet")

    assert quiet.out == "inconclusive  billing\n"
    assert "fials" in quiet.err
