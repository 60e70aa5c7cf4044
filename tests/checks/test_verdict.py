"""What a candidate's run adds up to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.checks.assertions import parse_assertion
from replaykit.checks.verdict import LEFT_THE_TAPE, failed_to_run, judge_run
from replaykit.model.events import ErrorInfo
from replaykit.model.result import Deviation, ReplayResult, Verdict
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import raw

OBSERVED = [parse_assertion("status_is", "error"), parse_assertion("final_output_exists", False)]
DESIRED = [parse_assertion("status_is", "success"), parse_assertion("final_output_exists", True)]
FAILING = TraceRun(id="bad", status=RunStatus.ERROR, error=ErrorInfo(type="Error", message="limit"))
FIXED = TraceRun(id="good", status=RunStatus.SUCCESS, output_json=raw("Here is the answer."))
SILENT = TraceRun(id="silent", status=RunStatus.SUCCESS)


def judged(run, *, observed=OBSERVED, desired=DESIRED, deviations=()) -> ReplayResult:
    return judge_run(
        case_id="c", observed=observed, desired=desired, semantic=["Is it right?"], run=run, deviations=deviations
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


def test_it_has_changed_when_it_is_gone_but_a_desired_assertion_fails():
    result = judged(SILENT)

    assert result.verdict is Verdict.CHANGED
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

    assert result.verdict is Verdict.CHANGED
    assert result.reproduced is False
    assert "refund(order=7) was never recorded" in result.reason
    assert result.deviations == (left,)


@pytest.mark.parametrize("kind", ["moved", "unused", "repeated", "live", "fault", "arguments"])
def test_other_deviations_do_not_decide(kind):
    assert judged(FIXED, deviations=[Deviation(kind=kind, text="x")]).verdict is Verdict.FIXED


def test_without_signatures_nothing_is_said_about_reproduction():
    assert judged(FIXED, observed=[]).reproduced is None
    assert judged(FIXED, observed=[]).verdict is Verdict.FIXED
    assert judged(SILENT, observed=[]).verdict is Verdict.CHANGED


def test_a_case_without_assertions_never_passes():
    result = judged(FIXED, observed=[], desired=[])

    assert result.verdict is Verdict.ERROR
    assert "no assertions" in result.reason


def test_without_desired_assertions_only_a_run_that_succeeds_is_fixed():
    other = TraceRun(id="crash", status=RunStatus.CANCELLED)

    assert judged(FIXED, desired=[]).verdict is Verdict.FIXED
    assert judged(other, desired=[], observed=OBSERVED[:1]).verdict is Verdict.CHANGED


@pytest.mark.parametrize("run", [None, TraceRun(id="r", status=RunStatus.RUNNING)])
def test_a_run_that_did_not_end_says_nothing(run):
    result = judged(run)

    assert result.verdict is Verdict.ERROR
    assert result.reproduced is None
    assert result.reason


def test_a_candidate_that_could_not_run_is_an_error_with_its_reason():
    result = failed_to_run("c", "the runner ended with exit code 1", "python agent.py")

    assert result.verdict is Verdict.ERROR
    assert result.reason == "the runner ended with exit code 1"
    assert result.candidate == "python agent.py"


@given(
    st.lists(st.sampled_from(OBSERVED), max_size=2),
    st.lists(st.sampled_from(DESIRED), max_size=2),
    st.sampled_from([FAILING, FIXED, SILENT, None]),
    st.lists(st.sampled_from(["missing", "blocked", "moved", "unused"]), max_size=2),
)
def test_a_pass_means_a_successful_look_at_something(observed, desired, run, kinds):
    result = judged(
        run, observed=observed, desired=desired, deviations=[Deviation(kind=kind, text=kind) for kind in kinds]
    )

    if result.passed:
        assert result.observed or result.desired
        assert all(finding.holds for finding in result.desired)
        assert not LEFT_THE_TAPE.intersection(kinds)
        assert result.reproduced is not True
    else:
        assert result.verdict is Verdict.REPRODUCED or result.reason
