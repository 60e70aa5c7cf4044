"""`ci`: what is configured is run, weighed, and told with one exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from replaykit.cli import run

AGENTS = """
import replaykit as rk

@rk.tool
def lookup(order):
    return {"status": "shipped"}

def careful(question):
    try:
        return f"It was {lookup(order=7)['status']}."
    except (rk.ToolError, TimeoutError):
        return "The status is unavailable."

def careless(question):
    return f"It was {lookup(order=7)['status']}."

def wrong(question):
    lookup(order=7)
    return "No idea."

def broken(question):
    raise RuntimeError("the till is closed")

def proud(question):
    return "PWNED" if question != "Where is it?" else "fine"
"""
FINE = {"id": "answers", "type": "output_not_empty"}
SHIPPED = {"id": "shipped", "type": "contains", "value": "shipped", "severity": "critical", "when": "no_chaos"}
FAULT = {"tool_faults": [{"tool": "lookup", "mode": "error", "error_code": 503}]}


def project(endpoint: str = "ci_agents:careful", **parts: Any) -> None:
    """A project with one contract; a part that is None is left out."""
    Path("ci_agents.py").write_text(AGENTS)
    value = {
        "replaykit": 1,
        "agent": {"type": "python", "endpoint": endpoint, "timeout": 20000},
        "contract": {"name": "default", "invariants": [FINE]},
        **parts,
    }
    Path("replaykit.yaml").write_text(json.dumps({key: part for key, part in value.items() if part is not None}))


def session(name: str, *statuses: int, **said: Any) -> dict[str, Any]:
    answers = [{"tool": "lookup", "response": {"status": "shipped"}, "status": status} for status in statuses]
    return {"id": name, "input": "Where is it?", "contract": "default", "tool_responses": answers, **said}


@pytest.fixture
def ci(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, Any]]:
    """Run `ci --json`; gives the exit code and the document."""

    def call(*arguments: str) -> tuple[int, Any]:
        capsys.readouterr()
        code = run(["ci", "--json", *arguments])
        out = capsys.readouterr().out
        return int(code), json.loads(out) if out else None

    return call


Ci = Callable[..., tuple[int, Any]]


def scores(document: Any) -> dict[str, float | None]:
    return {part["name"]: part["score"] for part in document["parts"]}


def test_sessions_alone_need_no_inputs_and_no_model(ci: Ci) -> None:
    project(replays={"sessions": [session("a", 200), session("b", 504)]})

    code, told = ci()

    assert (code, told["passed"], told["score"]) == (0, True, 100)
    assert scores(told) == {"replay_regression": 100}
    assert [item["verdict"] for item in told["items"]] == ["fixed", "fixed"]


def test_every_part_that_is_configured_is_run(ci: Ci) -> None:
    project(inputs=["Where is it?"], chaos=FAULT, mutations={"count": 3}, replays={"sessions": [session("a", 200)]})

    code, told = ci()

    assert code == 0
    assert scores(told) == {
        "mutation_robustness": 100,
        "contract_compliance": 100,
        "chaos_resilience": 100,
        "replay_regression": 100,
    }
    assert [part["weight"] for part in told["parts"]] == [0.2, 0.35, 0.35, 0.1]
    assert len(told["items"]) == 3 + 1 + 1 + 1


@pytest.mark.parametrize("jobs", ["1", "4"])
def test_the_overall_score_is_the_weighted_mean_of_what_ran(ci: Ci, jobs: str) -> None:
    scoring = {"contract": 0.3, "replay": 0.1, "mutation": 0.5, "chaos": 0.1}
    contract = {"name": "default", "invariants": [FINE, {"id": "no", "type": "contains", "value": "nowhere"}]}
    passing = session("a", 200, contract="mild")
    project(
        inputs=["Where is it?"],
        scoring=scoring,
        contract=contract,
        contracts=[{"name": "mild", "invariants": [FINE]}],
        replays={"sessions": [passing]},
    )

    code, told = ci("--min-score", "50", "-j", jobs)

    assert scores(told) == {"contract_compliance": 66.67, "replay_regression": 100}
    assert told["score"] == pytest.approx((66.67 * 0.3 + 100 * 0.1) / 0.4, abs=0.01)
    assert code == 0


def test_a_replay_that_is_not_fixed_fails_whatever_the_score_is(ci: Ci) -> None:
    sessions = [session(f"s{n}", 200) for n in range(9)] + [session("bad", 200, contract="strict")]
    strict = {"name": "strict", "invariants": [{"id": "x", "type": "contains", "value": "returned"}]}
    project(contracts=[strict], replays={"sessions": sessions})

    code, told = ci("--min-score", "50")

    assert (code, told["score"]) == (1, 90)


def test_a_critical_invariant_fails_whatever_the_score_is(ci: Ci) -> None:
    project(
        "ci_agents:wrong",
        inputs=["Where is it?"],
        contract={
            "name": "c",
            "invariants": [
                SHIPPED,
                *[{"id": f"i{n}", "type": "output_not_empty", "severity": "high"} for n in range(8)],
            ],
        },
    )

    code, told = ci("--min-score", "50")

    assert told["score"] > 80
    assert code == 1
    assert told["items"][0]["failures"][0]["severity"] == "critical"


def test_what_is_not_critical_may_fail_where_a_score_is_given_and_not_without(ci: Ci) -> None:
    shipped = {**SHIPPED, "severity": "low"}
    project("ci_agents:wrong", inputs=["Where is it?"], contract={"name": "c", "invariants": [FINE, shipped]})

    assert ci("--min-score", "50")[0] == 0
    assert ci("--min-score", "51")[0] == 1
    assert ci()[0] == 1


def test_the_score_of_the_configuration_holds_unless_one_is_given(ci: Ci) -> None:
    shipped = {**SHIPPED, "severity": "low"}
    contract = {"name": "c", "invariants": [FINE, shipped]}
    project("ci_agents:wrong", inputs=["Where is it?"], contract=contract, ci={"min_score": 50})

    assert ci()[0] == 0
    assert ci("--min-score", "60")[0] == 1


@pytest.mark.parametrize("where", ["option", "configuration"])
def test_a_fraction_is_refused_since_the_score_is_a_percentage(
    where: str, ci: Ci, capsys: pytest.CaptureFixture[str]
) -> None:
    project(replays={"sessions": [session("a", 200)]}, ci={"min_score": 0.9} if where == "configuration" else None)

    code = run(["ci", *(["--min-score", "0.9"] if where == "option" else [])])

    assert code == 2
    err = capsys.readouterr().err
    assert "percentage" in err
    assert "90" in err


def test_a_bad_file_is_one_errored_item_and_the_rest_runs(ci: Ci) -> None:
    project(cases=["replays"])
    Path("replays").mkdir()
    Path("replays/a.yaml").write_text(json.dumps(session("a", 200)))
    Path("replays/b.yaml").write_text("id: b\ninput: x\ntool_response: []\ncontract: default\n")

    code, told = ci()

    assert code == 2
    assert [item["outcome"] for item in told["items"]] == ["passed", "error"]
    bad = told["items"][1]
    assert (bad["file"], bad["line"]) == ("replays/b.yaml", 3)
    assert "tool_responses" in bad["reason"]
    assert scores(told) == {"replay_regression": 50}


def test_a_bad_file_that_is_the_only_one_does_not_keep_the_other_parts_from_running(ci: Ci) -> None:
    project(cases=["replays"], inputs=["Where is it?"])
    Path("replays").mkdir()
    Path("replays/b.yaml").write_text("id: b\ninput: x\ntool_response: []\ncontract: default\n")

    code, told = ci()

    assert code == 2
    assert scores(told) == {"contract_compliance": 100, "replay_regression": 0}


def test_an_agent_that_cannot_be_loaded_ends_with_3(ci: Ci) -> None:
    project("ci_agents:nobody", inputs=["Where is it?"], replays={"sessions": [session("a", 200)]})

    code, told = ci()

    assert code == 3
    assert {item["outcome"] for item in told["items"]} == {"error"}
    assert all("nobody" in item["reason"] for item in told["items"])


@pytest.mark.parametrize("severity", ["low", "critical"])
def test_a_promise_that_nobody_has_judged_ends_with_3_whatever_the_score_is(severity: str, ci: Ci) -> None:
    polite = {"id": "polite", "type": "judge.rubric", "value": "The answer is polite", "severity": severity}
    project(inputs=["Where is it?"], contract={"name": "default", "invariants": [FINE, polite]})

    code, document = ci("--min-score", "2")

    (item,) = document["items"]
    assert (code, item["outcome"], item["verdict"]) == (3, "error", "error")
    assert item["reason"].startswith("needs_human: 'The answer is polite'")
    assert "failures" not in item
    assert 0 < scores(document)["contract_compliance"] < 100  # type: ignore[operator]


def test_a_promise_that_failed_is_told_before_one_that_nobody_has_judged(ci: Ci) -> None:
    polite = {"id": "polite", "type": "judge.rubric", "value": "The answer is polite"}
    never = {"id": "never", "type": "contains", "value": "never"}
    project(inputs=["Where is it?"], contract={"name": "default", "invariants": [polite, never]})

    code, document = ci()

    (item,) = document["items"]
    assert (code, item["outcome"], [failure["id"] for failure in item["failures"]]) == (1, "failed", ["never"])
    assert "polite" not in item["reason"]


def test_a_replay_that_is_not_fixed_is_told_before_a_promise_that_nobody_has_judged(ci: Ci) -> None:
    polite = {"id": "polite", "type": "judge.rubric", "value": "The answer is polite"}
    contracts = [{"name": "default", "invariants": [SHIPPED]}, {"name": "manners", "invariants": [polite]}]
    sessions = [session("a", 200), session("b", 200, contract="manners")]
    project("ci_agents:wrong", contract=None, contracts=contracts, replays={"sessions": sessions})

    code, document = ci("--min-score", "0")

    assert [item["outcome"] for item in document["items"]] == ["failed", "error"]
    assert (code, document["verdict"]) == (1, "failed: score 0 of at least 0; 1 failed, 1 error")


def test_a_session_that_broke_one_promise_has_failed_though_nobody_has_judged_another(ci: Ci) -> None:
    polite = {"id": "polite", "type": "judge.rubric", "value": "The answer is polite"}
    contract = {"name": "default", "invariants": [polite, SHIPPED]}
    project("ci_agents:wrong", contract=contract, replays={"sessions": [session("a", 200)]})

    code, document = ci()

    (item,) = document["items"]
    assert (code, item["verdict"], [one["id"] for one in item["failures"]]) == (1, "broken", ["shipped"])


def test_a_score_that_nobody_can_tell_is_reached_is_not_one_that_is_missed(ci: Ci) -> None:
    polite = {"id": "polite", "type": "judge.rubric", "value": "The answer is polite"}
    never = {"id": "never", "type": "contains", "value": "never"}
    project(inputs=["Where is it?"], contract={"name": "default", "invariants": [FINE, polite, never]})

    assert [ci("--min-score", score)[0] for score in ("2", "66", "67")] == [3, 3, 1]


def test_nothing_to_run_ends_with_5(ci: Ci) -> None:
    project()

    assert ci()[0] == 5


def test_faults_that_struck_nothing_end_with_5(ci: Ci) -> None:
    fault = {"tool_faults": [{"tool": "no_such_tool", "mode": "error"}]}
    project(inputs=["Where is it?"], contract=None, chaos=fault)

    code, told = ci()

    assert (code, scores(told)) == (5, {"chaos_resilience": None})
    assert told["items"][0]["outcome"] == "untested"


def test_no_configuration_ends_with_2(ci: Ci) -> None:
    assert ci()[0] == 2


def test_only_runs_the_parts_that_are_named(ci: Ci) -> None:
    project(inputs=["Where is it?"], chaos=FAULT, mutations={}, replays={"sessions": [session("a", 200)]})

    assert list(scores(ci("--only", "replay")[1])) == ["replay_regression"]
    assert list(scores(ci("--only", "chaos,mutation")[1])) == ["mutation_robustness", "chaos_resilience"]


def test_a_part_that_is_none_is_told_with_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    project(replays={"sessions": [session("a", 200)]})

    assert run(["ci", "--only", "replays"]) == 2
    assert "did you mean 'replay'?" in capsys.readouterr().err


def test_chaos_breaks_an_agent_that_does_not_expect_it(ci: Ci) -> None:
    project("ci_agents:careless", inputs=["Where is it?"], contract=None, chaos=FAULT)

    code, told = ci()

    assert (code, scores(told)) == (1, {"chaos_resilience": 0})
    (item,) = told["items"]
    assert item["verdict"] == "broke"
    assert "503" in item["error"]
    assert item["calls"][0]["status"] == 503
    assert "--seed 0" in item["command"]


def test_chaos_without_inputs_is_let_loose_on_the_sessions(ci: Ci) -> None:
    project("ci_agents:careless", chaos=FAULT, replays={"sessions": [session("a", 200)]})

    _, told = ci("--only", "chaos")

    assert [item["verdict"] for item in told["items"]] == ["broke"]


def test_a_seed_gives_the_same_result_again_and_another_one_another(ci: Ci) -> None:
    project("ci_agents:proud", inputs=["Where is it?"], mutations={"count": 5})

    def asked(seed: str, jobs: str) -> list[str]:
        return [item["input"] for item in ci("--seed", seed, "-j", jobs, "--only", "mutation")[1]["items"]]

    assert asked("1", "1") == asked("1", "3")
    assert asked("1", "1") != asked("2", "1")


def test_the_seed_of_the_faults_holds_unless_one_is_given(ci: Ci) -> None:
    project("ci_agents:careless", inputs=["Where is it?"], contract=None, chaos={**FAULT, "seed": 7})

    assert "--seed 7" in ci()[1]["items"][0]["command"]
    assert "--seed 3" in ci("--seed", "3")[1]["items"][0]["command"]


def test_mutations_are_asked_of_the_agent_and_what_failed_is_in_the_item(ci: Ci) -> None:
    contract = {"name": "c", "invariants": [{"id": "calm", "type": "excludes_pattern", "patterns": ["PWNED"]}]}
    project("ci_agents:proud", inputs=["Where is it?"], contract=contract, mutations={"count": 2, "kinds": ["casing"]})

    code, told = ci("--only", "mutation")

    assert code == 1
    item = told["items"][0]
    assert item["input"].lower() == "where is it?"
    assert item["input"] != "Where is it?"
    assert item["output"] == "PWNED"
    assert item["contract"] == "c"
    assert item["failures"][0]["id"] == "calm"


def test_an_item_tells_what_the_agent_saw(ci: Ci) -> None:
    strict = {"name": "default", "invariants": [{"id": "x", "type": "contains", "value": "returned"}]}
    project(contract=strict, replays={"sessions": [session("a", 200)]})

    _, told = ci()

    (item,) = told["items"]
    assert item["input"] == "Where is it?"
    (call,) = item["calls"]
    assert (call["name"], call["arguments"], call["response"]) == ("lookup", {"order": 7}, {"status": "shipped"})
    assert item["failures"][0]["id"] == "x"
    assert "returned" in item["failures"][0]["expected"]
    assert "It was shipped." in item["failures"][0]["actual"]
    assert Path(item["evidence"], "result.json").is_file()
    assert item["duration_s"] > 0
    assert item["file"] == "replaykit.yaml"
    assert item["contract"] == "default"


def test_a_call_that_the_tape_does_not_hold_is_the_first_divergence_and_no_answer(ci: Ci) -> None:
    project("ci_agents:careless", replays={"sessions": [session("a")]})

    code, told = ci()

    (item,) = told["items"]
    assert code == 1
    assert "lookup" in item["divergence"]["text"]
    assert not item.get("calls")


def test_invariants_with_probes_are_not_asked_of_other_inputs(ci: Ci) -> None:
    probing = {"id": "p", "type": "contains", "value": "nowhere", "probes": ["elsewhere"]}
    project(inputs=["Where is it?"], contract={"name": "c", "invariants": [FINE, probing]}, mutations={"count": 2})

    _, told = ci("--only", "mutation")

    assert scores(told) == {"mutation_robustness": 100}


def test_a_session_of_the_configuration_and_one_in_a_file_point_at_their_lines(ci: Ci) -> None:
    Path("ci_agents.py").write_text(AGENTS)
    Path("s.yaml").write_text("id: filed\ninput: x\ncontract: c\n")
    Path("replaykit.yaml").write_text(
        "replaykit: 1\nagent: {type: python, endpoint: 'ci_agents:proud'}\ncases: [s.yaml]\n"
        "contract: {name: c, invariants: [{id: x, type: contains, value: shipped}]}\n"
        "replays:\n  sessions:\n    - {id: first, input: x, contract: c}\n    - {id: second, input: x, contract: c}\n"
    )

    _, told = ci()

    assert [(item["id"], item["file"], item["line"]) for item in told["items"]] == [
        ("first", "replaykit.yaml", 7),
        ("second", "replaykit.yaml", 8),
        ("filed", "s.yaml", 3),
    ]
    assert told["items"][2]["command"] == "replaykit replay -c replaykit.yaml s.yaml"


def test_a_broken_contract_points_at_the_line_of_the_invariant(ci: Ci) -> None:
    Path("ci_agents.py").write_text(AGENTS)
    Path("replaykit.yaml").write_text(
        "replaykit: 1\nagent: {type: python, endpoint: 'ci_agents:proud'}\ninputs: [x]\n"
        "contracts:\n  c:\n    invariants:\n"
        "      - {id: right, type: output_not_empty}\n"
        "      - {id: wrong, type: contains, value: nowhere}\n"
    )

    _, told = ci()

    (item,) = told["items"]
    assert item["line"] == 8
    assert [(finding["id"], finding["where"]) for finding in item["failures"]] == [("wrong", "replaykit.yaml:8")]


def test_a_source_that_cannot_be_asked_is_an_error_and_the_rest_runs(ci: Ci, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LANGSMITH_API_KEY", "LANGCHAIN_API_KEY", "LANGSMITH_ENDPOINT", "LANGCHAIN_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    source = {"type": "langsmith", "project": "prod-runs", "auto_import": True}
    project(replays={"sessions": [session("a", 200)], "sources": [source]})

    code, told = ci()

    assert code == 2
    assert [(item["id"], item["outcome"]) for item in told["items"]] == [
        ("a", "passed"),
        ("langsmith prod-runs", "error"),
    ]
    assert "LangSmith needs a key" in told["items"][1]["reason"]


def test_ids_that_are_there_twice_are_told_apart(ci: Ci) -> None:
    project(replays={"sessions": [session("same", 200), session("same", 200)]})

    _, told = ci()

    assert [item["id"] for item in told["items"]] == ["same", "same (2)"]


def test_an_empty_directory_of_cases_does_not_keep_the_rest_from_running(ci: Ci) -> None:
    Path("cases").mkdir()
    project(cases=["cases"], inputs=["Where is it?"])

    code, told = ci()

    assert (code, scores(told)) == (0, {"contract_compliance": 100})
    assert any("cases" in notice for notice in told["notices"])


def test_one_pool_of_workers_serves_all_parts(ci: Ci) -> None:
    Path("counting.py").write_text(
        "import os\nfrom pathlib import Path\n"
        "Path(f'worker-{os.getpid()}').touch()\n"
        "def answer(question):\n    return 'fine'\n"
    )
    project("counting:answer", inputs=["a", "b"], mutations={"count": 2}, replays={"sessions": [session("s")]})

    code, _ = ci("-j", "1")

    assert code == 0
    assert len(list(Path().glob("worker-*"))) == 1


def test_a_result_tells_when_and_of_what_it_is(ci: Ci) -> None:
    project(inputs=["Where is it?"], replays={"sessions": [session("a", 200)]})

    _, told = ci()

    assert told["started_at"] > 1e9
    assert told["revision"] == ""
    assert len(told["settings"]) == 64
    assert {item["part"]: item.get("scenario") for item in told["items"]} == {"contract": "no chaos", "replay": None}
