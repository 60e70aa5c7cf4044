"""Which runs go, and why: the policy on summaries, with a clock of its own."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from replaykit.model.run import Origin, RunStatus
from replaykit.retention.plan import PrunePlan, plan_pruning
from replaykit.retention.policy import DAY_S, FOREVER, RetentionLimits, RetentionPolicy, RetentionRule
from replaykit.store.summaries import Contents, RunSize, RunSummary

NOW = 1_800_000_000.0
OK, BAD, OPEN = RunStatus.SUCCESS, RunStatus.ERROR, RunStatus.RUNNING


def summary(run_id: str, days: float = 0, status: RunStatus = OK, **more: Any) -> RunSummary:
    """A run that ended so many days ago."""
    end = NOW - days * DAY_S
    return RunSummary(id=run_id, status=status, started_at=end - 1, ended_at=None if status is OPEN else end, **more)


def planned(policy: RetentionPolicy, *runs: RunSummary, size: int = 100, **more: Any) -> PrunePlan:
    numbered = [
        RunSummary(**{name: getattr(run, name) for name in run.__struct_fields__} | {"number": number})
        for number, run in enumerate(runs, 1)
    ]
    found = Contents(
        runs=numbered,
        sizes={run.number: RunSize(stored=size) for run in numbered},
        blobs=more.pop("blobs", {}),
        uses=more.pop("uses", []),
        newest=len(numbered),
    )
    return plan_pruning(policy, found, now=NOW, **more)


def went(result: PrunePlan) -> set[str]:
    return {run.run for run in result.going}


def fork_of(parent: str) -> Origin:
    return Origin(kind="forked", run=parent, step="s")


def test_failed_runs_stay_longer_than_successful_ones() -> None:
    runs = [summary(f"{status.value}-{days}", days, status) for days in (13, 15, 89, 91) for status in (OK, BAD)]

    result = planned(RetentionPolicy(), *runs)

    assert went(result) == {"success-15", "success-89", "success-91", "error-91"}
    assert {run.why for run in result.going} == {
        "successful and older than 14 days",
        "failed and older than 90 days",
    }
    assert (result.remaining, result.size_bytes) == (4, 400)


def test_all_ends_but_success_are_failures() -> None:
    runs = [summary(status.value, 30, status) for status in (OK, BAD, RunStatus.TIMEOUT, RunStatus.CANCELLED)]
    assert went(planned(RetentionPolicy(), *runs)) == {"success"}


def test_a_run_that_is_being_recorded_stays_and_an_abandoned_one_counts_as_failed() -> None:
    runs = [summary("alive", 400, OPEN, alive=True), summary("dead", 400, OPEN), summary("young", 80, OPEN)]

    result = planned(RetentionPolicy(), *runs)

    assert went(result) == {"dead"}
    assert result.going[0].why == "abandoned and older than 90 days"
    assert result.stays == {"being recorded": 1}


def test_what_is_tagged_named_by_a_case_or_forked_stays() -> None:
    runs = [
        summary("tagged", 400, tags=("keep",)),
        summary("named", 400),
        summary("parent", 400),
        summary("fork", 1, origin=fork_of("parent")),
        summary("plain", 400),
    ]

    result = planned(RetentionPolicy(), *runs, named={"named"})

    assert went(result) == {"plain"}
    assert result.stays == {"tagged 'keep'": 1, "named by a case": 1, "the parent of a fork that stays": 1}


def test_a_whole_family_goes_when_all_of_it_is_old() -> None:
    runs = [
        summary("a", 400),
        summary("b", 300, origin=fork_of("a")),
        summary("c", 200, origin=fork_of("b")),
        summary("d", 1, origin=fork_of("gone")),
    ]
    assert went(planned(RetentionPolicy(), *runs)) == {"a", "b", "c"}


def test_a_chain_of_parents_stays_for_its_last_fork() -> None:
    runs = [summary("a", 400), summary("b", 300, origin=fork_of("a")), summary("c", 1, origin=fork_of("b"))]
    assert went(planned(RetentionPolicy(), *runs)) == set()


def test_tags_come_before_agents_and_agents_before_all() -> None:
    policy = RetentionPolicy(
        tags={"short": RetentionRule(successful_s=DAY_S, failed_s=DAY_S), "long": RetentionRule(successful_s=FOREVER)},
        agents={"billing": RetentionRule(successful_s=100 * DAY_S)},
    )
    runs = [
        summary("short", 2, tags=("short",), agent="billing"),
        summary("both", 500, tags=("short", "long")),
        summary("agent", 50, agent="billing"),
        summary("by-name", 50, name="billing@step_1"),
        summary("failed-agent", 95, BAD, agent="billing"),
        summary("other", 50, agent="chat"),
    ]
    assert went(planned(policy, *runs)) == {"short", "failed-agent", "other"}


def test_of_too_many_the_oldest_successful_ones_go_first() -> None:
    runs = [summary("old-bad", 9, BAD), summary("old", 8), summary("new-bad", 2, BAD), summary("new", 1)]

    assert went(planned(RetentionPolicy(limits=RetentionLimits(max_runs=3)), *runs)) == {"old"}
    assert went(planned(RetentionPolicy(limits=RetentionLimits(max_runs=1)), *runs)) == {"old", "new", "old-bad"}
    assert went(planned(RetentionPolicy(limits=RetentionLimits(max_bytes=250)), *runs)) == {"old", "new"}


def test_limits_of_an_agent_count_its_own_runs() -> None:
    policy = RetentionPolicy(agents={"chat": RetentionRule(limits=RetentionLimits(max_runs=1))})
    runs = [summary("a", 3, agent="chat"), summary("b", 2, agent="chat"), summary("c", 9, agent="other")]

    result = planned(policy, *runs)

    assert went(result) == {"a"}
    assert result.going[0].why == "more than 1 run of agent 'chat'"


def test_a_limit_that_cannot_be_kept_says_so() -> None:
    result = planned(RetentionPolicy(limits=RetentionLimits(max_runs=0)), summary("a", tags=("keep",)), summary("b"))

    assert went(result) == {"b"}
    assert result.notes == ("there are more than 0 runs, and all that are left stay for another reason",)


def test_a_parent_goes_by_a_limit_only_after_its_forks() -> None:
    runs = [summary("parent", 3), summary("fork", 2, origin=fork_of("parent")), summary("other", 1)]

    assert went(planned(RetentionPolicy(limits=RetentionLimits(max_runs=2)), *runs)) == {"fork"}
    assert went(planned(RetentionPolicy(limits=RetentionLimits(max_runs=1)), *runs)) == {"fork", "other"}
    assert went(planned(RetentionPolicy(limits=RetentionLimits(max_runs=0)), *runs)) == {"parent", "fork", "other"}


def test_parts_of_a_program_go_and_stay_with_it() -> None:
    part = Origin(kind="part", run="program")
    alive = [summary("program", 400, OPEN), summary("part/program/main", 400, OPEN, origin=part, alive=True)]
    dead = [summary("program", 400, OPEN), summary("part/program/main", 399, OK, origin=part)]
    stray = [summary("part/program/main", 400, OPEN, origin=part)]

    assert went(planned(RetentionPolicy(), *alive)) == set()
    result = planned(RetentionPolicy(), *dead)
    assert went(result) == {"program"}
    assert {run.id for run in result.runs} == {"program", "part/program/main"}
    assert went(planned(RetentionPolicy(), *stray)) == {"part/program/main"}


def test_threads_stay_unless_the_policy_speaks_of_them() -> None:
    thread = Origin(format="langgraph")
    inner = Origin(kind="subgraph", format="langgraph", run="thread")
    runs = [summary("thread", 400, OPEN, origin=thread), summary("thread/inner", 400, OPEN, origin=inner)]
    month = RetentionPolicy(threads_s=30 * DAY_S)

    assert (
        went(planned(RetentionPolicy(successful_s=0, failed_s=0, limits=RetentionLimits(max_runs=0)), *runs)) == set()
    )
    assert went(planned(month, *runs, last_at=lambda run: NOW - 40 * DAY_S)) == {"thread"}
    last = {"thread": NOW - 40 * DAY_S, "thread/inner": NOW - DAY_S}
    assert went(planned(month, *runs, last_at=lambda run: last[run.id])) == set()


def test_an_imported_run_has_no_age_here() -> None:
    runs = [summary("imported", 4000, origin=Origin(kind="imported", format="langsmith"))]
    assert went(planned(RetentionPolicy(), *runs)) == set()
    assert went(planned(RetentionPolicy(limits=RetentionLimits(max_runs=0)), *runs)) == {"imported"}


def test_blobs_count_when_the_last_run_that_holds_them_goes() -> None:
    runs = [summary("a", 400), summary("b", 400), summary("c", 1)]
    blobs = {1: (1000, 9000), 2: (2000, 9000), 3: (4000, 9000)}
    uses = [(1, 1), (1, 2), (2, 2), (2, 3), (3, 3)]

    result = planned(RetentionPolicy(), *runs, blobs=blobs, uses=uses)

    assert {run.run: run.size_bytes for run in result.going} == {"a": 1100, "b": 100}
    assert result.size_bytes == 100 + 100 + 1000 + 2000


STATUS = st.sampled_from(list(RunStatus))


@given(
    st.lists(st.tuples(st.floats(0, 400), STATUS, st.booleans(), st.integers(-1, 8)), max_size=9),
    st.integers(0, 9) | st.none(),
)
def test_whatever_is_protected_stays_and_no_fork_loses_its_parent(
    told: list[tuple[float, RunStatus, bool, int]], most: int | None
) -> None:
    runs = [
        summary(
            f"r{index}",
            days,
            status,
            tags=("keep",) if kept else (),
            origin=fork_of(f"r{parent}") if 0 <= parent < index else Origin(),
            alive=status is OPEN and index % 2 == 0,
        )
        for index, (days, status, kept, parent) in enumerate(told)
    ]
    result = planned(RetentionPolicy(limits=RetentionLimits(max_runs=most)), *runs)
    gone = went(result)

    for run in runs:
        if run.alive or run.tags:
            assert run.id not in gone
        if run.id not in gone:
            assert run.origin.run not in gone
    assert result.remaining == len(runs) - len(gone)
    for run in runs:  # a failed run of an age stays where a successful one of that age does
        if run.id in gone and most is None:
            assert (NOW - run.started_at) / DAY_S > (14 if run.status is OK else 90) - 0.1
