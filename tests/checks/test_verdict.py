"""What a candidate's run adds up to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.checks.assertions import parse_assertion
from replaykit.checks.verdict import EXIT_CODES, LEFT_THE_TAPE, SPOILT, failed_to_run, judge_run
from replaykit.errors import ExitCode
from replaykit.model.events import ErrorInfo
from replaykit.model.result import EFFECTS, Deviation, Effect, Evidence, EvidenceSource, ReplayResult, Verdict
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import raw

OBSERVED = [parse_assertion("status_is", "error"), parse_assertion("final_output_exists", False)]
DESIRED = [parse_assertion("status_is", "success"), parse_assertion("final_output_exists", True)]
FAILING = TraceRun(id="bad", status=RunStatus.ERROR, error=ErrorInfo(type="Error", message="limit"))
FIXED = TraceRun(id="good", status=RunStatus.SUCCESS, output_json=raw("Here is the answer."))
SILENT = TraceRun(id="silent", status=RunStatus.SUCCESS)


def judged(run, *, observed=OBSERVED, desired=DESIRED, deviations=(), evidence=None) -> ReplayResult:
    return judge_run(
        case_id="c",
        observed=observed,
        desired=desired,
        semantic=["Is it right?"],
        run=run,
        deviations=deviations,
        evidence=evidence,
    )


def test_the_failure_is_reproduced_when_every_signature_holds():
    result = judged(FAILING)

    assert result.verdict is Verdict.REPRODUCED
    assert result.reproduced is True
    assert [finding.holds for finding in result.desired] == [False, False]
    assert not result.passed


def test_it_is_fixed_when_it_is_gone_and_everything_desired_holds():
    result = judged(FIXED)

    assert result.verdict is Verdict.FIXED
    assert result.reproduced is False
    assert result.passed
    assert result.reason == ""


def test_it_is_broken_when_it_is_gone_but_a_desired_assertion_fails():
    result = judged(SILENT)

    assert result.verdict is Verdict.BROKEN
    assert result.reproduced is False
    assert "expected a final output, got no output" in result.reason


def test_semantic_checks_are_kept_for_a_human():
    (check,) = judged(FIXED).semantic

    assert (check.text, check.status) == ("Is it right?", "needs_human")


@pytest.mark.parametrize("kind", sorted(LEFT_THE_TAPE))
@pytest.mark.parametrize("run", [FAILING, FIXED, SILENT])
def test_a_candidate_that_left_the_tape_neither_reproduces_nor_fixes(run, kind):
    left = Deviation(kind=kind, text="refund(order=7) was never recorded")

    result = judged(run, deviations=[left])

    assert result.verdict is Verdict.DIVERGED
    assert result.reproduced is False
    assert "refund(order=7) was never recorded" in result.reason
    assert result.deviations == (left,)


@pytest.mark.parametrize("kind", [kind for kind, effect in EFFECTS.items() if effect is Effect.INCONCLUSIVE])
@pytest.mark.parametrize("run", [FAILING, FIXED, SILENT])
def test_a_candidate_that_was_served_something_else_than_recorded_says_nothing(run, kind):
    served = Deviation(kind=kind, text="a socket cannot be rebuilt")
    left = Deviation(kind="missing", text="refund(order=7) was never recorded")

    result = judged(run, deviations=[left, served])

    assert (result.verdict, result.reason) == (Verdict.INCONCLUSIVE, "a socket cannot be rebuilt")


@pytest.mark.parametrize("kind", [kind for kind, effect in EFFECTS.items() if effect in (Effect.STANDS, Effect.LIVE)])
def test_other_deviations_do_not_decide(kind):
    result = judged(FIXED, deviations=[Deviation(kind=kind, text="x")])

    assert result.verdict is Verdict.FIXED
    assert judged(FAILING, deviations=[Deviation(kind=kind, text="x")]).verdict is Verdict.REPRODUCED
    assert result.offline is (EFFECTS[kind] is not Effect.LIVE)


def test_an_order_that_was_too_close_to_call_spares_the_red_and_nothing_else():
    close = Deviation(kind="undecided", text="a and b ended at once")

    assert judged(FAILING, deviations=[close]).verdict is Verdict.REPRODUCED
    assert judged(FIXED, deviations=[close]).reason == "too close to call: a and b ended at once"
    assert judged(SILENT, deviations=[close]).verdict is Verdict.INCONCLUSIVE
    left = Deviation(kind="missing", text="refund(order=7) was never recorded")
    assert judged(FAILING, deviations=[close, left]).verdict is Verdict.INCONCLUSIVE
    assert judged(FIXED, deviations=[close]).uncertain == ("too close to call: a and b ended at once",)


UNUSED = Evidence(recorded=3)


@pytest.mark.parametrize("run", [FAILING, FIXED, SILENT])
def test_without_evidence_nothing_is_said(run):
    result = judged(run, evidence=UNUSED)

    assert (result.verdict, result.reproduced) == (Verdict.INCONCLUSIVE, None)
    assert "used none of the 3 recorded answers" in result.reason


def test_a_divergence_is_one_whatever_was_used():
    left = Deviation(kind="missing", text="refund(order=7) was never recorded")

    assert judged(FIXED, evidence=UNUSED, deviations=[left]).verdict is Verdict.DIVERGED


def test_an_unjudged_desire_is_no_pass_and_a_failed_one_fails_all_the_same():
    unjudged = parse_assertion("judge.rubric", "It is polite")

    assert judged(FIXED, desired=[*DESIRED, unjudged]).verdict is Verdict.INCONCLUSIVE
    assert judged(SILENT, desired=[*DESIRED, unjudged]).verdict is Verdict.BROKEN
    assert judged(FAILING, desired=[*DESIRED, unjudged]).verdict is Verdict.REPRODUCED


def test_every_verdict_has_an_exit_code_and_only_fixed_passes():
    assert {verdict for verdict, code in EXIT_CODES.items() if code is ExitCode.PASSED} == {Verdict.FIXED}
    assert {verdict for verdict, code in EXIT_CODES.items() if code is ExitCode.CANNOT} == {Verdict.INCONCLUSIVE}
    assert set(EXIT_CODES) == set(Verdict)


def test_without_signatures_nothing_is_said_about_reproduction():
    assert judged(FIXED, observed=[]).reproduced is None
    assert judged(SILENT, observed=[]).verdict is Verdict.BROKEN


def test_a_case_without_signatures_has_nothing_to_reproduce_and_is_never_fixed():
    result = judged(FIXED, observed=[])

    assert result.verdict is Verdict.INCONCLUSIVE
    assert "nothing to reproduce" in result.reason
    assert "replaykit golden" in result.reason


def test_a_session_needs_no_signature():
    result = judge_run(case_id="s", observed=[], desired=DESIRED, semantic=(), run=FIXED, needs_signature=False)

    assert result.verdict is Verdict.FIXED


def test_a_case_without_assertions_never_passes():
    result = judged(FIXED, observed=[], desired=[])

    assert result.verdict is Verdict.INCONCLUSIVE
    assert "no assertions" in result.reason


def test_without_desired_assertions_only_a_run_that_succeeds_is_fixed():
    other = TraceRun(id="crash", status=RunStatus.CANCELLED)

    assert judged(FIXED, desired=[]).verdict is Verdict.FIXED
    assert judged(other, desired=[], observed=OBSERVED[:1]).verdict is Verdict.BROKEN


@pytest.mark.parametrize("run", [None, TraceRun(id="r", status=RunStatus.RUNNING)])
def test_a_run_that_did_not_end_says_nothing(run):
    result = judged(run)

    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.reproduced is None
    assert result.reason


def test_a_candidate_that_could_not_run_is_an_error_with_its_reason():
    result = failed_to_run("c", "the runner ended with exit code 1", "python agent.py")

    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.reason == "the runner ended with exit code 1"
    assert result.candidate == "python agent.py"


@given(
    st.lists(st.sampled_from(OBSERVED), max_size=2),
    st.lists(st.sampled_from(DESIRED), max_size=2),
    st.sampled_from([FAILING, FIXED, SILENT, None]),
    st.lists(st.sampled_from(sorted(EFFECTS)), max_size=2),
    st.builds(Evidence, used=st.integers(0, 2), recorded=st.integers(0, 2), how=st.sampled_from(EvidenceSource)),
)
def test_a_pass_means_a_successful_look_at_something(observed, desired, run, kinds, evidence):
    deviations = [Deviation(kind=kind, text=kind) for kind in kinds]
    result = judged(run, observed=observed, desired=desired, deviations=deviations, evidence=evidence)

    if result.passed:
        assert result.observed
        assert all(finding.holds for finding in result.desired)
        assert not (LEFT_THE_TAPE | SPOILT | {"undecided"}).intersection(kinds)
        assert evidence.suffices or "live" in kinds
        assert result.reproduced is not True
    else:
        assert result.verdict is Verdict.REPRODUCED or result.reason


def test_where_the_output_is_evidence_a_crash_before_any_answer_is_still_none():
    output = Evidence(recorded=3, how=EvidenceSource.OUTPUT)

    assert judged(FIXED, evidence=output).verdict is Verdict.FIXED
    assert judged(SILENT, evidence=output).verdict is Verdict.BROKEN
    assert judged(FAILING, evidence=output).verdict is Verdict.INCONCLUSIVE


def test_a_candidate_whose_calls_were_let_live_took_part():
    live = Deviation(kind="live", text="`ask` was done live", name="ask")

    assert judged(FIXED, evidence=UNUSED, deviations=[live]).verdict is Verdict.FIXED
    assert judged(FAILING, evidence=UNUSED, deviations=[live]).verdict is Verdict.REPRODUCED
