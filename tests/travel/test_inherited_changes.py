"""Forks of forks by re-execution: what was changed in the state is changed again; and changes that are not made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import replaykit as rk

DONE: list[int] = []
SECRET = "sk-proj-" + "a1B2c3D4" * 5


@rk.tool(effects="none")
def measure(number: int) -> int:
    DONE.append(number)
    return number * 10


def walk(_: str, state: dict[str, Any] | None = None) -> list[int]:
    with rk.record("walk") as run:
        state = state or {"n": 0, "limit": 3, "found": [], "password": SECRET}
        while state["n"] < state["limit"]:
            with run.step(f"step_{state['n'] + 1}", state=state) as step:
                found = [*state["found"], measure(state["n"])]
                state = step.done({**state, "n": state["n"] + 1, "found": found})
        assert state["password"], "the agent's own values are its own"
        return list(state["found"])


def rerun(question: str) -> list[int]:
    return walk(question)


def worker(_: str) -> dict[str, Any]:
    """Works on one object, and does not look at what it is given back."""
    state: dict[str, Any] = {"n": 0, "limit": 3, "inner": {"found": []}}
    found = state["inner"]["found"]
    with rk.record("worker") as run:
        while state["n"] < state["limit"]:
            with run.step(f"step_{state['n'] + 1}", state=state) as step:
                found.append(measure(state["n"]))
                state["n"] += 1
                step.done(state)
    return state


def recorded(store: rk.Store, agent: Any) -> str:
    with rk.record("parent", input="q", store=store) as run:
        run.output = agent("q")
    DONE.clear()
    return str(run.id)


@pytest.mark.parametrize("first", [rerun, walk])
def test_a_fork_of_a_fork_keeps_the_change_of_state_that_was_made_before(store: rk.Store, first: Any) -> None:
    parent = recorded(store, rerun)
    child, _ = rk.fork(parent, "step_1", {"limit": 5}, agent=first, store=store)
    DONE.clear()

    _, again = rk.fork(child, "step_4", rk.Edits(result=7), agent=first, store=store)

    assert again.way == "re-execution"
    assert again.output == [0, 10, 20, 7, 40]
    assert again.deviations == ()
    assert DONE == []


def test_a_changed_fork_is_resumed_as_it_was(store: rk.Store) -> None:
    parent = recorded(store, rerun)
    child, journey = rk.fork(parent, "step_2", {"found": [1]}, agent=rerun, store=store)
    assert journey.output == [1, 20]

    for step in ("step_2", "step_3"):
        assert rk.resume(child, step, agent=rerun, store=store).output == [1, 20]
    assert rk.resume(child, "step_1", agent=rerun, store=store).output == [0, 10, 20]  # the change is still to come


def test_changes_at_one_step_add_up_over_forks(store: rk.Store) -> None:
    run = recorded(store, rerun)
    for changes in ({"limit": 4}, {"found": [1]}, {"limit": 2}):
        run, journey = rk.fork(run, "step_1", changes, agent=rerun, store=store)

    assert journey.output == [1, 10]
    assert journey.deviations == ()


def test_a_change_after_the_place_where_a_later_fork_began_is_not_made(store: rk.Store) -> None:
    parent = recorded(store, rerun)
    late, _ = rk.fork(parent, "step_3", {"found": [9]}, agent=rerun, store=store)
    early, journey = rk.fork(late, "step_1", {"limit": 3}, agent=rerun, store=store)
    assert journey.output == [0, 10, 20]

    again = rk.resume(early, "step_3", agent=rerun, store=store)
    assert (again.output, again.deviations) == ([0, 10, 20], ())


def test_a_change_of_state_that_does_not_come_about_again_is_said(store: rk.Store) -> None:
    parent = recorded(store, rerun)
    both = rk.Edits(state={"limit": 2}, result=5)
    child, journey = rk.fork(parent, "step_1", both, agent=rerun, store=store)
    assert journey.output == [5, 10]

    again = rk.resume(child, "step_2", agent=rerun, store=store)

    assert again.deviations[-1].kind == "unmade"
    assert "after step_1 was not reached again" in again.deviations[-1].text


def test_a_change_of_a_state_that_was_not_kept_is_not_lost_silently(store: rk.Store) -> None:
    with rk.record("parent", input="q", store=store, checkpoint_every=9) as run:
        run.output = rerun("q")
    child, journey = rk.fork(run.id, "step_1", {"limit": 2}, agent=rerun, store=store)
    assert journey.output == [0, 10]

    again = rk.resume(child, "step_2", agent=rerun, store=store)

    assert again.deviations[-1].kind == "unmade"


def test_an_agent_that_works_on_one_object_goes_on_with_the_change(store: rk.Store) -> None:
    parent = recorded(store, worker)

    child, journey = rk.fork(parent, "step_1", {"limit": 2}, agent=worker, store=store)

    assert journey.output == {"n": 2, "limit": 2, "inner": {"found": [0, 10]}}
    assert store.state_at(child) == journey.output


@dataclass
class Tally:
    total: int = 0


def tallying(_: str) -> str:
    tally = Tally()
    with rk.record("tallying") as run, run.step("count", state=tally) as step:
        tally.total += measure(1)
        try:
            step.done(tally)
        except Exception:  # an agent that takes every error for one of its tools
            return "went on"
    return "done"


def test_a_change_that_does_not_fit_is_said_also_when_the_agent_handles_the_error(store: rk.Store) -> None:
    parent = recorded(store, tallying)

    _, journey = rk.fork(parent, "count", {"total": 5}, agent=tallying, store=store)

    assert journey.output == "went on"
    assert [deviation.kind for deviation in journey.deviations] == ["unmade"]
    assert "does not fit" in journey.deviations[0].text


@pytest.mark.parametrize("dry_run", [False, True])
def test_an_agent_that_ends_before_the_step_did_not_resume(store: rk.Store, dry_run: bool) -> None:
    parent = recorded(store, rerun)

    journey = rk.resume(parent, "step_2", agent=lambda _: "nothing to do", store=store, dry_run=dry_run)

    assert journey.output == "nothing to do"
    assert [deviation.kind for deviation in journey.deviations] == ["unreached"]
    assert "before it reached step_2: 2 recorded calls" in journey.deviations[0].text
