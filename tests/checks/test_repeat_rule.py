"""`repeat`: one assertion, several runs, and how many of them have to satisfy it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.checks.assertions import Assertion, concerns_one_run, parse_assertion
from replaykit.checks.combinators import needed_runs
from replaykit.checks.rule import CannotTell, RepeatedRun, Runs
from replaykit.checks.verdict import judge_run
from replaykit.model.events import ToolCall
from replaykit.model.result import Deviation, Finding, Side, Verdict
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import raw

GONE = (Deviation(kind="missing", text="`pay` was not recorded"),)
GOOD, BAD, LEFT = "paid", "no", "left"
PAID = {"output.contains": "paid"}


def ran(said: str) -> RepeatedRun:
    events = (ToolCall(seq=4, name="pay", arguments_json=raw({}), result_json=raw("ok")),)
    run = TraceRun(id=said, status=RunStatus.SUCCESS, output_json=raw(said), events=events, event_count=1)
    return RepeatedRun(run, GONE if said == LEFT else ())


def runs_of(*said: str) -> Runs:
    return lambda number: ran(said[number - 1])


def repeat(times: int, at_least: int | None = None, of: Any = PAID) -> dict[str, Any]:
    least = {} if at_least is None else {"at_least": at_least}
    return {"repeat": {"times": times, **least, "of": of}}


def parsed(written: dict[str, Any]) -> Assertion:
    ((kind, value),) = written.items()
    return parse_assertion(kind, value)


def found(written: dict[str, Any], *said: str, side: Side = Side.DESIRED) -> Finding:
    first = ran(said[0])
    return parsed(written).check(first.run, side, first.deviations, runs=runs_of(*said))


def test_it_says_how_many_hold_what_failed_first_and_in_which_run() -> None:
    finding = found(repeat(4, 4), GOOD, GOOD, BAD, BAD)

    assert not finding.holds
    assert finding.text == "Holds in 2 of 4 runs; run 3: Output does not contain 'paid'"
    assert finding.expected == "output containing 'paid', in at least 4 of 4 runs"
    assert finding.actual == "2 of 4 runs; first not in run 3: output 'no'"
    assert (finding.run, finding.seq) == (3, 4)


def test_one_that_holds_points_at_the_first_run_it_holds_for_and_names_the_first_it_does_not() -> None:
    finding = found(repeat(3, 1), BAD, GOOD, GOOD)

    assert finding.holds
    assert (finding.run, finding.actual) == (2, "2 of 3 runs; first not in run 1: output 'no'")


def test_without_a_number_it_has_to_hold_every_time() -> None:
    assert found(repeat(3), GOOD, GOOD, GOOD).holds
    assert not found(repeat(3), GOOD, GOOD, BAD).holds


def test_a_failure_that_shows_in_most_runs_is_one_on_the_observed_side() -> None:
    assert found(repeat(3, 2, {"output.contains": "no"}), GOOD, BAD, BAD, side=Side.OBSERVED).holds
    assert not found(repeat(3, 2, {"output.contains": "no"}), GOOD, BAD, GOOD, side=Side.OBSERVED).holds


def test_the_side_reaches_the_assertion_inside() -> None:
    loop = repeat(2, of={"max_tool_calls": 1})

    assert found(loop, GOOD, GOOD, side=Side.OBSERVED).text.endswith("Tool 'pay' called once")


def test_a_run_that_nobody_can_repeat_is_no_pass() -> None:
    with pytest.raises(CannotTell, match="needs 3 runs of the candidate, but this run"):
        parsed(repeat(3)).check(ran(GOOD).run, Side.DESIRED)


@pytest.mark.parametrize("around", ["all", "any", "not", "threshold"])
def test_inside_other_combinators_it_needs_its_runs_as_well(around: str) -> None:
    inner = repeat(2)
    written = {"all": [inner], "any": [inner], "not": inner, "threshold": {"min": 1, "of": [inner]}}[around]

    with pytest.raises(CannotTell, match="needs 2 runs"):
        parsed({around: written}).check(ran(GOOD).run, Side.DESIRED)
    assert found({around: written}, GOOD, GOOD).holds is (around != "not")
    assert found({around: written}, GOOD, BAD).run == 2


def test_what_cannot_be_told_of_one_run_cannot_be_told_at_all() -> None:
    with pytest.raises(CannotTell, match="run 1: no check 'never_registered' is registered"):
        found(repeat(2, 1, {"custom.python": "never_registered"}), GOOD, GOOD)


def test_a_run_that_has_not_ended_says_nothing() -> None:
    running = RepeatedRun(TraceRun(id="r", status=RunStatus.RUNNING), ())

    with pytest.raises(CannotTell, match="run 1 has not ended"):
        parsed(repeat(2)).check(running.run, Side.DESIRED, runs=lambda _: running)


def test_the_deviations_of_each_run_are_its_own() -> None:
    moved = (Deviation(kind="moved", text="moved", index=0),)
    runs = {1: RepeatedRun(ran(GOOD).run, ()), 2: RepeatedRun(ran(GOOD).run, moved)}
    followed = parsed(repeat(2, 1, {"replay.no_divergence": True}))

    finding = followed.check(runs[1].run, Side.DESIRED, (), runs=runs.__getitem__)

    assert finding.actual == "1 of 2 runs; first not in run 2: moved: moved"


def test_a_run_that_left_the_tape_satisfies_nothing() -> None:
    assert found(repeat(2, 2), GOOD, LEFT).actual.endswith("run 2: left the tape: `pay` was not recorded")
    assert not found(repeat(2, 2, {"not": PAID}), BAD, LEFT).holds
    assert not found({"not": repeat(2, 2)}, GOOD, LEFT).holds


outcomes = st.lists(st.sampled_from([GOOD, BAD, LEFT]), min_size=2, max_size=6)


@given(outcomes, st.integers(1, 6))
def test_it_holds_exactly_when_enough_runs_do(said: list[str], least: int) -> None:
    least = min(least, len(said))

    assert found(repeat(len(said), least), *said).holds is (said.count(GOOD) >= least)


@given(outcomes, st.integers(1, 6))
def test_not_enough_runs_is_enough_runs_for_which_it_does_not_hold(said: list[str], least: int) -> None:
    times, least = len(said), min(least, len(said))

    one = found({"not": repeat(times, least)}, *said)
    other = found(repeat(times, times - least + 1, {"not": PAID}), *said)

    assert one.holds is other.holds


def test_it_tells_how_many_runs_it_wants() -> None:
    deep = parsed({"all": [{"any": [repeat(3), PAID]}, {"not": repeat(5)}]})

    assert needed_runs(deep) == 5
    assert needed_runs(parsed(PAID)) == 1
    assert concerns_one_run(deep)
    assert not concerns_one_run(parsed({"all": [repeat(3), {"not": repeat(2)}]}))


def judged(*said: str, desired: list[Any], observed: tuple[Any, ...] = (), semantic: tuple[str, ...] = ()) -> Verdict:
    first = ran(said[0])
    return judge_run(
        case_id="c",
        observed=[parsed(one) for one in observed],
        desired=[parsed(one) for one in desired],
        semantic=semantic,
        run=first.run,
        deviations=first.deviations or (),
        runs=runs_of(*said),
    ).verdict


@pytest.mark.parametrize("said", [(LEFT, GOOD, GOOD), (GOOD, LEFT, GOOD), (GOOD, GOOD, LEFT)])
def test_which_run_leaves_the_tape_makes_no_difference_where_all_are_counted(said: tuple[str, ...]) -> None:
    shows = repeat(3, 1, {"output.contains": "no"})

    assert judged(*said, desired=[repeat(3, 2)], observed=(shows,)) is Verdict.FIXED
    assert judged(*said, desired=[repeat(3, 3)], observed=(shows,)) is Verdict.BROKEN


def test_the_first_run_has_to_stay_on_the_tape_where_something_else_is_asked_of_it() -> None:
    said = (LEFT, GOOD, GOOD)

    assert judged(*said, desired=[repeat(3, 2), {"status_is": "success"}]) is Verdict.DIVERGED
    assert judged(*said, desired=[repeat(3, 2)], semantic=("It is polite",)) is Verdict.DIVERGED


def test_a_failure_is_reproduced_when_it_shows_often_enough() -> None:
    shows = repeat(3, 2, {"output.contains": "no"})

    assert judged(GOOD, BAD, BAD, desired=[repeat(3, 3)], observed=(shows,)) is Verdict.REPRODUCED
    assert judged(GOOD, BAD, LEFT, desired=[repeat(3, 1)], observed=(shows,)) is Verdict.FIXED
    assert judged(GOOD, BAD, GOOD, desired=[repeat(3, 3)], observed=(shows,)) is Verdict.BROKEN


def test_a_verdict_without_more_runs_is_an_error() -> None:
    result = judge_run(case_id="c", observed=[], desired=[parsed(repeat(2))], semantic=(), run=ran(GOOD).run)

    assert result.verdict is Verdict.INCONCLUSIVE
    assert "cannot be repeated" in result.reason
