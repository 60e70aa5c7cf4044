"""Evidence: a run that did not pass can be opened, whatever part of `ci` asked; of one that passed there is nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest
from tests.matrix import sampled

from replaykit.candidates.evidence import summary
from replaykit.cli import run
from replaykit.model.events import ErrorInfo, ToolCall
from replaykit.model.result import Deviation, Finding, ReplayResult, Verdict
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import raw

FILES = {"result.json", "summary.md", "stdout.log", "stderr.log"}
AGENT = """
import os
import replaykit as rk

@rk.tool
def lookup(order):
    return {"status": "shipped"}

def answer(question):
    print("asked", question)
    try:
        return f"It was {lookup(order=7)['status']}."
    except Exception:
        return "It was lost, I guess."

def dies(question):
    os._exit(4)
"""
NO_GUESS = {"id": "no-guess", "type": "excludes_pattern", "patterns": ["guess"], "severity": "critical"}
NO_MISTAKES = {"id": "exact", "type": "excludes_pattern", "patterns": ["shipped"]}
FAULT = {"tool_faults": [{"tool": "lookup", "mode": "error", "error_code": 503}]}

Verb = Callable[..., tuple[int, str]]


@pytest.fixture
def verb(capsys: pytest.CaptureFixture[str]) -> Verb:
    """Run a command line; gives its exit code and what it printed."""

    def call(*arguments: str) -> tuple[int, str]:
        capsys.readouterr()
        code = run(list(arguments))
        return int(code), capsys.readouterr().out

    return call


def project(*invariants: dict[str, Any], agent: str = "answer", **parts: Any) -> None:
    Path("ordering.py").write_text(AGENT)
    value = {
        "replaykit": 1,
        "agent": {"type": "python", "endpoint": f"ordering:{agent}", "timeout": 20000},
        "contract": {"name": "default", "invariants": list(invariants)},
        **parts,
    }
    Path("replaykit.yaml").write_text(json.dumps(value))


def all_parts() -> dict[str, Any]:
    session = {"id": "lost", "input": "Where?", "contract": "default"}
    answers = [{"tool": "lookup", "response": {"status": "shipped"}}]
    return {
        "inputs": ["Where is it?"],
        "chaos": {"tool_faults": [{"tool": "lookup", "mode": "slow", "delay_ms": 1}]},
        "mutations": {"count": 2},
        "replays": {"sessions": [{**session, "tool_responses": answers}]},
    }


def kept() -> list[Path]:
    return sorted(Path(".replaykit/runs").iterdir()) if Path(".replaykit/runs").exists() else []


def test_what_fails_in_any_part_leaves_the_same_files(verb: Verb) -> None:
    project(NO_MISTAKES, **all_parts())

    code, out = verb("ci", "--json")

    items = json.loads(out)["items"]
    assert code == 1
    assert {item["part"] for item in items} == {"mutation", "contract", "chaos", "replay"}
    assert {item["outcome"] for item in items} == {"failed"}
    assert sorted(Path(item["evidence"]) for item in items) == kept()
    for item in items:
        directory = Path(item["evidence"])
        result = json.loads((directory / "result.json").read_text())
        assert {file.name for file in directory.iterdir()} == FILES
        assert result["directory"] == item["evidence"]
        assert result["trial"] == ("" if item["part"] == "replay" else item["part"])
        assert [finding["id"] for finding in result["desired"]] == ["exact"]
        assert [call["name"] for call in result["run"]["events"]] == ["lookup"]
        assert result["run"]["output"] == "It was shipped."
        assert (directory / "stdout.log").read_text().startswith("asked ")


def test_every_report_names_the_evidence(verb: Verb) -> None:
    project(NO_MISTAKES, **all_parts())

    _, text = verb("ci", "-o", "reports")

    suites = Xml.parse("reports/junit.xml").getroot()
    wrong = [element.text or "" for element in suites.iter("failure")]
    pages = [text, *(Path(f"reports/ci.{form}").read_text() for form in ("json", "md", "html"))]
    assert len(kept()) == len(wrong) == 5
    for directory in map(str, kept()):
        assert all(directory in page for page in pages)
        assert sum(f"evidence: {directory}\n" in said for said in wrong) == 1


def test_what_passes_leaves_one_line_in_the_results_of_ci(verb: Verb) -> None:
    project(NO_GUESS, **all_parts())

    assert verb("ci")[0] == 0
    (results,) = Path(".replaykit/ci").iterdir()
    header, *records, end = map(json.loads, results.read_text().splitlines())
    assert header["kind"] == "ci-results"
    assert [record["item"]["part"] for record in records] == ["mutation", "mutation", "contract", "chaos", "replay"]
    assert records[-1]["item"]["id"] == "lost"
    assert end == {"end": 5}
    assert verb("contract", "run")[0] == 0
    assert verb("chaos", "run")[0] == 0
    assert kept() == []


def test_where_evidence_is_asked_for_every_run_leaves_it(verb: Verb) -> None:
    project(NO_GUESS, **all_parts())

    code, out = verb("ci", "--json", "--evidence", "kept")

    items = json.loads(out)["items"]
    assert code == 0
    assert len(items) == 5
    assert {Path(item["evidence"]) for item in items} == set(Path("kept").iterdir())
    assert not Path(".replaykit/runs").exists()
    assert all("passed" in (Path(i["evidence"]) / "summary.md").read_text() for i in items if i["part"] != "replay")


@pytest.mark.parametrize("jobs", ["1", "3"])
def test_the_summary_tells_what_was_asked_injected_called_and_answered(verb: Verb, jobs: str) -> None:
    project(NO_GUESS, inputs=["Where is it?"], chaos=FAULT)

    verb("ci", "--only", "chaos", "-j", jobs)

    (directory,) = kept()
    assert directory.name.endswith("-chaos-seed-0-Where-is-it")
    text = (directory / "summary.md").read_text()
    assert text.startswith("# chaos seed 0 / Where is it?: not passed\n")
    assert "- fault: tool.error in lookup (event 0)\n" in text
    assert "- [ ] `no-guess (critical)`: Output matches /guess/i" in text
    story = [line.strip() for line in text.split("```text\n")[1].split("\n```")[0].splitlines()]
    assert story == [
        'asked     "Where is it?"',
        'call 0    lookup({"order":7})',
        "→ ToolError: `lookup` failed with 503 (injected)",
        "fault: tool.error",
        'answered  "It was lost, I guess."',
        "ended     success",
    ]


def test_the_faults_of_an_item_are_named_in_its_block(verb: Verb) -> None:
    matrix = [{"name": "outage", **FAULT}]
    project(NO_GUESS, inputs=["Where is it?"], chaos=FAULT, chaos_matrix=matrix)

    _, out = verb("ci")

    assert out.count("    injected tool.error in lookup (event 0)\n") == 1
    assert "also     1 more with the same cause\n             chaos " in out


@sampled("part", ["mutation", "contract", "chaos"], count=1, start=1)
def test_an_agent_that_dies_leaves_evidence_of_what_it_was_asked(verb: Verb, part: str) -> None:
    project(NO_GUESS, agent="dies", **all_parts())

    code, out = verb("ci", "--json", "--only", part)

    item = json.loads(out)["items"][0]
    directory = Path(item["evidence"])
    assert code == 3
    assert json.loads((directory / "result.json").read_text())["verdict"] == "inconclusive"
    text = (directory / "summary.md").read_text()
    assert f"asked     {json.dumps(item['input'])}\nended     without a run" in text
    assert "exit code 4" in text


@pytest.mark.parametrize("part", ["contract", "chaos"])
def test_what_no_fault_struck_can_be_opened_as_well(verb: Verb, part: str) -> None:
    nothing = {"tool_faults": [{"tool": "other", "mode": "error"}]}
    project(NO_GUESS, inputs=["Where is it?"], chaos=nothing, chaos_matrix=[{"name": "quiet", **nothing}])

    code, out = verb("ci", "--json", "--only", part)

    (item,) = json.loads(out)["items"]
    assert (code, item["outcome"]) == (5, "untested")
    assert (
        "\nno fault was triggered, so this world was not tested\n"
        in (Path(item["evidence"]) / "summary.md").read_text()
    )


def test_contract_run_names_the_evidence_of_a_run_once(verb: Verb) -> None:
    project(NO_MISTAKES, {**NO_MISTAKES, "id": "again"}, inputs=["Where is it?", "And now?"])

    code, text = verb("contract", "run")

    assert code == 1
    assert len(kept()) == 2
    assert all(text.count(f"evidence  {directory}\n") == 1 for directory in kept())
    checks = json.loads(verb("contract", "run", "--json")[1])["checks"]
    assert [check["evidence"] for check in checks[:2]] == [checks[0]["evidence"]] * 2
    assert checks[2]["evidence"] != checks[0]["evidence"]


@pytest.mark.parametrize(
    "arguments",
    [("chaos", "run", "--contract", "default"), ("chaos", "mutate", "--run", "Where?", "--contract", "default")],
)
def test_chaos_names_the_evidence_of_what_broke(verb: Verb, arguments: tuple[str, ...]) -> None:
    project(NO_MISTAKES, **all_parts())

    code, text = verb(*arguments)
    found = kept()
    runs = json.loads(verb(*arguments, "--json")[1])["runs"]

    assert code == 1
    assert found
    assert all(f"    evidence {directory}\n" in text for directory in found)
    assert all(Path(one["evidence"], "result.json").is_file() for one in runs)


def test_evidence_that_cannot_be_written_is_an_error_with_its_path(
    verb: Verb, capsys: pytest.CaptureFixture[str]
) -> None:
    project(NO_MISTAKES, inputs=["Where is it?"])
    Path("taken").write_text("a file")

    assert run(["contract", "run", "--evidence", "taken/here"]) == 3

    assert "taken/here cannot be made" in capsys.readouterr().err


HOSTILE = "```\n# pwned\n<script>\x1b[2J\u202e\ud800"


def test_nothing_that_an_agent_says_leaves_its_place_in_a_summary() -> None:
    call = ToolCall(seq=0, name=HOSTILE, error=ErrorInfo(type="E", message=HOSTILE), faults=("tool.error",))
    made = TraceRun(id="r", status=RunStatus.ERROR, error=ErrorInfo(type="E", message=HOSTILE), events=(call,))
    result = ReplayResult(case_id="c", trial="chaos", verdict=Verdict.BROKEN, run=made)

    text = summary(result, raw("```\n# pwned\n\x1b"), [HOSTILE])

    assert "\x1b" not in text
    marks = [line for line in text.splitlines() if line.startswith(("```", "# "))]
    assert marks == ["# c: not passed", "```text", "```"]


def test_a_long_run_is_told_up_to_a_point() -> None:
    calls = tuple(ToolCall(seq=number, name="t", result_json=raw("x" * 10_000)) for number in range(150))
    made = TraceRun(id="r", status=RunStatus.SUCCESS, output_json=raw("done"), events=calls)

    text = summary(ReplayResult(case_id="c", verdict=Verdict.FIXED, run=made), raw("x" * 100_000))

    assert "…         50 more, in result.json\n" in text
    assert text.count("call ") == 100
    assert max(map(len, text.splitlines())) < 600
    assert 'answered  "done"\n' in text


def test_the_summary_of_a_replay_keeps_its_words() -> None:
    finding = Finding(kind="k", holds=True, text="seen")
    off = Deviation(kind="moved", text="elsewhere")
    made = ReplayResult(case_id="c", verdict=Verdict.BROKEN, reproduced=False, desired=(finding,), deviations=(off,))

    text = summary(made, raw("hi"))

    assert text.startswith("# c: broken\n")
    assert "- failure reproduced: no\n" in text
    assert "- [x] `k`: seen\n" in text
    assert "- moved: elsewhere\n" in text
