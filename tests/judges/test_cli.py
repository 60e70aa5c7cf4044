"""`replaykit judge` and `replaykit judge review`: from a replay to a stored answer, and back into the next replay."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Ran, caller
from tests.judges.conftest import polite_agent

from replaykit.cases.case import JUDGEMENTS_FILE as FILE
from replaykit.judges.judgement_store import read_judgements

POLITE = "sh polite.sh"
ANSWER = "Thank you for asking."
CASE = {
    "replaykit": 1,
    "id": "polite",
    "scenario": {"input": "Why?"},
    "observed": [{"status_is": "error"}],
    "desired": [{"status_is": "success"}],
    "semantic": ["The answer is polite", "The answer is right"],
}


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    return caller(capsys, Ran)


@pytest.fixture
def case(own_directory: Path, cli: Any) -> Path:
    """A case that was replayed once; its agent, and judges in Python."""
    directory = own_directory / "cases" / "polite"
    directory.mkdir(parents=True)
    (directory / "case.yaml").write_text(json.dumps(CASE))
    polite_agent(ANSWER)
    code, *_ = cli("replay", directory, "--runner-cmd", POLITE)
    assert code == 0
    return directory


def replayed(cli: Any, case: Path) -> dict[str, Any]:
    _, out, _ = cli("replay", case, "--runner-cmd", POLITE, "--json")
    found: dict[str, Any] = json.loads(out)["results"][0]
    return found


def test_without_a_judge_the_sentences_need_a_human_and_nothing_fails(cli: Any, case: Path) -> None:
    code, out, _ = cli("judge", case, "--json")

    assert code == 0
    assert [check["status"] for check in json.loads(out)["checks"]] == ["needs_human", "needs_human"]
    assert not (case / FILE).exists()


def test_a_judge_is_asked_once_and_replays_only_look_up(cli: Any, case: Path, model: Any) -> None:
    code, out, err = cli("judge", case, "--ask-judge", "--judge", "openai:gpt")
    assert code == 0, err
    assert "asked openai:gpt 2 of 2" in err
    assert "2 pass" in out

    again, _, err = cli("judge", case, "--ask-judge", "--judge", "openai:gpt")
    assert (again, "asked openai:gpt 0 of 2" in err) == (0, True)
    assert cli("judge", case)[0] == 0
    assert [check["status"] for check in replayed(cli, case)["semantic"]] == ["pass", "pass"]
    assert len(model.asked) == 2


def test_again_asks_what_is_answered(cli: Any, case: Path, model: Any) -> None:
    cli("judge", case, "--ask-judge", "--judge", "anthropic:claude")
    model.said = '{"verdict": "fail", "reason": "rude"}'

    code, _, _ = cli("judge", case, "--ask-judge", "--again", "--judge", "anthropic:claude")

    assert (code, len(model.asked)) == (1, 4)


def test_a_sentence_that_fails_fails_the_next_replay(cli: Any, case: Path, model: Any) -> None:
    model.said = '{"verdict": "fail", "reason": "too short"}'
    assert cli("judge", case, "--ask-judge", "--judge", "openai:gpt")[0] == 1

    code, out, _ = cli("replay", case, "--runner-cmd", POLITE)

    assert code == 1
    assert "a semantic check failed: 'The answer is polite', openai:gpt says: too short" in " ".join(out.split())
    summaries = [file.read_text() for file in Path(".replaykit/runs").glob("*/summary.md")]
    assert sum("- fail: The answer is polite (openai:gpt: too short)" in text for text in summaries) == 1


def test_another_output_is_unjudged_and_does_not_pass(cli: Any, case: Path, model: Any) -> None:
    cli("judge", case, "--ask-judge", "--judge", "openai:gpt")
    polite_agent(ANSWER.replace("Thank", "thank"))

    found = replayed(cli, case)

    assert (found["verdict"], found["semantic"][0]["status"]) == ("inconclusive", "unjudged")
    assert cli("replay", case, "--runner-cmd", POLITE)[0] == 3
    assert cli("judge", case)[0] == 3


def test_a_judge_that_cannot_be_asked_loses_no_answer(cli: Any, case: Path, model: Any) -> None:
    cli("judge", "review", case, "--pass", 1)
    model.status = 500

    code, _, err = cli("judge", case, "--ask-judge", "--judge", "openai:gpt")

    assert code == 3
    assert "answered 500" in err
    assert len(read_judgements(case).judgements) == 1


@pytest.mark.parametrize("text", ["{", '{"replaykit": 9}', '{"replaykit": 1, "x": ' + "[" * 9999 + "]" * 9999 + "}"])
def test_a_damaged_file_spoils_its_own_case_and_no_other(text: str, cli: Any, case: Path) -> None:
    other = case.with_name("other")
    other.mkdir()
    (other / "case.yaml").write_text(json.dumps({**CASE, "id": "other"}))
    (case / FILE).write_text(text)

    code, out, _ = cli("replay", case.parent, "--runner-cmd", POLITE, "--json")

    results = {result["case_id"]: result for result in json.loads(out)["results"]}
    assert (code, results["polite"]["verdict"], results["other"]["verdict"]) == (3, "inconclusive", "fixed")
    assert FILE in results["polite"]["reason"]
    assert cli("judge", case)[0] in (2, 3)


def test_evidence_that_is_no_result_is_passed_over(cli: Any, case: Path) -> None:
    for name, text in (("a", "{"), ("b", '{"case_id": "polite"}'), ("c", "[" * 9999)):
        (Path(".replaykit/runs") / name).mkdir()
        (Path(".replaykit/runs") / name / "result.json").write_text(text)

    code, _, err = cli("judge", case)
    assert (code, "not a replay's result" in err) == (2, True)
    (Path(".replaykit/runs") / "b" / "result.json").unlink()
    assert cli("judge", case)[0] == 0


def test_a_person_answers_by_number_without_a_terminal(cli: Any, case: Path) -> None:
    code, out, _ = cli("judge", "review", case, "--pass", 1, "--fail", 2, "--note", "the amount is wrong", "--json")

    checks = json.loads(out)["checks"]
    assert code == 1
    assert [(check["status"], check["by"]) for check in checks] == [("pass", "person"), ("fail", "person")]
    assert checks[1]["reason"] == "the amount is wrong"
    assert replayed(cli, case)["verdict"] == "broken"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--pass", 3], "has no sentence 3: it has 2"),
        (["--pass", 1, "--fail", 0], "has no sentence 0"),
        (["--pass", 1, "--fail", 1], "cannot both pass and fail"),
        ([], "no terminal to ask on"),
    ],
)
def test_a_wrong_answer_is_refused_and_nothing_is_stored(
    arguments: list[object], message: str, cli: Any, case: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    code, _, err = cli("judge", "review", case, *arguments)

    assert code == 2
    assert message in err
    assert not (case / FILE).exists()


def test_on_a_terminal_each_open_sentence_is_asked(cli: Any, case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["p", "", "s"])
    monkeypatch.setattr("sys.stdin", type("Terminal", (), {"isatty": lambda self: True})())
    monkeypatch.setattr("click.prompt", lambda *_, **__: next(answers))

    code, out, err = cli("judge", "review", case)

    assert code == 0
    assert "Thank you for asking." in err
    assert "1 pass, 1 needs_human" in out
    assert list(answers) == []


def test_what_is_shown_to_a_person_cannot_steer_their_terminal(
    cli: Any, case: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    polite_agent("a\x1b[2Jb")
    replayed(cli, case)
    monkeypatch.setattr("sys.stdin", type("Terminal", (), {"isatty": lambda self: True})())
    monkeypatch.setattr("click.prompt", lambda *_, **__: "q")

    _, out, err = cli("judge", "review", case)

    assert "\x1b[2J" not in out + err
    assert "a\\x1b[2Jb" in err


def test_a_judge_in_python_comes_from_the_command_line(cli: Any, case: Path) -> None:
    Path("myjudge.py").write_text("def strict(question):\n    return 'polite' in question.rubric\n")

    code, out, _ = cli("judge", case, "--ask-judge", "--judge", "python:myjudge:strict", "--json")

    assert code == 1
    assert [(check["status"], check["by"]) for check in json.loads(out)["checks"]] == [
        ("pass", "python:myjudge:strict"),
        ("fail", "python:myjudge:strict"),
    ]


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("return 'pass'", 3, "not a Judgement, True or False"),
        ("raise KeyError('x')", 3, "the judge python:oddjudge:judge failed: KeyError"),
    ],
)
def test_a_judge_in_python_that_misbehaves_never_passes(
    body: str, code: int, message: str, cli: Any, case: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(__import__("sys").modules, "oddjudge", raising=False)
    Path("oddjudge.py").write_text(f"def judge(question):\n    {body}\n")

    found, out, err = cli("judge", case, "--ask-judge", "--judge", "python:oddjudge:judge")

    assert found == code
    assert message in " ".join((out + err).split())


def test_the_project_names_the_judge(cli: Any, case: Path, model: Any) -> None:
    Path("replaykit.yaml").write_text("replaykit: 1\njudge: {use: 'openai:gpt', parameters: {temperature: 1}}\n")

    assert cli("judge", case, "--ask-judge")[0] == 0
    assert (model.asked[0]["model"], model.asked[0]["temperature"]) == ("gpt", 1)


def test_a_case_never_names_who_is_asked(cli: Any, case: Path) -> None:
    held = {"replaykit": 1, "judge": {"name": "python", "model": "os:system"}, "judgements": []}
    (case / FILE).write_text(json.dumps(held))

    code, _, err = cli("judge", case, "--ask-judge")

    assert code == 2
    assert "no judge to ask" in err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--judge", "openai:gpt"], 2, "need --ask-judge"),
        (["--ask-judge"], 2, "Name one: --judge openai:MODEL"),
        (["--ask-judge", "--judge", "opnai:gpt"], 2, "did you mean 'openai'?"),
        (["--ask-judge", "--judge", "python:nowhere"], 2, "Write module:function"),
        (["--ask-judge", "--judge", "python:nowhere:judge"], 2, "the judge 'nowhere:judge' cannot be loaded"),
        (["--result-file", "nope.json"], 2, "no such file"),
        (["--evidence", "nowhere"], 5, "no replay of 'polite' below nowhere"),
    ],
)
def test_a_mistake_says_what_to_do(arguments: list[str], code: int, message: str, cli: Any, case: Path) -> None:
    found, _, err = cli("judge", case, *arguments)

    assert found == code
    assert message in err


def test_a_result_of_another_case_is_not_judged(cli: Any, case: Path) -> None:
    (case / "case.yaml").write_text(json.dumps({**CASE, "id": "other"}))
    (result,) = Path(".replaykit/runs").glob("*/result.json")

    code, _, err = cli("judge", case, "--result-file", result)

    assert code == 2
    assert "is a replay of 'polite', not of 'other'" in err


def test_a_case_without_sentences_has_nothing_to_judge(cli: Any, case: Path) -> None:
    (case / "case.yaml").write_text(json.dumps({**CASE, "semantic": []}))

    assert cli("judge", case)[0] == 5
    assert cli("judge", "review", case, "--pass", 1)[0] == 5
