"""Every known way out, tried by each kind of candidate in a replay: none succeeds, and the result names each."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.isolation.outside import HERE, Outside
from tests.isolation.techniques import TECHNIQUES
from tests.matrix import sampled

import replaykit as rk
from replaykit.candidates.attempt import Candidate
from replaykit.candidates.command import CommandCandidate
from replaykit.candidates.python import PythonCandidate
from replaykit.candidates.worker_protocol import WorkerJob
from replaykit.candidates.workers import WorkerCandidate
from replaykit.cases.case import ReplayCase, Scenario
from replaykit.checks.assertions import parse_assertion
from replaykit.isolation import Level, support
from replaykit.model.isolation import Consent, IsolationLevel
from replaykit.model.result import ReplayResult, Verdict
from replaykit.programs.isolation_level import ISOLATION

KINDS = ("agent", "runner", "program", "worker", "nested worker")

AGENT = """\
import json, os, subprocess, sys
from pathlib import Path

def agent(question):
    # Without the start-up file no guard inside Python stands in the way of a technique.
    plain = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "NODE_OPTIONS")}
    done = subprocess.run([sys.executable, "-E", "-S", {techniques!r}, {facts!r}, "answers.json"], env=plain)
    assert done.returncode == 0
    return Path("answers.json").read_text()

if __name__ == "__main__":
    answer = agent("")
    print(answer)
    if "--contract" in sys.argv:
        output = {"run_id": "r", "status": "success", "final_output": answer, "tool_calls": [], "errors": []}
        Path(os.environ["REPLAYKIT_OUTPUT_PATH"]).write_text(json.dumps(output))
"""


class Escapes:
    """What came of all techniques, tried by one kind of candidate."""

    def __init__(self, outside: Outside, result: ReplayResult) -> None:
        assert result.run is not None, result.reason
        assert result.run.output is not None, (result.reason, result.run.error)
        self.result = result
        self.answers: dict[str, str] = json.loads(str(result.run.output).strip())
        self.changed = outside.changed()
        self.connections = list(outside.connections)
        self.facts = outside.facts

    def through(self) -> set[str]:
        return {name for name, answer in self.answers.items() if answer == "through"} | self.changed

    def unnamed(self) -> set[str]:
        """Techniques that were tried, and of which the result says nothing."""
        isolation = self.result.isolation
        names = [access.target for access in isolation.stopped] + [file.path for file in isolation.written]
        unnamed = set()
        for name, technique in TECHNIQUES.items():
            facts = {**self.facts, "victim": self.facts["victims"][name]}
            is_tried = not self.answers[name].startswith("left out")
            if technique.named and is_tried and not any(technique.named.format(**facts) in one for one in names):
                unnamed.add(name)
        return unnamed


def candidate(kind: str, stack: ExitStack) -> Candidate:
    program = [sys.executable, "escaping.py"]
    if kind == "agent":
        return PythonCandidate("escaping:agent")
    if kind == "runner":
        return CommandCandidate(shlex.join([*program, "--contract"]))
    if kind == "program":
        return CommandCandidate(program)
    return stack.enter_context(
        WorkerCandidate(WorkerJob(spec="escaping:agent", sort="python", directories=(os.getcwd(),)))
    )


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outside]:
    """The world around the candidate, which works in its project."""
    if support().level is not Level.FULL:
        pytest.skip("; ".join(support().reasons()))
    found = Outside(tmp_path)
    monkeypatch.chdir(found.project)
    monkeypatch.delenv(ISOLATION)
    monkeypatch.setenv("HOME", str(found.home))
    found.proxy.close()
    yield found
    found.close()


def escapes_of(kind: str, outside: Outside) -> Escapes:
    """Replay an agent that tries every technique."""
    facts = outside.data / "facts.json"
    facts.write_text(json.dumps(outside.facts))
    text = AGENT.replace("{techniques!r}", repr(str(HERE / "techniques.py"))).replace("{facts!r}", repr(str(facts)))
    Path("escaping.py").write_text(text)
    # A worker that may really write somewhere has one sandbox; any other nests one for each case.
    consent = Consent(write=(str(outside.scratch),)) if kind == "worker" else Consent()
    case = ReplayCase(
        id="escape",
        scenario=Scenario(consent=consent, timeout_s=300),
        desired=(parse_assertion("status_is", "success"),),
        is_session=True,
        tape=(),
        directory=outside.project,
        file_name="",
    )
    with ExitStack() as stack:
        return Escapes(outside, rk.replay(case, candidate(kind, stack)))


@sampled("kind", KINDS, count=1, start=2)
def test_no_technique_gets_out_and_the_result_names_each(kind: str, outside: Outside) -> None:
    escapes = escapes_of(kind, outside)

    assert escapes.result.isolation.level is IsolationLevel.FULL
    assert escapes.through() == set()
    assert escapes.connections == []
    assert escapes.unnamed() == set()
    assert escapes.result.verdict is Verdict.DIVERGED
