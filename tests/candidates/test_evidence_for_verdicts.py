"""A verdict needs evidence: a candidate that stayed outside of the recorded world is neither green nor red."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import msgspec
import pytest
from click import unstyle
from tests.commands import Ran, caller

import replaykit as rk
from replaykit.cases.case import dump_case
from replaykit.checks.assertions import parse_assertion
from replaykit.checks.verdict import judge_run
from replaykit.model.events import ErrorInfo, ToolCall
from replaykit.model.result import Evidence, EvidenceSource
from replaykit.model.run import RunStatus, TraceRun

MakeCase = Callable[..., Path]
Runner = Callable[..., str]
Agent = Callable[[str], None]
CLI = Callable[..., Any]

TOOL = """
@rk.tool
def lookup(user):
    Path("touched").write_text("live")
    return "live"
"""


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> CLI:
    return caller(capsys, Ran)


@pytest.fixture
def case(make_case: MakeCase, frozen: Callable[..., ToolCall]) -> Path:
    """A failure that four recorded answers led to; it left no error text that a signature could hold on to."""
    return make_case(calls=[frozen(number, "lookup", f"answer {number}", user="u1") for number in range(4)])


def only_result(command: CLI, *arguments: Any) -> tuple[int, dict[str, Any]]:
    code, out, _ = command("replay", *arguments, "--json")
    (result,) = json.loads(out)["results"]
    return code, result


def test_any_function_that_answers_is_not_fixed(case: Path, command: CLI) -> None:
    code, result = only_result(command, case, "--agent", "os:getcwd")

    assert (code, result["verdict"]) == (3, "inconclusive")
    assert result["reason"].startswith("the candidate used none of the 4 recorded answers\n")
    assert result["evidence"] == {"used": 0, "recorded": 4, "how": "none"}


def test_an_agent_whose_real_tool_was_called_is_not_fixed(case: Path, agent: Agent, command: CLI) -> None:
    agent(TOOL.replace("@rk.tool", "") + "def run(question): return lookup('u1')")

    code, result = only_result(command, case, "--agent", "agent:run")

    assert Path("touched").exists()
    assert (code, result["verdict"]) == (3, "inconclusive")
    assert "decorate them with @rk.tool" in result["reason"]


def test_a_candidate_that_dies_before_its_first_call_does_not_reproduce(case: Path, agent: Agent, command: CLI) -> None:
    agent(TOOL + "def run(question): return lokup('u1')")

    code, result = only_result(command, case, "--agent", "agent:run")

    assert (code, result["verdict"], result["reproduced"]) == (3, "inconclusive", None)
    assert "used none of the 4 recorded answers: it failed first, with NameError" in result["reason"]


def test_a_failure_after_a_recorded_answer_is_reproduced(case: Path, agent: Agent, command: CLI) -> None:
    agent(TOOL + "def run(question): raise RuntimeError(lookup('u1'))")

    code, result = only_result(command, case, "--agent", "agent:run")

    assert (code, result["verdict"]) == (1, "reproduced")
    assert result["evidence"] == {"used": 1, "recorded": 4, "how": "served"}
    assert not Path("touched").exists()


def test_a_fix_that_used_recorded_answers_is_fixed(case: Path, agent: Agent, command: CLI) -> None:
    agent(TOOL + "def run(question): return lookup('u1')")

    code, result = only_result(command, case, "--agent", "agent:run")

    assert (code, result["verdict"], result["reason"]) == (0, "fixed", "")
    assert result["evidence"] == {"used": 1, "recorded": 4, "how": "served"}


def test_a_person_may_say_that_the_output_is_evidence_enough(case: Path, command: CLI) -> None:
    file = case / "case.yaml"
    file.write_text(json.dumps({**json.loads(file.read_text()), "evidence": "output"}))

    code, result = only_result(command, case, "--agent", "os:getcwd")

    assert (code, result["verdict"]) == (0, "fixed")
    assert result["evidence"] == {"used": 0, "recorded": 4, "how": "output"}
    assert rk.load_case(case).rests_on_output


def test_a_case_that_is_written_and_read_again_keeps_what_it_accepts(case: Path) -> None:
    file = case / "case.yaml"
    file.write_text(json.dumps({**json.loads(file.read_text()), "evidence": "output"}))

    file.write_text(dump_case(rk.load_case(case)))

    assert rk.load_case(case).rests_on_output


def test_a_case_that_has_recorded_nothing_asks_for_no_evidence(make_case: MakeCase, command: CLI) -> None:
    code, result = only_result(command, make_case(calls=()), "--agent", "os:getcwd")

    assert (code, result["verdict"]) == (0, "fixed")
    assert result["evidence"] == {"used": 0, "recorded": 0, "how": "none"}


@pytest.mark.parametrize(
    ("reported", "verdict", "evidence"),
    [
        ({"user": "u1"}, "fixed", {"used": 1, "recorded": 4, "how": "reported"}),
        ({"user": "u2"}, "inconclusive", {"used": 0, "recorded": 4, "how": "none"}),
        (None, "inconclusive", {"used": 0, "recorded": 4, "how": "none"}),
    ],
    ids=["on the tape", "not on the tape", "nothing"],
)
def test_what_a_runner_reports_counts_where_it_is_on_the_tape(
    case: Path, runner: Runner, command: CLI, reported: Any, verdict: str, evidence: Any
) -> None:
    calls = [] if reported is None else [{"tool_name": "lookup", "tool_args": reported, "tool_output": "answer 0"}]

    _, result = only_result(command, case, "--runner-cmd", runner(f"tell(final_output='fine', tool_calls={calls})"))

    assert (result["verdict"], result["evidence"]) == (verdict, evidence)


def test_a_runner_that_fails_without_a_call_does_not_reproduce(case: Path, runner: Runner, command: CLI) -> None:
    code, result = only_result(command, case, "--runner-cmd", runner("tell(status='error', errors=['no'])"))

    assert (code, result["verdict"]) == (3, "inconclusive")


@pytest.mark.parametrize("names", [["rk.now"], []], ids=["the machine", "nothing"])
def test_the_time_is_no_evidence(
    make_case: MakeCase, frozen: Callable[..., ToolCall], agent: Agent, command: CLI, names: list[str]
) -> None:
    agent("def run(question): return 'noon'")
    moments = [frozen(number, name, "noon") for number, name in enumerate(names, 1)]
    directory = make_case(calls=[frozen(0, "lookup", "answer", user="u1"), *moments])

    _, result = only_result(command, directory, "--agent", "agent:run")

    assert result["evidence"]["recorded"] == 1
    assert result["reason"].startswith("the candidate did not use the recorded answer\n")


def test_a_call_that_the_recording_refused_is_no_evidence(
    make_case: MakeCase, frozen: Callable[..., ToolCall], command: CLI
) -> None:
    refused = ErrorInfo(type="Divergence", module="replaykit.errors", message="not recorded")
    calls = [frozen(0, "lookup", "answer", user="u1"), frozen(1, "refund", error=refused, order=7)]

    _, result = only_result(command, make_case(calls=calls), "--agent", "os:getcwd")

    assert result["evidence"] == {"used": 0, "recorded": 1, "how": "none"}


def test_a_tool_that_is_live_is_not_asked_to_be_answered(
    make_case: MakeCase, frozen: Callable[..., ToolCall], agent: Agent, command: CLI
) -> None:
    agent(TOOL + "def run(question): return lookup('u1')")
    directory = make_case(calls=[frozen(0, "lookup", "answer", user="u1")], tools={"lookup": "live"})

    _, result = only_result(command, directory, "--agent", "agent:run", "--live", "lookup")
    _, text, _ = command("replay", directory, "--agent", "agent:run", "--live", "lookup")

    assert (result["verdict"], result["offline"]) == ("fixed", False)
    assert "Result: FIXED with live calls" in unstyle(text)
    assert "note: done for real: lookup × 1" in unstyle(text)


def test_what_was_not_recorded_is_a_divergence_though_nothing_was_used(case: Path, agent: Agent, command: CLI) -> None:
    agent(TOOL + "def run(question): return lookup('u2')")

    code, result = only_result(command, case, "--agent", "agent:run")

    assert (code, result["verdict"]) == (1, "diverged")


def test_calls_inside_of_a_tool_that_is_gone_are_evidence(
    make_case: MakeCase, frozen: Callable[..., ToolCall], agent: Agent, command: CLI
) -> None:
    outer, inner = frozen(0, "refund", "done", order=7), frozen(1, "lookup", "answer", user="u1")
    agent(TOOL + "def run(question): return lookup('u1')")
    directory = make_case(calls=[outer, msgspec.structs.replace(inner, parent=0)])

    _, result = only_result(command, directory, "--agent", "agent:run")

    assert (result["verdict"], result["evidence"]["used"]) == ("fixed", 1)


def test_a_run_that_never_failed_has_nothing_to_reproduce(store: rk.Store, command: CLI, agent: Agent) -> None:
    agent(TOOL + "def run(question): return lookup('u1')")
    with rk.Store.open(".replaykit/store.db") as own, rk.record("fine", input="hi", store=own) as run:

        @rk.tool
        def lookup(user: str) -> str:
            return "found"

        run.output = lookup("u1")
    assert command("scaffold", run.id, "--out", "cases/fine")[0] == 3

    code, result = only_result(command, "cases/fine", "--agent", "agent:run")

    assert (code, result["verdict"]) == (3, "inconclusive")
    assert result["reason"].startswith("there is nothing to reproduce")
    assert "replaykit golden" in result["reason"]


def test_signatures_that_no_run_can_have_prove_nothing(make_case: MakeCase, command: CLI) -> None:
    directory = make_case(observed=[{"status_is": "error"}, {"status_is": "timeout"}])

    code, result = only_result(command, directory, "--agent", "os:getcwd")

    assert (code, result["verdict"]) == (3, "inconclusive")
    assert "no run can have all signatures" in result["reason"]


def test_a_bad_candidate_that_dies_in_another_way_proves_nothing(case: Path, agent: Agent, command: CLI) -> None:
    agent(TOOL + "def typo(question): return lokup('u1')\ndef run(question): return lookup('u1')")

    code, out, _ = command("prove", case, "--bad", "agent:typo", "--good", "agent:run")

    assert code == 3
    assert "not proven" in out


def test_the_quick_start_shows_what_it_always_did(
    make_case: MakeCase, frozen: Callable[..., ToolCall], runner: Runner, command: CLI
) -> None:
    directory = make_case(calls=[frozen(0, "lookup", "answer", user="u1")])
    calls = [{"tool_name": "lookup", "tool_args": {"user": "u1"}, "tool_output": "answer"}]

    _, out, err = command("replay", directory, "--runner-cmd", runner(f"tell(final_output='x', tool_calls={calls})"))

    assert unstyle(out).split("┘")[1].split("\n  note: ")[0].split("\n") == [
        "",
        "",
        "  Observed failure reproduced: No",
        "  Desired assertions: 2/2 passed",
        "  Semantic checks needing review: 0",
        "",
    ]
    assert "Used: 1 of 1 recorded answer, as the candidate reports" in err


def test_uncertain_order_spares_the_red_and_nothing_else() -> None:
    observed, desired = ([parse_assertion("status_is", status)] for status in ("error", "success"))
    used = Evidence(used=1, recorded=1, how=EvidenceSource.SERVED)

    def verdict(status: RunStatus) -> str:
        run = TraceRun(id="r", status=status)
        given: dict[str, Any] = {"case_id": "c", "observed": observed, "desired": desired, "semantic": ()}
        return judge_run(run=run, evidence=used, uncertain=("a and b ended at once",), **given).verdict.value

    assert verdict(RunStatus.ERROR) == "reproduced"
    assert verdict(RunStatus.SUCCESS) == "inconclusive"
    assert verdict(RunStatus.TIMEOUT) == "inconclusive"


SESSION = {
    "id": "incident",
    "input": "What was the revenue?",
    "tool_responses": [{"tool": "lookup", "status": 504}],
    "expected_failure": "It made up a figure after the tool had failed",
    "contract": "honest",
}
CONTRACT = {"name": "honest", "invariants": [{"id": "says-so", "type": "contains", "value": "unavailable"}]}


@pytest.fixture
def project(agent: Agent) -> Callable[..., None]:
    """A project with one incident, and the agent that is named."""

    def make(name: str, **session: Any) -> None:
        agent(
            TOOL + "def fabricates(question):\n"
            "    try: return lookup('u1')\n"
            "    except rk.ToolError: return 'It was $5.2 billion.'\n"
            "def admits(question):\n"
            "    try: return lookup('u1')\n"
            "    except rk.ToolError: return 'It is unavailable.'\n"
            "def guesses(question): return 'It is unavailable, I guess.'\n"
        )
        value = {
            "replaykit": 1,
            "agent": {"type": "python", "endpoint": f"agent:{name}"},
            "contract": CONTRACT,
            "replays": {"sessions": [{**SESSION, **session}]},
        }
        Path("replaykit.yaml").write_text(json.dumps(value))

    return make


def test_an_incident_that_fails_as_expected_is_broken_with_that_text_beside_it(
    project: Callable[..., None], command: CLI
) -> None:
    project("fabricates")

    code, result = only_result(command)
    _, text, _ = command("replay")
    _, ci, _ = command("ci", "-o", "reports")

    assert (code, result["verdict"]) == (1, "broken")
    assert result["expected_failure"] == SESSION["expected_failure"]
    assert "Result: BROKEN" in unstyle(text)
    assert "the incident: It made up a figure after the tool had failed" in text
    assert "replay broken: incident" in unstyle(ci)
    assert "incident It made up a figure after the tool had failed" in ci
    (failure,) = Xml.parse(next(Path("reports").glob("*.xml"))).iter("failure")
    assert failure.get("type") == "broken"
    assert "incident: It made up a figure after the tool had failed" in str(failure.text)


def test_a_session_that_keeps_its_contract_is_fixed(project: Callable[..., None], command: CLI) -> None:
    project("admits")

    code, result = only_result(command)

    assert (code, result["verdict"], result["evidence"]["how"]) == (0, "fixed", "served")


def test_a_session_whose_answers_were_not_used_is_inconclusive_everywhere(
    project: Callable[..., None], command: CLI
) -> None:
    project("guesses")

    code, result = only_result(command)
    ci_code, out, _ = command("ci", "--json", "-o", "reports")

    assert (code, result["verdict"]) == (3, "inconclusive")
    (item,) = json.loads(out)["items"]
    assert (ci_code, item["outcome"], item["verdict"]) == (3, "error", "inconclusive")
    assert item["tape"] == {"used": 0, "recorded": 1, "how": "none"}
    (error,) = Xml.parse(next(Path("reports").glob("*.xml"))).iter("error")
    assert error.get("type") == "inconclusive"
    assert "did not use the recorded answer" in str(error.get("message"))


def test_a_session_may_rest_on_its_output_as_well(project: Callable[..., None], command: CLI) -> None:
    project("guesses", evidence="output")

    assert only_result(command)[1]["verdict"] == "fixed"


def test_repeated_runs_that_disagree_are_flaky(case: Path, agent: Agent, command: CLI) -> None:
    agent(
        TOOL + "def run(question):\n"
        "    count = Path('count')\n"
        "    first = not count.exists()\n"
        "    count.touch()\n"
        "    return lookup('u1') if first else None\n"
    )

    code, out, _ = command("replay", case, "--agent", "agent:run", "--repeat", "2", "--json")

    results = json.loads(out)["results"]
    assert (code, [result["verdict"] for result in results]) == (1, ["flaky", "flaky"])
    assert results[0]["reason"] == "repeated runs disagree: fixed, inconclusive\nThis one was fixed"


def test_an_old_word_to_expect_is_refused_with_the_new_ones(case: Path, command: CLI) -> None:
    code, _, err = command("replay", case, "--agent", "os:getcwd", "--expect", "changed")

    assert code == 2
    assert "broken" in err
    assert "diverged" in err


def test_the_middle_of_a_program_is_evidence_too(
    make_case: MakeCase, frozen: Callable[..., ToolCall], own_directory: Path, command: CLI
) -> None:
    directory = make_case(calls=[frozen(0, "lookup", "answer", user="u1")])
    Path("program.py").write_text("import replaykit as rk\n@rk.tool\ndef lookup(user): ...\nprint(lookup('u1'))\n")
    Path("idle.py").write_text("print('answer')\n")

    used = json.loads(command("replay", directory, "--json", "--", sys.executable, "program.py")[1])["results"][0]
    idle = json.loads(command("replay", directory, "--json", "--", sys.executable, "idle.py")[1])["results"][0]

    assert used["evidence"] == {"used": 1, "recorded": 1, "how": "served"}
    assert (idle["verdict"], idle["evidence"]["how"]) == ("inconclusive", "none")
