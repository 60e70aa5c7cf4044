"""What the checks of a contract add up to."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.contracts.contract import Severity
from replaykit.contracts.score import ContractResult, InvariantCheck, result_of, score_of
from replaykit.errors import ExitCode, NothingSelected

SAID: st.SearchStrategy[bool | None] = st.sampled_from([True, False, None])
CHECKS = st.lists(st.tuples(st.sampled_from(Severity), st.booleans()), min_size=1, max_size=20)


def check(severity: Severity = Severity.MEDIUM, holds: bool | None = True, **fields: object) -> InvariantCheck:
    return InvariantCheck(scenario="s", invariant="i", type="completes", severity=severity, holds=holds, **fields)  # type: ignore[arg-type]


def test_a_score_weighs_critical_three_high_two_and_the_rest_one() -> None:
    all_four = [(severity, severity is not Severity.CRITICAL) for severity in Severity]

    assert score_of(all_four) == round(100 * 4 / 7, 2)
    assert score_of([(Severity.HIGH, True), (Severity.LOW, False)]) == 66.67


@given(CHECKS)
def test_a_score_is_100_only_when_all_hold_and_0_only_when_none_does(checks: list[tuple[Severity, bool]]) -> None:
    score = score_of(checks)

    assert 0 <= score <= 100
    assert (score == 100) == all(holds for _, holds in checks)
    assert (score == 0) == (not any(holds for _, holds in checks))


@given(CHECKS, st.sampled_from(Severity))
def test_one_more_that_holds_never_lowers_a_score(checks: list[tuple[Severity, bool]], severity: Severity) -> None:
    assert score_of([*checks, (severity, True)]) >= score_of(checks)


def test_nothing_checked_is_an_error_and_not_a_hundred() -> None:
    with pytest.raises(NothingSelected):
        score_of([])
    with pytest.raises(NothingSelected, match=r"no invariant of 'c' was checked: i: not now"):
        result_of("c", [check(holds=None, skipped="not now")])


def test_a_critical_failure_fails_whatever_the_score() -> None:
    many = [check() for _ in range(97)]

    result = result_of("c", [*many, check(Severity.CRITICAL, holds=False)], min_score=50)

    assert result.score == 97.0
    assert not result.passed


def test_another_failure_fails_unless_less_was_asked_for() -> None:
    checks = [check(Severity.HIGH, holds=False), check(), check()]

    assert not result_of("c", checks).passed
    assert result_of("c", checks, min_score=50).passed
    assert not result_of("c", checks, min_score=50.01).passed


def test_skipped_checks_do_not_count() -> None:
    result = result_of("c", [check(), check(holds=None, skipped="why")])

    assert (result.score, result.passed, result.failures) == (100.0, True, ())


def told(*said: tuple[Severity, bool | None], min_score: float = 100) -> ContractResult:
    """What comes of checks that hold, that do not, and of which nobody can tell."""
    checks = [check(severity, holds=holds, unjudged="who knows" * (holds is None)) for severity, holds in said]
    return result_of("c", checks, min_score=min_score)


@pytest.mark.parametrize("severity", Severity)
def test_what_nobody_can_tell_neither_passes_nor_fails(severity: Severity) -> None:
    result = told((Severity.MEDIUM, True), (severity, None), min_score=1)

    assert (result.passed, result.failures, len(result.unjudged)) == (False, (), 1)
    assert result.exit_code is ExitCode.CANNOT
    assert result.score < 100


def test_what_failed_for_sure_fails_whatever_else_is_unjudged() -> None:
    unjudged = (Severity.CRITICAL, None)

    assert told(unjudged, (Severity.CRITICAL, False), min_score=0).exit_code is ExitCode.FAILED
    assert told(unjudged, (Severity.LOW, False)).exit_code is ExitCode.FAILED
    assert told(unjudged, (Severity.LOW, False), min_score=75).exit_code is ExitCode.CANNOT, "3 of 4 may hold"
    assert told(unjudged, (Severity.LOW, False), min_score=75.1).exit_code is ExitCode.FAILED


def test_where_nobody_can_tell_anything_there_is_a_score_of_0() -> None:
    result = told((Severity.LOW, None), min_score=0)

    assert (result.score, result.exit_code) == (0, ExitCode.CANNOT)


@given(st.lists(st.tuples(st.sampled_from(Severity), SAID), min_size=1, max_size=8), st.integers(0, 100))
def test_an_unjudged_check_gives_what_both_answers_give_or_nothing(
    said: list[tuple[Severity, bool | None]], min_score: int
) -> None:
    good = [(severity, holds is not False) for severity, holds in said]
    result, best = told(*said, min_score=min_score), told(*good, min_score=min_score)

    if all(holds is not None for _, holds in said):
        assert result.exit_code in (ExitCode.PASSED, ExitCode.FAILED)
    else:
        assert result.exit_code is (ExitCode.CANNOT if best.exit_code is ExitCode.PASSED else ExitCode.FAILED)
    assert result.score <= best.score


def test_an_agent_that_could_not_be_run_is_no_failure_of_the_agent() -> None:
    unknown = check(holds=None, unjudged="the agent gave no run")
    assert result_of("c", [unknown], reason="no such file").exit_code is ExitCode.CANNOT
    assert result_of("c", [unknown, check(holds=False)], reason="no such file").exit_code is ExitCode.FAILED
    assert result_of("c", [check(holds=False)]).exit_code is ExitCode.FAILED
    assert result_of("c", [check()]).exit_code is ExitCode.PASSED


def test_a_result_survives_its_json_form() -> None:
    result = result_of("c", [check(), check(Severity.CRITICAL, holds=False, output="x")], agent="a", min_score=10)

    assert msgspec.json.decode(msgspec.json.encode(result), type=ContractResult) == result
    assert msgspec.json.decode(msgspec.json.encode(result))["replaykit"] == 1
