"""Retape: a candidate with another prompt turns green offline, and one with the failure stays red."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from shutil import copytree

import pytest

import replaykit as rk
from replaykit.candidates.inprocess import CallableCandidate
from replaykit.candidates.prove import prove
from replaykit.candidates.retaping import RetapeQuestion, retape
from replaykit.candidates.worlds import with_take
from replaykit.cases.lint import lint_case
from replaykit.cases.proof import read_proof
from replaykit.cases.takes import TAKE_FILE, read_takes, take_calls
from replaykit.cases.written_answers import WrittenAnswer, read_answers
from replaykit.errors import InvalidFile, ReplayKitError, UsageError
from replaykit.model.events import ToolCall
from replaykit.model.values import raw

MakeCase = Callable[..., Path]
calls_done_for_real: list[str] = []


@rk.tool
def ask_model(prompt: str) -> str:
    calls_done_for_real.append(prompt)
    return "refunded" if "be precise" in prompt else "no idea"


@rk.tool
def get_order(order: str) -> dict[str, str]:
    calls_done_for_real.append(order)
    return {"status": "live"}


def failing_agent(question: str) -> str:
    order = get_order("991")
    answer = ask_model(f"{question} {order['status']}")
    if answer == "no idea":
        raise ValueError(answer)
    return answer


def fixed_agent(question: str) -> str:
    order = get_order("991")
    return ask_model(f"be precise: {question} {order['status']}")


def other_agent(question: str) -> str:
    return ask_model(f"be precise and short: {question}")


@pytest.fixture(autouse=True)
def nothing_done_yet() -> None:
    calls_done_for_real.clear()


@pytest.fixture
def case(make_case: MakeCase, frozen: Callable[..., ToolCall]) -> Path:
    return make_case(
        calls=[
            frozen(0, "get_order", {"status": "lost"}, order="991"),
            frozen(1, "ask_model", "no idea", prompt="Why was I charged $49.99? lost"),
        ]
    )


def test_a_changed_prompt_is_fixed_offline_after_one_retape(case: Path) -> None:
    assert rk.replay(case, fixed_agent).verdict is rk.Verdict.DIVERGED

    retaping = retape(case, fixed_agent, live=["ask_model"])
    after = rk.replay(case, fixed_agent)

    assert calls_done_for_real == ["be precise: Why was I charged $49.99? lost"]
    assert retaping.take is not None
    assert [one.name for one in retaping.take.new_answers] == ["ask_model"]
    assert (after.verdict, after.take, after.offline) == (rk.Verdict.FIXED, "take-2", True)


def test_an_agent_with_the_failure_is_still_reproduced_on_the_recorded_take(case: Path) -> None:
    retape(case, fixed_agent, live=["ask_model"])

    result = rk.replay(case, failing_agent)

    assert (result.verdict, result.take) == (rk.Verdict.REPRODUCED, "recorded")


def test_a_candidate_that_fits_no_take_gets_the_result_of_the_default(case: Path) -> None:
    retape(case, fixed_agent, live=["ask_model"])

    result = rk.replay(case, other_agent)

    assert (result.verdict, result.take) == (rk.Verdict.DIVERGED, "recorded")


def test_an_agent_that_stops_asking_on_its_second_attempt_fits_no_other_take(case: Path) -> None:
    retape(case, fixed_agent, live=["ask_model"])
    is_given_up = False

    def agent_that_remembers_its_failure(question: str) -> str:
        nonlocal is_given_up
        get_order("991")
        if not is_given_up:
            is_given_up = True
            return ask_model(f"please: {question}")
        return "the service is not available"

    result = rk.replay(case, agent_that_remembers_its_failure)

    assert (result.verdict, result.take) == (rk.Verdict.DIVERGED, "recorded")


def test_the_newest_take_that_fits_is_used(case: Path) -> None:
    retape(case, fixed_agent, live=["ask_model"])
    retape(case, other_agent, live=["ask_model"], name="short")

    assert rk.replay(case, other_agent).take == "short"
    assert rk.replay(case, fixed_agent).take == "take-2"


def test_prove_sees_red_on_the_recorded_take_and_green_on_the_new_one(case: Path) -> None:
    retape(case, fixed_agent, live=["ask_model"])

    proving = prove(rk.load_case(case), CallableCandidate(failing_agent), CallableCandidate(fixed_agent))
    proving.write()

    proof = read_proof(rk.load_case(case))
    assert proving.is_proven
    assert proof.red is not None
    assert proof.green is not None
    assert (proof.red.take, proof.green.take) == ("recorded", "take-2")
    assert proof.red.tape != proof.green.tape


def test_what_nobody_may_call_stops_the_retape_and_writes_nothing(case: Path) -> None:
    retaping = retape(case, fixed_agent)

    assert "ask_model" in retaping.problem
    assert retaping.take is None
    assert not calls_done_for_real
    assert not (case / "takes").exists()


def test_a_run_that_is_not_fixed_is_only_written_when_asked_for(case: Path) -> None:
    def still_vague(question: str) -> str:
        if ask_model(f"please: {question}") == "no idea":
            raise ValueError("no idea")
        return "done"

    assert "the candidate is reproduced" in retape(case, still_vague, live=["ask_model"]).problem
    assert not (case / "takes").exists()

    kept = retape(case, still_vague, live=["ask_model"], keep=True)

    assert kept.take is not None
    assert kept.take.verdict == "reproduced"


def test_a_take_is_replaced_only_when_asked_for(case: Path) -> None:
    retape(case, fixed_agent, live=["ask_model"], name="precise")

    with pytest.raises(UsageError, match="has a take 'precise'"):
        retape(case, fixed_agent, live=["ask_model"], name="precise")
    retape(case, other_agent, live=["ask_model"], name="precise", replace=True)

    assert rk.replay(case, other_agent).verdict is rk.Verdict.FIXED
    assert rk.replay(case, fixed_agent).verdict is rk.Verdict.DIVERGED


@pytest.mark.parametrize("name", ["recorded", "../up", "Upper", "", "a/b", ".hidden"])
def test_names_that_no_take_may_have_are_refused(case: Path, name: str) -> None:
    with pytest.raises(UsageError):
        retape(case, fixed_agent, live=["ask_model"], name=name)
    assert not calls_done_for_real


def test_written_answers_take_the_place_of_live_calls(case: Path, tmp_path: Path) -> None:
    answers = tmp_path / "answers.yaml"
    answers.write_text("- {tool: ask_model, result: refunded by hand}\n")

    retaping = retape(case, fixed_agent, answers=read_answers(answers))
    result = rk.replay(case, fixed_agent)

    assert not calls_done_for_real
    assert [one.answered_by for one in retaping.new_calls] == ["answers.yaml"]
    assert result.verdict is rk.Verdict.FIXED
    assert result.run is not None
    assert result.run.output == "refunded by hand"


def test_a_person_answers_one_question_after_another(case: Path) -> None:
    questions: list[RetapeQuestion] = []

    def two_questions(question: str) -> str:
        return ask_model("first") + ask_model("second")

    def person(question: RetapeQuestion) -> WrittenAnswer:
        questions.append(question)
        return WrittenAnswer(name="ask_model", is_model=False, result_json=raw(f"answer {len(questions)}; "))

    retaping = retape(case, two_questions, ask=person)

    assert [question.call.arguments for question in questions] == [{"prompt": "first"}, {"prompt": "second"}]
    assert "left its recording" in questions[0].text
    assert [one.answered_by for one in retaping.new_calls] == ["person", "person"]
    assert rk.replay(case, two_questions).run.output == "answer 1; answer 2; "  # type: ignore[union-attr]


def test_a_live_call_is_made_once_though_a_person_answers_later_ones(case: Path) -> None:
    def both(question: str) -> str:
        return ask_model("be precise") + get_order("7")["status"]

    def person(question: RetapeQuestion) -> WrittenAnswer:
        return WrittenAnswer(name="get_order", is_model=False, result_json=raw({"status": "typed"}))

    retape(case, both, live=["ask_model"], ask=person)

    assert calls_done_for_real == ["be precise"]


def test_one_take_and_no_other_is_tried_when_it_is_named(case: Path) -> None:
    retape(case, fixed_agent, live=["ask_model"])

    only_recorded = with_take(rk.load_case(case), "recorded", only=True)
    only_new = with_take(rk.load_case(case), "take-2", only=True)

    assert rk.replay(only_recorded, fixed_agent).verdict is rk.Verdict.DIVERGED
    assert rk.replay(only_new, failing_agent).verdict is rk.Verdict.DIVERGED
    with pytest.raises(UsageError, match="did you mean 'take-2'"):
        rk.replay(with_take(rk.load_case(case), "take-3", only=True), fixed_agent)


def test_secrets_of_new_answers_are_not_written(case: Path) -> None:
    answer = WrittenAnswer(name="ask_model", is_model=False, result_json=raw("ask alice@example.com"))

    retape(case, fixed_agent, ask=lambda _: answer)

    texts = [file.read_text() for file in (case / "takes").rglob("*.json")]
    assert len(texts) == 3
    assert not any("alice" in text for text in texts)


def test_a_take_that_lies_about_its_name_or_version_is_refused(case: Path) -> None:
    retape(case, fixed_agent, live=["ask_model"])
    file = case / "takes" / "take-2" / TAKE_FILE
    content = json.loads(file.read_text())

    file.write_text(json.dumps({**content, "name": "other"}))
    with pytest.raises(InvalidFile, match="is called 'other'"):
        rk.replay(case, fixed_agent)
    file.write_text(json.dumps({**content, "replaykit": 99}))
    with pytest.raises(rk.ReplayKitError, match="take format 99"):
        read_takes(rk.load_case(case))


def test_calls_made_one_after_another_keep_their_places_in_time(case: Path) -> None:
    retape(case, fixed_agent, live=["ask_model"])

    spans = [call.span for call in take_calls(rk.load_case(case), "take-2")]

    assert [(span.begin, span.end) for span in spans if span is not None] == [(0, 1), (2, 3)]


def test_what_a_killed_retape_leaves_behind_is_no_take(case: Path) -> None:
    retape(case, fixed_agent, live=["ask_model"])
    takes = case / "takes"
    copytree(takes / "take-2", takes / ".take-2.4711.old")

    assert [take.name for take in read_takes(rk.load_case(case))] == ["take-2"]
    assert not [problem for problem in lint_case(case) if ".take-2" in problem.file]


@rk.tool
def get_connection(order: str) -> object:
    return object()


def agent_with_a_connection(question: str) -> str:
    get_order("991")
    get_connection("991")
    return "refunded"


def test_a_run_that_cannot_be_served_again_leaves_the_takes_as_they_were(case: Path) -> None:
    retape(case, fixed_agent, live=["ask_model"], name="fix")

    with pytest.raises(ReplayKitError, match="no take was written"):
        retape(case, agent_with_a_connection, live=["get_connection"], name="fix", replace=True)

    assert os.listdir(case / "takes") == ["fix"]
    assert rk.replay(case, fixed_agent).take == "fix"


def test_a_candidate_that_never_does_the_same_twice_is_reported(case: Path) -> None:
    numbers = iter(range(100))

    def fickle(question: str) -> str:
        return ask_model(f"be precise {next(numbers)}")

    retaping = retape(case, fickle, live=["ask_model"])

    assert retaping.take is not None
    assert "does not do the same on it: it is diverged" in retaping.problem


def test_a_take_that_another_process_wrote_meanwhile_is_not_replaced(case: Path) -> None:
    def slow(question: str) -> str:
        (case / "takes" / "fix" / "fixtures").mkdir(parents=True, exist_ok=True)
        return fixed_agent(question)

    with pytest.raises(rk.ReplayKitError, match="could not be written"):
        retape(case, slow, live=["ask_model"], name="fix")

    assert list((case / "takes").iterdir()) == [case / "takes" / "fix"]
    assert rk.replay(case, failing_agent).verdict is rk.Verdict.REPRODUCED


def vague_agent(question: str) -> str:
    """Ask a prompt that a model may answer in either way."""
    answer = ask_model(f"please: {question}")
    if answer == "no idea":
        raise ValueError(answer)
    return answer


def written(answer: str) -> list[WrittenAnswer]:
    return [WrittenAnswer(name="ask_model", is_model=False, result_json=raw(answer))]


@pytest.mark.parametrize("answers", [["refunded", "no idea"], ["no idea", "refunded"]])
def test_a_candidate_that_fits_a_red_and_a_green_take_is_red_whichever_is_newer(case: Path, answers: list[str]) -> None:
    for number, answer in enumerate(answers):
        retape(case, vague_agent, answers=written(answer), name=answer.replace(" ", "-"), keep=True)
        date_take(case, answer.replace(" ", "-"), f"2026-01-0{number + 1}T00:00:00Z")

    result = rk.replay(case, vague_agent)

    assert (result.verdict, result.take) == (rk.Verdict.REPRODUCED, "no-idea")


def date_take(case: Path, name: str, at: str) -> None:
    file = case / "takes" / name / TAKE_FILE
    file.write_text(json.dumps({**json.loads(file.read_text()), "at": at}))


def test_takes_that_disagree_are_both_named(case: Path) -> None:
    retape(case, vague_agent, answers=written("no idea"), name="bad", keep=True)
    date_take(case, "bad", "2026-01-01T00:00:00Z")

    retaping = retape(case, vague_agent, answers=written("refunded"), name="good")
    result = rk.replay(case, vague_agent)

    assert "that is on the take 'bad'; on 'good', which it fits as well, it is fixed" in result.reason
    assert retaping.take is not None
    assert "the candidate is not fixed on another one: it is reproduced: that is on the take 'bad'" in retaping.problem


def test_several_accepted_answers_to_one_prompt_are_green(case: Path) -> None:
    retape(case, vague_agent, answers=written("refunded"), name="short")
    again = retape(case, vague_agent, answers=written("it was refunded"), name="long")

    result = rk.replay(case, vague_agent)

    assert not again.problem
    assert result.verdict is rk.Verdict.FIXED


def test_a_candidate_is_not_run_on_takes_that_lack_its_calls_or_answer_them_alike(case: Path) -> None:
    retape(case, fixed_agent, live=["ask_model"], name="precise")
    retape(case, vague_agent, answers=written("refunded"), name="vague")
    runs: list[str] = []

    def agent_that_hands_over(question: str) -> str:  # `precise` has the same answer, `vague` has none
        runs.append(question)
        return f"order {get_order('991')['status']}, a person will call"

    def agent_with_a_fixed_end(question: str) -> str:  # asks what was recorded, which no other take has
        runs.append(question)
        get_order("991")
        return ask_model(f"{question} lost") + ", sorry"

    assert rk.replay(case, agent_that_hands_over).verdict is rk.Verdict.FIXED
    assert rk.replay(case, agent_with_a_fixed_end).verdict is rk.Verdict.FIXED
    assert len(runs) == 2


def test_what_a_later_take_answers_is_not_called_for_real(case: Path) -> None:
    retape(case, fixed_agent, live=["ask_model"])
    calls_done_for_real.clear()

    result = rk.replay(case, fixed_agent, live=["ask_model"])

    assert (result.verdict, result.take, result.offline) == (rk.Verdict.FIXED, "take-2", True)
    assert not calls_done_for_real


def test_live_calls_continue_the_take_that_answers_the_most(case: Path) -> None:
    def asks_once_more(question: str) -> str:
        return fixed_agent(question) + ask_model("be precise: is that all?")

    retape(case, fixed_agent, live=["ask_model"])
    calls_done_for_real.clear()

    result = rk.replay(case, asks_once_more, live=["ask_model"])

    assert (result.verdict, result.take, result.offline) == (rk.Verdict.FIXED, "take-2", False)
    assert calls_done_for_real == ["be precise: is that all?"]


def test_a_new_prompt_is_called_for_real_where_no_take_answers_it(case: Path) -> None:
    retape(case, fixed_agent, live=["ask_model"])
    calls_done_for_real.clear()

    result = rk.replay(case, other_agent, live=["ask_model"])

    assert (result.take, result.offline) == ("recorded", False)
    assert len(calls_done_for_real) == 1
