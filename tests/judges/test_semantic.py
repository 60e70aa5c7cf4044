"""What judgements do to a replay's verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from replaykit.cases.case import ReplayCase
from replaykit.checks.questions import question_of
from replaykit.judges.judge import PERSON, Answer, JudgeId, Judgement
from replaykit.judges.judgement_store import NONE, Judgements
from replaykit.judges.semantic import with_judgements
from replaykit.model.result import ReplayResult, SemanticCheck, Verdict
from replaykit.model.run import TraceRun

TEXT = "The answer is polite"
JUDGE = JudgeId(name="openai", model="gpt")
CASE = ReplayCase(id="c", semantic=(TEXT,), directory=Path("cases/c"))


@pytest.fixture
def result(make_run: Callable[..., TraceRun]) -> ReplayResult:
    return ReplayResult(case_id="c", verdict=Verdict.FIXED, semantic=(SemanticCheck(text=TEXT),), run=make_run())


def known(run: TraceRun, answer: Answer, by: JudgeId = JUDGE) -> Judgements:
    return NONE.plus(question_of(TEXT, run), Judgement(answer, "because"), by)


def run_of(result: ReplayResult) -> TraceRun:
    assert result.run is not None
    return result.run


def test_without_a_judge_a_sentence_needs_a_human_and_the_verdict_stays(result: ReplayResult) -> None:
    judged = with_judgements(CASE, result, NONE)

    assert judged.semantic[0].status == "needs_human"
    assert judged.verdict is Verdict.FIXED


@pytest.mark.parametrize("by", [JUDGE, PERSON])
def test_a_sentence_that_passes_keeps_the_verdict(by: JudgeId, result: ReplayResult) -> None:
    judged = with_judgements(CASE, result, known(run_of(result), Answer.PASS, by))

    assert (judged.semantic[0].status, judged.semantic[0].by) == ("pass", str(by))
    assert judged.passed


@pytest.mark.parametrize("by", [JUDGE, PERSON])
def test_a_sentence_that_fails_fails_the_replay(by: JudgeId, result: ReplayResult) -> None:
    judged = with_judgements(CASE, result, known(run_of(result), Answer.FAIL, by))

    assert judged.semantic[0].status == "fail"
    assert judged.verdict is Verdict.BROKEN
    assert judged.reason == f"a semantic check failed: {TEXT!r}, {by} says: because"


@pytest.mark.parametrize("by", [JUDGE, PERSON])
def test_an_output_that_nobody_judged_never_passes(
    by: JudgeId, result: ReplayResult, make_run: Callable[..., TraceRun]
) -> None:
    judged = with_judgements(CASE, result, known(make_run("another output"), Answer.PASS, by))

    assert judged.semantic[0].status == "unjudged"
    assert judged.verdict is Verdict.INCONCLUSIVE
    assert "replaykit judge cases/c --ask-judge" in judged.reason


def test_an_unsure_judge_never_passes_anything(result: ReplayResult) -> None:
    judged = with_judgements(CASE, result, known(run_of(result), Answer.UNSURE))

    assert (judged.semantic[0].status, judged.verdict) == ("unjudged", Verdict.INCONCLUSIVE)
    assert judged.semantic[0].reason == "unsure: because"


@pytest.mark.parametrize("by", [JUDGE, PERSON])
def test_a_stored_answer_that_is_no_verdict_never_passes_a_sentence(by: JudgeId, result: ReplayResult) -> None:
    judged = with_judgements(CASE, result, known(run_of(result), Answer.VALUE, by))

    assert (judged.semantic[0].status, judged.verdict) == ("unjudged", Verdict.INCONCLUSIVE)


def test_a_persons_answer_settles_what_a_judge_was_unsure_of(result: ReplayResult) -> None:
    held = known(run_of(result), Answer.UNSURE)
    held = held.plus(question_of(TEXT, run_of(result)), Judgement(Answer.PASS), PERSON)

    assert with_judgements(CASE, result, held).passed


def test_a_sentence_nobody_ever_judged_still_needs_a_human_beside_one_that_a_person_did(result: ReplayResult) -> None:
    case = msgspec.structs.replace(CASE, semantic=(TEXT, "It is true"))

    judged = with_judgements(case, result, known(run_of(result), Answer.PASS, PERSON))

    assert [check.status for check in judged.semantic] == ["pass", "needs_human"]
    assert judged.passed


@pytest.mark.parametrize("verdict", [Verdict.REPRODUCED, Verdict.BROKEN, Verdict.INCONCLUSIVE])
@pytest.mark.parametrize("answer", list(Answer))
def test_a_judgement_never_makes_a_bad_verdict_better(verdict: Verdict, answer: Answer, result: ReplayResult) -> None:
    bad = msgspec.structs.replace(result, verdict=verdict, reason="as it was")

    judged: Any = with_judgements(CASE, bad, known(run_of(result), answer))

    assert (judged.verdict, judged.reason) == (verdict, "as it was")


def test_a_result_without_a_run_has_nothing_to_judge(result: ReplayResult) -> None:
    without = msgspec.structs.replace(result, run=None, verdict=Verdict.INCONCLUSIVE)

    assert with_judgements(CASE, without, known(run_of(result), Answer.PASS)) is without
