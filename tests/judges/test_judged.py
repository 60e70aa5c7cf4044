"""`judge.…` assertions: asked as the sentences of a case are, stored beside it, and only looked up by replays."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Ran, caller
from tests.judges.conftest import polite_agent

import replaykit as rk
from replaykit.cases.case import JUDGEMENTS_FILE as FILE
from replaykit.checks.assertions import find_judged, parse_assertion
from replaykit.checks.rule import CannotTell
from replaykit.judges.judge import (
    SYSTEM,
    Answer,
    Asks,
    JudgeId,
    Judgement,
    Question,
    message_of,
    read_answer,
    system_of,
)
from replaykit.judges.judgement_store import NONE, ProjectAnswers, StoredAnswers, read_judgements
from replaykit.model.events import ErrorInfo, ToolCall
from replaykit.model.result import Side
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import raw
from replaykit.trials.case_judgements import judge_of

JUDGE = JudgeId(name="openai", model="gpt")
RUBRIC = {"judge.rubric": "It is polite"}
SCORE = {"judge.score": {"rubric": "Clarity", "at_least": 0.7}}
LABEL = {"judge.label": {"labels": ["billing", "other"], "is": "billing"}}
FACTUAL = {"judge.factual": "It costs $49.99"}
FAITHFUL = {"judge.faithful": True}
POLITE = "sh polite.sh"
ANSWER = "Thank you for asking."
SAID = {
    "verdict": '{"verdict": "pass", "reason": "it is"}',
    "score": '{"score": 0.8, "reason": "clear"}',
    "label": '{"label": "billing", "reason": "money"}',
}

CLI = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> CLI:
    return caller(capsys, Ran)


@pytest.fixture
def case(own_directory: Path) -> Callable[..., Path]:
    """A case with these assertions, and an agent that answers politely."""
    polite_agent(ANSWER)

    def make(*desired: Any, **rest: Any) -> Path:
        directory = own_directory / "cases" / "polite"
        directory.mkdir(parents=True, exist_ok=True)
        signatures = [{"status_is": "error"}]
        document = {"replaykit": 1, "id": "polite", "scenario": {"input": "Why?"}, "observed": signatures}
        document |= {"desired": list(desired), **rest}
        (directory / "case.yaml").write_text(json.dumps(document))
        return directory

    return make


class Speaking:
    """What the model on loopback answers, by what it is asked for."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.said = dict(SAID)
        model._answer = self._answer

    def _answer(self, path: str) -> bytes:
        told = self._model.asked[-1]["messages"][0]["content"]
        wanted = next(word for word in ("score", "label", "verdict") if f'{{"{word}"' in told)
        return json.dumps({"choices": [{"message": {"content": self.said[wanted]}}]}).encode()


@pytest.fixture
def speaking(model: Any) -> Speaking:
    return Speaking(model)


def replayed(cli: CLI, case: Path) -> dict[str, Any]:
    _, out, _ = cli("replay", case, "--runner-cmd", POLITE, "--json")
    found: dict[str, Any] = json.loads(out)["results"][0]
    return found


def run_of(output: Any = "Thank you.", **more: Any) -> TraceRun:
    return TraceRun(id="r", status=RunStatus.SUCCESS, input_json=raw("Why?"), output_json=raw(output), **more)


def found(written: dict[str, Any], answer: Judgement, run: TraceRun | None = None) -> Any:
    run = run or run_of()
    ((kind, value),) = written.items()
    assertion = parse_assertion(kind, value)
    ((judged, _),) = find_judged([assertion])
    known = NONE.plus(judged.rule.question(run), answer, JUDGE)  # type: ignore[attr-defined]

    class Known:
        hint = "Ask somebody."

        def look_up(self, question: Question) -> Any:
            return known.look_up(question)

    return assertion.check(run, Side.DESIRED, answers=Known())


@pytest.mark.parametrize(
    ("written", "good", "bad"),
    [
        (RUBRIC, Judgement(Answer.PASS, "so"), Judgement(Answer.FAIL, "so")),
        (FACTUAL, Judgement(Answer.PASS, "so"), Judgement(Answer.FAIL, "so")),
        (FAITHFUL, Judgement(Answer.PASS, "so"), Judgement(Answer.FAIL, "so")),
        ({"judge.faithful": False}, Judgement(Answer.FAIL, "so"), Judgement(Answer.PASS, "so")),
        (SCORE, Judgement(Answer.VALUE, "so", score=0.7), Judgement(Answer.VALUE, "so", score=0.69)),
        (LABEL, Judgement(Answer.VALUE, "so", label="billing"), Judgement(Answer.VALUE, "so", label="other")),
        ({"not": RUBRIC}, Judgement(Answer.FAIL, "so"), Judgement(Answer.PASS, "so")),
    ],
)
def test_an_answer_decides(written: dict[str, Any], good: Judgement, bad: Judgement) -> None:
    assert found(written, good).holds
    assert not found(written, bad).holds
    assert "so (output 'Thank you.')" in found(written, bad).actual


@pytest.mark.parametrize("written", [RUBRIC, FACTUAL, FAITHFUL, SCORE, LABEL, {"not": RUBRIC}])
@pytest.mark.parametrize("answer", [Judgement(Answer.UNSURE, "hm"), Judgement(Answer.VALUE, "hm")])
def test_an_answer_that_is_none_never_decides(written: dict[str, Any], answer: Judgement) -> None:
    with pytest.raises(CannotTell, match="unjudged"):
        found(written, answer)


@pytest.mark.parametrize("written", [SCORE, LABEL])
def test_a_verdict_is_no_answer_where_something_else_was_asked_for(written: dict[str, Any]) -> None:
    with pytest.raises(CannotTell, match="the stored answer is not what was asked for"):
        found(written, Judgement(Answer.PASS))


def test_a_threshold_may_change_without_asking_again() -> None:
    lower = {"judge.score": {"rubric": "Clarity", "at_least": 0.5}}
    answer = Judgement(Answer.VALUE, score=0.6)

    assert (found(SCORE, answer).holds, found(lower, answer).holds) == (False, True)


def test_a_rubric_is_the_same_question_as_a_sentence() -> None:
    ((judged, _),) = find_judged([parse_assertion("judge.rubric", "It is polite")])
    question = judged.rule.question(run_of())  # type: ignore[attr-defined]

    assert question == Question(rubric="It is polite", input_json=raw("Why?"), output_json=raw("Thank you."))
    assert system_of(question) == SYSTEM


def test_a_judge_is_shown_the_calls_and_their_answers_where_that_is_asked_for() -> None:
    events = (
        ToolCall(seq=0, name="lookup", arguments_json=raw({"user": 7}), result_json=raw({"total": 49.99})),
        ToolCall(seq=1, name="pay", arguments_json=raw({}), error=ErrorInfo(type="ToolError", message="no money")),
        ToolCall(seq=2, name="list", arguments_json=raw({}), items_json=(raw(1), raw(2))),
    )
    ((judged, _),) = find_judged([parse_assertion("judge.faithful", True)])
    question = judged.rule.question(run_of(events=events, event_count=3))  # type: ignore[attr-defined]

    assert json.loads(message_of(question))["calls"] == [
        {"tool": "lookup", "arguments": {"user": 7}, "result": {"total": 49.99}},
        {"tool": "pay", "arguments": {}, "error": "ToolError: no money"},
        {"tool": "list", "arguments": {}, "result": [1, 2]},
    ]
    assert '"calls" are the tool calls' in system_of(question)
    assert '"reference"' not in system_of(question)


ASKED = {
    Asks.SCORE: Question(rubric="x", asks=Asks.SCORE),
    Asks.LABEL: Question(rubric="x", asks=Asks.LABEL, labels=("a", "b")),
}


@pytest.mark.parametrize(
    ("asks", "said", "answer"),
    [
        (Asks.SCORE, '{"score": 0.5, "reason": "r"}', Judgement(Answer.VALUE, "r", score=0.5)),
        (Asks.SCORE, '{"score": 1, "reason": "r"}', Judgement(Answer.VALUE, "r", score=1.0)),
        (Asks.SCORE, '{"score": null, "reason": "r"}', Judgement(Answer.UNSURE, "r")),
        (Asks.LABEL, '{"label": "b", "reason": "r"}', Judgement(Answer.VALUE, "r", label="b")),
        (Asks.LABEL, '{"label": null, "reason": "r"}', Judgement(Answer.UNSURE, "r")),
    ],
)
def test_a_model_answers_with_what_it_was_asked_for(asks: Asks, said: str, answer: Judgement) -> None:
    assert read_answer(said, ASKED[asks]) == answer


@pytest.mark.parametrize(
    ("asks", "said"),
    [
        (Asks.SCORE, '{"score": 1.1, "reason": "r"}'),
        (Asks.SCORE, '{"score": -0.1, "reason": "r"}'),
        (Asks.SCORE, '{"score": true, "reason": "r"}'),
        (Asks.SCORE, '{"score": "0.9", "reason": "r"}'),
        (Asks.SCORE, '{"verdict": "pass", "reason": "r"}'),
        (Asks.SCORE, '{"score": 0.9}'),
        (Asks.LABEL, '{"label": "c", "reason": "r"}'),
        (Asks.LABEL, '{"label": ["a"], "reason": "r"}'),
        (Asks.LABEL, '{"label": "a", "reason": 3}'),
        (Asks.LABEL, "a"),
    ],
)
def test_anything_else_is_unsure(asks: Asks, said: str) -> None:
    assert read_answer(said, ASKED[asks]).answer is Answer.UNSURE


def test_what_nobody_judged_needs_a_human_and_does_not_pass(cli: CLI, case: Callable[..., Path]) -> None:
    result = replayed(cli, case(RUBRIC))

    assert (result["verdict"], result["semantic"][0]["status"]) == ("inconclusive", "needs_human")
    assert result["reason"].startswith("needs_human: 'It is polite', it was never judged\nAsk the judge: ")


def test_one_call_records_every_kind_and_replays_only_look_up(
    cli: CLI, case: Callable[..., Path], model: Any, speaking: Speaking
) -> None:
    directory = case(RUBRIC, SCORE, LABEL, FACTUAL, FAITHFUL, {"any": [RUBRIC, {"all": [SCORE]}]})
    replayed(cli, directory)

    code, out, err = cli("judge", directory, "--ask-judge", "--judge", "openai:gpt")

    assert code == 0, err
    assert "asked openai:gpt 5 of 5" in err, "the same question is asked once"
    assert "openai:gpt: 0.8: clear" in out
    result = replayed(cli, directory)
    assert result["verdict"] == "fixed"
    assert [check["status"] for check in result["semantic"]] == ["pass"] * 5
    assert [check["kind"] for check in result["semantic"]][:2] == ["judge.rubric", "judge.score"]
    assert len(model.asked) == 5
    stored = json.loads((directory / FILE).read_text())["judgements"]
    assert {entry.get("score") for entry in stored} == {None, 0.8}
    assert {entry.get("label") for entry in stored} == {None, "billing"}


def test_a_bad_answer_changes_the_verdict_and_another_output_is_unjudged(
    cli: CLI, case: Callable[..., Path], speaking: Speaking
) -> None:
    directory = case({"all": [{"status_is": "success"}, SCORE]})
    replayed(cli, directory)
    speaking.said["score"] = '{"score": 0.2, "reason": "muddled"}'

    assert cli("judge", directory, "--ask-judge", "--judge", "openai:gpt")[0] == 0, "what it means, the assertion says"
    result = replayed(cli, directory)
    assert (result["verdict"], result["semantic"][0]["status"]) == ("broken", "fail")
    assert "got 0.2: muddled" in result["reason"]

    polite_agent(ANSWER.replace("Thank", "thank"))
    result = replayed(cli, directory)
    assert (result["verdict"], result["semantic"][0]["status"]) == ("inconclusive", "unjudged")
    assert cli("judge", directory)[0] == 3


def test_a_failure_signature_can_be_judged(cli: CLI, case: Callable[..., Path], speaking: Speaking) -> None:
    directory = case({"status_is": "success"}, observed=[{"judge.rubric": "It is rude"}])
    replayed(cli, directory)
    speaking.said["verdict"] = '{"verdict": "fail", "reason": "it is not"}'

    assert cli("judge", directory, "--ask-judge", "--judge", "openai:gpt")[0] == 0
    assert replayed(cli, directory)["verdict"] == "fixed"
    cli("judge", "review", directory, "--pass", 1)
    assert replayed(cli, directory)["verdict"] == "reproduced"


def test_a_person_answers_with_scores_and_labels(cli: CLI, case: Callable[..., Path]) -> None:
    directory = case(RUBRIC, SCORE, LABEL)
    replayed(cli, directory)

    code, out, err = cli("judge", "review", directory, "--pass", 1, "--answer", "2=0.9", "--answer", "3=billing")

    assert code == 0, err
    assert "3 pass" in out
    assert replayed(cli, directory)["verdict"] == "fixed"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--pass", 2), "sentence 2 asks for a number from 0 to 1, got 'pass'"),
        (("--answer", "2=2"), "sentence 2 asks for a number from 0 to 1, got '2'"),
        (("--answer", "2=nan"), "sentence 2 asks for a number from 0 to 1, got 'nan'"),
        (("--answer", "3=shipping"), "sentence 3 asks for one of billing, other, got 'shipping'"),
        (("--answer", "1=0.5"), "sentence 1 asks for pass or fail, got '0.5'"),
        (("--answer", "x=1"), "expected N=VALUE"),
        (("--answer", "4=1"), "has no sentence 4: it has 3"),
    ],
)
def test_an_answer_of_another_sort_is_refused_and_nothing_is_stored(
    arguments: tuple[object, ...], why: str, cli: CLI, case: Callable[..., Path]
) -> None:
    directory = case(RUBRIC, SCORE, LABEL)
    replayed(cli, directory)

    code, _, err = cli("judge", "review", directory, *arguments)

    assert (code, why in err) == (2, True), err
    assert not (directory / FILE).exists()


def test_every_run_of_a_repeat_is_judged(cli: CLI, case: Callable[..., Path], model: Any, speaking: Speaking) -> None:
    counting = "import pathlib\ncount = pathlib.Path('count')\n"
    number = "    number = len(count.read_text()) if count.exists() else 0\n    count.write_text('x' * (number + 1))\n"
    Path("countingagent.py").write_text(
        f"{counting}def answer(text):\n{number}    return f'Thank you {{number % 3}} times.'\n"
    )
    directory = case({"repeat": {"times": 3, "at_least": 2, "of": RUBRIC}})
    replay = ("replay", directory, "--agent", "countingagent:answer", "--json")
    first = json.loads(cli(*replay)[1])["results"][0]
    assert (first["verdict"], [check["run"] for check in first["semantic"]]) == ("inconclusive", [1, 2, 3])

    _, out, err = cli("judge", directory, "--ask-judge", "--judge", "openai:gpt")

    assert "asked openai:gpt 3 of 3" in err
    assert "It is polite (run 3)" in out
    assert json.loads(cli(*replay)[1])["results"][0]["verdict"] == "fixed"
    cli("judge", "review", directory, "--fail", 1, "--fail", 2)
    last = json.loads(cli(*replay)[1])["results"][0]
    assert last["verdict"] == "broken"
    assert "1 of 3 runs; first not in run 1: fail" in last["reason"]


def test_a_damaged_file_makes_the_verdict_an_error(cli: CLI, case: Callable[..., Path]) -> None:
    directory = case(RUBRIC)
    (directory / FILE).write_text("{")

    result = replayed(cli, directory)

    assert result["verdict"] == "inconclusive"
    assert FILE in result["reason"]


def test_a_case_that_is_no_file_has_nowhere_to_look() -> None:
    case = rk.ReplayCase(id="c", desired=(parse_assertion("judge.rubric", "x"),), tape=(), file_name="")

    result = rk.replay(case, lambda text: "hello")

    assert result.verdict == "inconclusive"
    assert "nothing is stored where this run comes from" in result.reason


def test_a_function_may_return_what_it_is_asked_for(own_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("plainjudge.py").write_text("def judge(question):\n    return {'score': 0.5, 'label': 'b'}[question.asks]\n")
    monkeypatch.syspath_prepend(str(own_directory))
    judge = judge_of("python:plainjudge:judge")

    assert judge.judge(ASKED[Asks.SCORE]) == Judgement(Answer.VALUE, score=0.5)
    assert judge.judge(ASKED[Asks.LABEL]) == Judgement(Answer.VALUE, label="b")


@pytest.mark.parametrize("said", ["True", "1.5", "'a'", "None", "Judgement(Answer.PASS)"])
def test_a_function_that_returns_something_else_is_unsure(
    said: str, own_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imports = "from replaykit.judges.judge import Answer, Judgement\n"
    Path("oddjudge.py").write_text(f"{imports}def judge(question):\n    return {said}\n")
    monkeypatch.syspath_prepend(str(own_directory))
    monkeypatch.delitem(__import__("sys").modules, "oddjudge", raising=False)

    assert judge_of("python:oddjudge:judge").judge(ASKED[Asks.SCORE]).answer is Answer.UNSURE


CONTRACT = """\
replaykit: 1
agent: {type: command, endpoint: sh polite.sh}
inputs: ["Why?"]
judge: openai:gpt
contract:
  name: manners
  invariants:
    - {id: polite, type: judge.rubric, value: It is polite, severity: critical}
    - {id: clear, type: judge.score, value: {rubric: Clarity, at_least: 0.7}}
"""


def test_the_invariants_of_a_contract_are_answered_beside_the_configuration(
    cli: CLI, case: Callable[..., Path], model: Any, speaking: Speaking
) -> None:
    case(RUBRIC)
    Path("replaykit.yaml").write_text(CONTRACT)

    code, out, _ = cli("contract", "run", "--json")
    assert code == 3
    assert "Ask the judge: replaykit contract run manners --ask-judge" in json.loads(out)["checks"][0]["unjudged"]
    assert not model.asked

    assert cli("contract", "run", "--ask-judge")[0] == 0
    assert len(model.asked) == 2
    assert cli("contract", "run", "--ask-judge")[0] == 0, "nothing is asked twice"
    assert cli("contract", "run")[0] == 0
    assert cli("ci")[0] == 0
    assert len(model.asked) == 2
    assert len(read_judgements(Path()).judgements) == 2


def test_ci_never_asks_and_never_passes_what_nobody_judged(cli: CLI, case: Callable[..., Path], model: Any) -> None:
    case(RUBRIC)
    Path("replaykit.yaml").write_text(CONTRACT + "mutations: {count: 1, kinds: [casing]}\n")

    code, out, _ = cli("ci", "--json")

    assert code == 3
    assert not model.asked
    reasons = [item.get("reason", "") for item in json.loads(out)["items"]]
    assert all("needs_human" in reason for reason in reasons), reasons


def test_a_judge_is_named_only_where_it_is_asked(cli: CLI, case: Callable[..., Path]) -> None:
    case(RUBRIC)
    Path("replaykit.yaml").write_text(CONTRACT)

    code, _, err = cli("contract", "run", "--judge", "openai:gpt")

    assert (code, "--judge needs --ask-judge" in err) == (2, True)


def test_a_session_is_judged_by_its_file(cli: CLI, case: Callable[..., Path], model: Any, speaking: Speaking) -> None:
    case(RUBRIC)
    Path("replaykit.yaml").write_text(CONTRACT)
    Path("replays").mkdir()
    session = Path("replays/incident.yaml")
    session.write_text('id: incident\ninput: "Why?"\ncontract: manners\n')
    assert cli("replay", session)[0] == 3

    code, _, err = cli("judge", session, "--ask-judge")

    assert code == 0, err
    assert (session.parent / FILE).exists()
    assert cli("replay", session)[0] == 0


def test_answers_of_a_project_are_asked_once_however_many_ask(own_directory: Path, question: Question) -> None:
    class Counting:
        identity = JUDGE
        asked = 0

        def judge(self, question: Question) -> Judgement:
            self.asked += 1
            return Judgement(Answer.PASS)

    judge = Counting()
    answers = ProjectAnswers(own_directory, "contract run", judge)

    assert [answers.look_up(question).status for _ in range(3)] == ["pass"] * 3
    assert judge.asked == 1
    assert StoredAnswers(own_directory, "x").look_up(question).status == "pass"


def test_on_a_terminal_scores_and_labels_are_asked_for(
    cli: CLI, case: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = case(RUBRIC, SCORE, LABEL, FACTUAL)
    replayed(cli, directory)
    answers = iter(["s", 0.9, "clear", 1, "", "q"])
    shown: list[str] = []
    monkeypatch.setattr("sys.stdin", type("Terminal", (), {"isatty": lambda self: True})())
    monkeypatch.setattr("click.prompt", lambda text, **_: [shown.append(text), next(answers)][1])

    code, out, _ = cli("judge", "review", directory)

    assert code == 0
    assert "2 pass, 2 needs_human" in out
    assert "1 billing, 2 other, or 0 to skip" in shown
    assert list(answers) == []


def test_scores_and_labels_can_be_skipped(cli: CLI, case: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    directory = case(SCORE, LABEL)
    replayed(cli, directory)
    answers = iter([-1.0, 0])
    monkeypatch.setattr("sys.stdin", type("Terminal", (), {"isatty": lambda self: True})())
    monkeypatch.setattr("click.prompt", lambda *_, **__: next(answers))

    assert "2 needs_human" in cli("judge", "review", directory)[1]
    assert not (directory / FILE).exists()
