"""W3, W15, W19: `ci` fails when a replay does, needs no model, runs side by side, and leaves reports that say why."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

Run = Callable[..., Any]


def test_w03_no_replay_that_passes_ends_with_1(files: Any, replaykit: Run) -> None:
    files.write("replays/incident_001.yaml", files.incident)
    files.config("agents:inventive", replays={"sessions": [{"file": "replays/incident_001.yaml"}]})

    ran = replaykit("ci", "-c", "flakestorm.yaml")

    assert ran.code == 1
    assert "replay_regression" in ran.out
    assert "0 of 1" in ran.out
    assert "failed: score 0" in ran.out


def test_w03_a_failure_says_what_was_expected_and_what_to_type(files: Any, replaykit: Run) -> None:
    files.write("replays/incident_001.yaml", files.incident)
    files.config("agents:inventive", replays={"sessions": [{"file": "replays/incident_001.yaml"}]})

    out = replaykit("ci").out

    for text in (
        "replay broken: incident-2026-02-15",
        "says-so (critical)",
        "expected output containing 'unavailable'",
        "It was $5.2 billion.",
        "rerun    replaykit replay -c flakestorm.yaml replays/incident_001.yaml",
    ):
        assert text in out


def test_w19_sessions_alone_pass_without_prompts_invariants_or_a_model(files: Any, replaykit: Run) -> None:
    files.write("replays/incident_001.yaml", files.incident)
    files.config(replays={"sessions": [{"file": "replays/incident_001.yaml"}]})

    ran = replaykit("ci", "--min-score", "100")

    assert ran.code == 0
    assert not files.touched
    assert "passed: score 100 of at least 100; 1 passed" in ran.out


def test_w19_mutations_are_written_without_a_model(files: Any, replaykit: Run) -> None:
    files.agents("def echo(question):\n    return question + ' unavailable'\n")
    files.config("agents:echo", golden_prompts=["Where is it?"], mutations={"count": 4, "types": ["paraphrase"]})

    told = json.loads(replaykit("ci", "--json").out)

    assert [part["name"] for part in told["parts"]] == ["mutation_robustness", "contract_compliance"]
    assert told["parts"][0]["total"] == 4


def test_w15_sessions_run_side_by_side(files: Any, replaykit: Run) -> None:
    # A pipe opens when both ends are there: one after the other they would run out of time.
    files.agents("""
        def meets(question):
            with open("pipe", "w" if question == "a" else "r"):
                return "unavailable"
    """)
    os.mkfifo("pipe")
    sessions = [{"id": name, "input": name, "contract": "Finance Agent Contract"} for name in "ab"]
    files.config("agents:meets", replays={"sessions": sessions})

    assert replaykit("ci", "-j", "2").code == 0


def test_w25_the_reports_name_the_invariant_and_the_answer(files: Any, replaykit: Run) -> None:
    files.write("replays/incident_001.yaml", files.incident)
    files.config("agents:inventive", replays={"sessions": [{"file": "replays/incident_001.yaml"}]})

    ran = replaykit("ci", "-q", "-o", "reports", "--junit", "junit.xml")

    assert ran.out.count("\n") == 1
    for name in ("reports/ci.json", "reports/junit.xml", "reports/ci.md", "reports/ci.html", "junit.xml"):
        text = Path(name).read_text(encoding="utf-8")
        assert "says-so" in text
        assert "5.2 billion" in text
    assert Xml.parse("junit.xml").getroot().get("failures") == "1"


def test_the_annotations_go_to_the_log_of_the_job(files: Any, replaykit: Run, monkeypatch: Any) -> None:
    files.write("replays/incident_001.yaml", files.incident)
    files.config("agents:inventive", replays={"sessions": [{"file": "replays/incident_001.yaml"}]})
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")

    ran = replaykit("ci", "--json")

    json.loads(ran.out)
    assert "::error file=replays/incident_001.yaml,line=14,title=" in ran.err
    assert "says-so" in Path("summary.md").read_text()
