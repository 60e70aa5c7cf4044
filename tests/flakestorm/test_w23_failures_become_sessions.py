"""W23: a report's failures as sessions: the input that failed, the answers that were seen, ids of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replaykit.cases.session import load_session

Run = Callable[..., Any]
FOREIGN = {
    "version": "1.0",
    "mutations": [
        {
            "original_prompt": "Where is it?",
            "mutation": {"original": "Where is it?", "mutated": "wHERE iS iT?", "type": "noise", "weight": 1.0},
            "response": "$5",
            "latency_ms": 3.2,
            "passed": False,
            "checks": [{"check_type": "contains", "passed": False, "details": "no 'shipped'"}],
            "error": None,
        },
        {"original_prompt": "a", "mutation": {"mutated": "b", "type": "noise"}, "passed": True, "checks": []},
    ],
    "golden_prompts": ["Where is it?"],
}
FAULT = {"tool_faults": [{"tool": "market_data_api", "mode": "error", "error_code": 503}]}


@pytest.fixture(scope="module")
def first_report() -> list[str]:
    """The text of the report, once a test has made it: the same project gives the same one."""
    return []


@pytest.fixture
def report(files: Any, replaykit: Run, first_report: list[str]) -> Path:
    """Of an agent that invents figures under chaos, and when it is asked otherwise."""
    files.agents("""
        @rk.tool
        def market_data_api(company):
            return "unavailable"

        def shaky(question):
            return asked(market_data_api, question) or "It was $5."
    """)
    files.config("agents:shaky", golden_prompts=["How much?"], chaos=FAULT, mutations={"count": 2})
    file = Path("report.json")
    if not first_report:
        assert replaykit("ci", "-o", file).code == 1
        first_report.append(file.read_text())
    file.write_text(first_report[0])
    return file


def test_w23_what_failed_is_written_with_its_input_answers_and_contract(replaykit: Run, report: Path) -> None:
    ran = replaykit("export", "--from-report", report, "-o", "out")

    assert ran.code == 0
    (file,) = Path("out").glob("*.yaml")
    session = load_session(file)
    assert json.loads(bytes(session.input_json)) == "How much?"
    assert session.contract == "Finance Agent Contract"
    (call,) = session.calls
    assert (call.name, call.arguments) == ("market_data_api", {"company": "How much?"})
    assert call.error is not None
    assert "503" in call.error.message
    assert "says-so" in session.expected_failure


def test_w23_the_sessions_run_and_fail_as_the_agent_did(replaykit: Run, report: Path) -> None:
    replaykit("export", "--from-report", report, "-o", "out")

    ran = replaykit("replay", "out", "--json")

    assert ran.code == 1
    assert [result["verdict"] for result in ran.results] == ["broken"]
    assert {finding["id"]: finding["holds"] for finding in ran.result["desired"]} == {
        "says-so": False,
        "no-figure": False,
    }


def test_w23_mutated_inputs_are_exported_not_the_original(files: Any, replaykit: Run) -> None:
    files.agents("def picky(question):\n    return 'unavailable' if question == 'How much?' else '$5'\n")
    files.config("agents:picky", golden_prompts=["How much?"], mutations={"count": 3})
    replaykit("ci", "--only", "mutation", "-o", "report.json")

    replaykit("export", "--from-report", "report.json", "-o", "out")

    sessions = [load_session(file) for file in Path("out").glob("*.yaml")]
    assert len(sessions) == 3
    assert len({session.id for session in sessions}) == 3
    assert not [session for session in sessions if bytes(session.input_json) == b'"How much?"']


def test_w23_a_second_report_takes_no_id_of_the_first(files: Any, replaykit: Run) -> None:
    files.agents("def wrong(question):\n    return '$5'\n")
    for prompt in ("one", "two"):
        files.config("agents:wrong", golden_prompts=[prompt])
        replaykit("ci", "-o", "report.json")
        assert replaykit("export", "--from-report", "report.json", "-o", "out").code == 0

    ids = [load_session(file).id for file in Path("out").glob("*.yaml")]
    assert len(ids) == len(set(ids)) == 2


def test_w23_the_same_failure_is_left_as_it_is_and_another_text_is_not_overwritten(
    replaykit: Run, report: Path
) -> None:
    replaykit("export", "--from-report", report, "-o", "out")
    (file,) = Path("out").glob("*.yaml")
    written = file.read_text()

    assert replaykit("export", "--from-report", report, "-o", "out").out.startswith("unchanged ")
    file.write_text(written + "# mine\n")
    refused = replaykit("export", "--from-report", report, "-o", "out")
    assert refused.code == 2
    assert "--force" in refused.err
    assert file.read_text().endswith("# mine\n")
    assert replaykit("export", "--from-report", report, "-o", "out", "--force").code == 0
    assert file.read_text() == written


def test_w23_flakestorms_own_report_is_read(files: Any, replaykit: Run) -> None:
    files.write("theirs.json", json.dumps(FOREIGN))

    ran = replaykit("export", "--from-report", "theirs.json", "-o", "out", "--contract", "Finance Agent Contract")

    assert ran.code == 0
    (file,) = Path("out").glob("*.yaml")
    session = load_session(file)
    assert json.loads(bytes(session.input_json)) == "wHERE iS iT?"
    assert session.contract == "Finance Agent Contract"
    assert session.expected_failure == "contains: no 'shipped'"
    files.config("agents:inventive")
    assert replaykit("replay", "out").code == 1


def test_w23_a_report_without_a_contract_says_what_the_sessions_will_keep(files: Any, replaykit: Run) -> None:
    files.write("theirs.json", json.dumps(FOREIGN))

    ran = replaykit("export", "--from-report", "theirs.json", "-o", "out")

    assert ran.code == 0
    assert "--contract NAME" in ran.err


@pytest.mark.parametrize(
    ("text", "code", "told"),
    [
        ("{", 2, "not JSON"),
        ("[]", 2, "neither a report"),
        ('{"replaykit": 1}', 2, "neither a report"),
        ('{"replaykit": 1, "items": 3}', 2, "not a report"),
        ('{"replaykit": 2, "items": []}', 3, "reads up to 1"),
        ('{"mutations": [{"passed": false}]}', 2, "not a report"),
        ('{"mutations": []}', 5, "no failure to export"),
    ],
)
def test_what_is_no_report_is_told(files: Any, replaykit: Run, text: str, code: int, told: str) -> None:
    files.write("report.json", text)

    ran = replaykit("export", "--from-report", "report.json", "-o", "out")

    assert ran.code == code
    assert told in ran.err
    assert "report.json" in ran.err
    assert not Path("out").exists()


def test_what_no_session_can_hold_is_left_out_and_the_rest_is_written(files: Any, replaykit: Run, report: Path) -> None:
    told = json.loads(report.read_text())
    (broken,) = [item for item in told["items"] if item["outcome"] == "failed"]
    hostile = {**broken, "id": "../../x\n", "calls": [{"name": "a\x00b", "arguments": {}, "response": 1}]}
    files.write("two.json", json.dumps({**told, "items": [hostile, broken]}))

    ran = replaykit("export", "--from-report", "two.json", "-o", "out")

    assert ran.code == 0
    assert "no session can hold it" in ran.err
    assert len(list(Path("out").iterdir())) == 1


def test_ids_of_a_report_lead_to_no_file_elsewhere(files: Any, replaykit: Run, report: Path) -> None:
    told = json.loads(report.read_text())
    for item in told["items"]:
        item["id"] = "../../elsewhere/" + item["id"]
    files.write("hostile.json", json.dumps(told))

    assert replaykit("export", "--from-report", "hostile.json", "-o", "deep/out").code == 0

    assert [file.parent for file in Path().rglob("*elsewhere*")] == [Path("deep/out")]


@pytest.mark.parametrize("words", [[], ["some-run", "--from-report", "x.json"], ["some-run", "--force"]])
def test_export_wants_a_run_or_a_report(replaykit: Run, words: list[str]) -> None:
    assert replaykit("export", *words).code == 2


def test_a_failing_case_is_left_out_since_it_is_one_already(files: Any, replaykit: Run) -> None:
    files.write("cases/c/case.yaml", "replaykit: 1\nid: c\nscenario: {input: x}\ndesired:\n- status_is: success\n")
    files.write("replaykit.yaml", "replaykit: 1\nagent: {type: python, endpoint: 'agents:bad'}\ncases: [cases]\n")
    files.agents("def bad(question):\n    raise ValueError('no')\n")
    assert replaykit("ci", "-c", "replaykit.yaml", "-o", "report.json").code == 1

    ran = replaykit("export", "--from-report", "report.json")

    assert ran.code == 5
    assert "it is a case already" in ran.err
