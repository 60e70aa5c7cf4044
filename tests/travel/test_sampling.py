"""Sampled states: what is kept, what is said of the rest, and how one gets there all the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.matrix import sampled

import replaykit as rk
from replaykit.cli import run as cli
from replaykit.errors import StateNotKept, UsageError
from replaykit.model.events import State
from replaykit.model.run import RunStatus
from replaykit.model.sampling import Sampling
from replaykit.travel.run_steps import run_steps

DONE: list[int] = []


@rk.tool
def look(n: int) -> int:
    DONE.append(n)
    return n * n


def walk(run: Any, state: dict[str, Any]) -> dict[str, Any]:
    while state["n"] < state["end"]:
        with run.step(state=state) as step:
            state = step.done({**state, "n": state["n"] + 1, "log": [*state["log"], look(state["n"])]})
    return state


def begun() -> dict[str, Any]:
    return {"n": 0, "log": [], "end": 10}


def walker(_: str) -> dict[str, Any]:
    with rk.record("walk") as run:
        return walk(run, begun())


def stateful(_: str, state: dict[str, Any] | None = None) -> dict[str, Any]:
    with rk.record("walk") as run:
        return walk(run, state or begun())


AGENTS = pytest.mark.parametrize("agent", [walker, stateful])


def recorded(store: rk.Store, agent: Callable[..., Any] = walker, **rules: Any) -> str:
    with rk.record("walk", input="q", store=store, **rules) as run:
        run.output = agent("q")
    DONE.clear()
    return str(run.id)


def kept(store: rk.Store, run_id: str) -> list[tuple[str | None, bool]]:
    return [(event.step, event.is_kept) for event in store.load(run_id).events if isinstance(event, State)]


# What is written


def test_every_nth_state_is_kept_and_the_last_one_when_the_run_ends(store: rk.Store) -> None:
    run_id = recorded(store, checkpoint_every=4)

    assert [step for step, is_kept in kept(store, run_id) if is_kept] == [None, "step_4", "step_8", "step_10"]
    assert [step for step, is_kept in kept(store, run_id) if not is_kept] == [
        f"step_{n}" for n in (1, 2, 3, 5, 6, 7, 9, 10)
    ]
    assert store.state_at(run_id)["n"] == 10
    assert store.header(run_id).sampling == Sampling(every=4)
    assert list(store.verify()) == []


def test_the_last_state_of_a_run_that_fails_is_kept(store: rk.Store) -> None:
    with pytest.raises(RuntimeError), rk.record("r", store=store, checkpoint_every=100) as run:
        for n in range(5):
            with run.step() as step:
                step.done({"n": n})
        raise RuntimeError

    assert store.state_at(run.id) == {"n": 4}
    assert kept(store, run.id)[-1] == ("step_5", True)


def test_a_state_is_kept_as_it_was_when_it_was_handed_over(store: rk.Store) -> None:
    state = {"n": 1, "log": ["a"]}
    with rk.record("r", store=store, checkpoint_every=10) as run:
        run.checkpoint({})
        run.checkpoint(state)
        state["log"] = "changed later"

    assert store.state_at(run.id) == {"n": 1, "log": ["a"]}


def test_only_changed_states_are_written_and_the_others_leave_no_trace(store: rk.Store) -> None:
    for rules in ({}, {"checkpoint_on_change": True}):
        with rk.record("r", store=store, **rules) as run:
            for n in (1, 1, 2, 2, 2, 1, [3], [3]):
                look(0)
                run.checkpoint({"n": n} if isinstance(n, int) else n)

    states = [event for event in store.load(run.id).events if isinstance(event, State)]
    assert len(states) == 4
    assert [rk.state_at(run.id, f"step_{n}", store=store) for n in (2, 5, 8)] == [{"n": 1}, {"n": 2}, [3]]


def test_a_step_begins_with_the_state_before_also_when_that_was_not_kept(store: rk.Store) -> None:
    assert len(kept(store, recorded(store, checkpoint_every=3))) == len(kept(store, recorded(store))) + 1


@pytest.mark.parametrize("rules", [{"checkpoint_every": 0}, {"checkpoint_every": 1.5}, {"checkpoint_on_change": 1}])
def test_rules_that_are_none_are_refused_before_anything_is_recorded(store: rk.Store, rules: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(rules))):
        rk.record("r", store=store, **rules)
    with pytest.raises(UsageError, match="every"):
        rk.CheckpointStore(store, every=0)

    assert store.headers() == []


def test_a_decorated_agent_is_sampled_in_each_of_its_runs(store: rk.Store) -> None:
    @rk.record("sampled", store=store, checkpoint_every=5)
    def agent(question: str) -> int:
        return int(walker(question)["n"])

    for _ in range(2):
        assert agent("q") == 10

    assert [len([k for _, k in kept(store, header.id) if k]) for header in store.headers()] == [3, 3]


# What the views say


def test_every_view_tells_a_state_that_was_not_kept_from_one_that_was(store: rk.Store) -> None:
    run_id = recorded(store, checkpoint_every=4)
    checkpoints = rk.CheckpointStore(store)

    assert checkpoints.load_checkpoint(run_id, "step_4").state["n"] == 4
    with pytest.raises(
        StateNotKept, match=r"after step_6 was not stored\. The nearest stored ones: step_4, step_8"
    ) as caught:
        checkpoints.load_checkpoint(run_id, "step_6")
    assert "--step step_6 --state --agent module:function" in str(caught.value)
    assert isinstance(caught.value, UsageError)
    listed = {info.step_id: (info.has_state, info.is_kept) for info in checkpoints.list_checkpoints(run_id)}
    assert (listed["step_4"], listed["step_5"]) == ((True, True), (False, False))
    events = {event.step_id: event for event in rk.step_events(store.load(run_id))}
    assert (events["step_1"].input_state, events["step_1"].input_kept) == (begun(), True)
    assert (events["step_4"].output_kept, events["step_5"].input_kept) == (True, True)
    assert (events["step_5"].output_state, events["step_5"].output_kept) == (None, False)
    assert events["step_6"].input_kept is False
    last = next(event.seq for event in store.load(run_id).events if event.step == "step_6" and isinstance(event, State))
    with pytest.raises(StateNotKept, match=f"event {last}"):
        store.state_at(run_id, last)


def test_a_step_without_a_state_of_its_own_after_one_that_was_not_kept_is_not_known_either(store: rk.Store) -> None:
    with rk.record("r", store=store, checkpoint_every=10) as run:
        run.checkpoint({"n": 0})
        look(1)
        run.checkpoint({"n": 1})
        look(2)
        look(3)
        run.checkpoint({"n": 3})

    assert [standing.unknown for standing in run_steps(store.load(run.id))] == [True, True, False]


def test_the_part_that_a_fork_shares_is_as_unknown_as_it_is_in_the_parent(store: rk.Store) -> None:
    parent = recorded(store, stateful, checkpoint_every=4)
    fork = rk.resume(parent, "step_8", agent=stateful, store=store).run_id

    with pytest.raises(StateNotKept):
        rk.CheckpointStore(store).load_checkpoint(fork, "step_6")
    assert [rk.state_at(fork, f"step_{n}", agent=stateful, store=store)["n"] for n in (4, 6, 9)] == [4, 6, 9]


# Getting there again


@AGENTS
@pytest.mark.parametrize("every", [2, 3, 100])
def test_every_state_is_reached_again_and_nothing_happens_for_real(
    store: rk.Store, agent: Callable[..., Any], every: int
) -> None:
    whole, sampled = recorded(store, agent), recorded(store, agent, checkpoint_every=every)

    for n in range(1, 11):
        step = f"step_{n}"
        assert rk.state_at(sampled, step, agent=agent, store=store) == rk.state_at(whole, step, store=store)
    assert DONE == []
    assert len(store.headers()) == 2


@AGENTS
def test_a_run_goes_on_from_a_state_that_was_not_kept(store: rk.Store, agent: Callable[..., Any]) -> None:
    parent = recorded(store, agent, checkpoint_every=4)

    resumed = rk.resume(parent, "step_6", agent=agent, store=store)
    fork_id, forked = rk.fork(parent, "step_6", {"end": 8}, agent=agent, store=store)

    since = "step_4" if agent is stateful else None
    assert (resumed.way, resumed.since, resumed.output) == ("re-execution", since, store.header(parent).output)
    assert (forked.since, forked.output["n"], forked.deviations) == (since, 8, ())
    assert DONE == []
    comparison = rk.compare(parent, fork_id, store=store)
    assert comparison.first is not None
    assert comparison.first.b_step == "step_8", "the first kept state after the step"
    assert comparison.unknown_states == 6
    same = rk.compare(parent, resumed.run_id, store=store)
    assert (same.identical, same.unknown_states) == (True, 7)
    assert store.header(fork_id).sampling == Sampling()


def test_steps_without_a_name_go_on_counting_in_a_run_that_begins_with_a_state(store: rk.Store) -> None:
    parent = recorded(store, stateful)

    fork = store.load(rk.resume(parent, "step_6", agent=stateful, store=store).run_id)

    assert list(dict.fromkeys(event.step for event in fork.events if event.step)) == [f"step_{n}" for n in range(1, 11)]


def test_jobs_go_on_counting_in_a_run_that_begins_with_a_state(store: rk.Store) -> None:
    @rk.tool
    async def fetch(n: int) -> int:
        DONE.append(n)
        return n

    async def sometimes(n: int) -> None:
        if n:
            await fetch(n)

    async def agent(_: str, state: dict[str, Any] | None = None) -> dict[str, Any]:
        with rk.record("parallel") as run:
            state = state or {"n": 0, "seen": []}
            while state["n"] < 6:
                with run.step() as step:
                    await asyncio.gather(sometimes(0), sometimes(1))
                    seen = await asyncio.gather(*[fetch(n) for n in range(2)])
                    state = step.done({"n": state["n"] + 1, "seen": [*state["seen"], *seen]})
            return state

    for rules in ({}, {"checkpoint_every": 3}):
        with rk.record("parallel", input="q", store=store, **rules) as run:
            run.output = asyncio.run(agent("q"))
        DONE.clear()
        for step in ("step_1", "step_2", "step_4", "step_6"):
            journey = rk.resume(run.id, step, agent=agent, store=store)
            assert (journey.status, journey.output, journey.deviations) == (RunStatus.SUCCESS, run.output, ())
        assert DONE == []


def test_calls_go_on_counting_in_a_run_that_begins_with_a_state(store: rk.Store) -> None:
    @rk.tool(effects="none")
    def outer(n: int, mode: str) -> int:
        return look(n)

    def agent(_: str, state: dict[str, Any] | None = None) -> dict[str, Any]:
        with rk.record("nested") as run:
            state = state or {"n": 0, "mode": "slow"}
            while state["n"] < 4:
                with run.step() as step:
                    outer(state["n"], state["mode"])
                    state = step.done({**state, "n": state["n"] + 1})
            return state

    run_id = recorded(store, agent)

    _, journey = rk.fork(run_id, "step_2", {"mode": "fast"}, agent=agent, store=store)

    assert (journey.status, journey.output["n"]) == (RunStatus.SUCCESS, 4)
    assert {deviation.name for deviation in journey.deviations} == {"outer"}, "it is harmless, and was done again"
    assert DONE == [], "what it calls has the paths it had, and is served"


def test_of_several_states_in_a_step_the_last_is_reached_and_the_last_is_changed(store: rk.Store) -> None:
    def agent(_: str) -> dict[str, Any]:
        with rk.record("several") as run:
            state: dict[str, Any] = {"n": 0}
            for _ in range(3):
                with run.step() as step:
                    state = run.checkpoint({**state, "n": state["n"]})  # nothing changes: may leave no trace
                    state = run.checkpoint({**state, "half": look(state["n"])})
                    state = step.done({**state, "n": state["n"] + 1})
            return state

    for rules in (
        {},
        {"checkpoint_every": 4},
        *({"checkpoint_every": n, "checkpoint_on_change": True} for n in (3, 5)),
    ):
        run_id = recorded(store, agent, **rules)
        for n in (1, 2, 3):
            reached = rk.state_at(run_id, f"step_{n}", agent=agent, store=store)
            assert reached == {"n": n, "half": (n - 1) ** 2}
        fork_id, journey = rk.fork(run_id, "step_2", {"half": "seen"}, agent=agent, store=store)
        assert journey.deviations == ()
        states = [rk.state_at(fork_id, f"step_{n}", store=store) for n in (1, 2)]
        assert states == [{"n": 1, "half": 0}, {"n": 2, "half": "seen"}]


def test_a_change_at_a_step_that_left_no_state_because_nothing_changed_is_made(store: rk.Store) -> None:
    def agent(_: str) -> list[Any]:
        with rk.record("still") as run:
            state, seen = {"mode": "slow"}, []
            for n in range(4):
                with run.step() as step:
                    look(n)
                    state = step.done(dict(state))
                    seen.append(state["mode"])
            return seen

    run_id = recorded(store, agent, checkpoint_on_change=True)
    assert len(kept(store, run_id)) == 1

    fork_id, journey = rk.fork(run_id, "step_2", {"mode": "fast"}, agent=agent, store=store)

    assert (journey.output, journey.deviations) == (["slow", "fast", "fast", "fast"], ())
    first = rk.compare(run_id, fork_id, store=store).first
    assert first is not None
    assert (first.kind.value, first.a_step, first.b_step, first.text) == ("state", "step_2", "step_2", "state ($.mode)")


def test_an_agent_that_does_not_get_there_again_is_told(store: rk.Store) -> None:
    run_id = recorded(store, checkpoint_every=100)

    def left_early(_: str) -> None:
        look(0)

    def broken(_: str) -> None:
        raise ValueError("not today")

    def stubborn(_: str) -> dict[str, Any]:
        try:
            return walker("q")
        except BaseException:
            return {}

    def another(_: str) -> int:
        return look(77)

    for agent, words in ((left_early, "it ended before"), (broken, "ValueError: not today"), (another, "n=77")):
        with pytest.raises(rk.Divergence, match=words):
            rk.state_at(run_id, "step_6", agent=agent, store=store)
    assert rk.state_at(run_id, "step_6", agent=stubborn, store=store)["n"] == 6
    with pytest.raises(UsageError, match="which agent"):
        rk.state_at(run_id, "step_6", store=store)
    with pytest.raises(UsageError, match="no step 'step_99'"):
        rk.state_at(run_id, "step_99", store=store)
    assert DONE == []


def test_a_change_that_does_not_fit_a_state_that_was_not_kept_is_said_when_the_step_is_reached(store: rk.Store) -> None:
    run_id = recorded(store, checkpoint_every=4)

    _, journey = rk.fork(run_id, "step_6", {"no.such": 1}, agent=walker, store=store)

    assert journey.status is RunStatus.ERROR
    assert "does not fit the state" in str(journey.error)


@sampled("every", [2, 3, 4, 7], count=2)
def test_the_last_state_that_was_kept_after_all_can_be_changed_by_re_execution(store: rk.Store, every: int) -> None:
    run_id = recorded(store, checkpoint_every=every)

    _, journey = rk.fork(run_id, "step_10", {"end": 11}, agent=walker, store=store, live=["look"])

    assert journey.output["n"] == 11
    assert [deviation.kind for deviation in journey.deviations] == ["live"]


def test_a_change_that_the_agent_gives_no_occasion_for_is_told(store: rk.Store) -> None:
    def forgetful(_: str) -> int:
        with rk.record("walk") as run:
            state = begun()
            for n in range(3):
                with run.step(state=state):
                    state = {**state, "n": look(n)}
            return int(state["n"])

    run_id = recorded(store, forgetful)

    fork_id, journey = rk.fork(run_id, "step_1", {"end": 2}, agent=forgetful, store=store)

    assert [deviation.kind for deviation in journey.deviations] == ["unmade"]
    assert "passed none at step_1" in journey.deviations[0].text
    assert rk.compare(run_id, fork_id, store=store).identical


def plain(_: str, state: dict[str, Any] | None = None) -> dict[str, Any]:
    """Marks no steps: each of its calls is one, and every second has a state."""
    with rk.record("plain") as run:
        state = state or begun()
        while state["n"] < state["end"]:
            seen = [look(state["n"]), look(-1)]
            state = run.checkpoint({**state, "n": state["n"] + 1, "log": [*state["log"], *seen]})
        return state


def plain_from_the_start(question: str) -> dict[str, Any]:
    return plain(question)


@pytest.mark.parametrize("agent", [plain, plain_from_the_start])
def test_a_state_between_two_calls_that_are_steps_is_reached_again(store: rk.Store, agent: Callable[..., Any]) -> None:
    whole, sampled = recorded(store, agent), recorded(store, agent, checkpoint_every=4)

    for n in range(2, 21):
        step = f"step_{n}"
        assert rk.state_at(sampled, step, agent=agent, store=store) == rk.state_at(whole, step, store=store)
    assert DONE == []


@pytest.mark.parametrize("agent", [plain, plain_from_the_start])
@pytest.mark.parametrize("rules", [{}, {"checkpoint_every": 4}])
def test_a_change_at_a_call_without_a_state_of_its_own_is_made_to_the_next_one(
    store: rk.Store, agent: Callable[..., Any], rules: dict[str, Any]
) -> None:
    run_id = recorded(store, agent, **rules)

    fork_id, journey = rk.fork(run_id, "step_13", {"end": 8}, agent=agent, store=store)

    assert (journey.output["n"], journey.deviations) == (8, ())
    ends = [rk.state_at(fork_id, f"step_{n}", agent=agent, store=store)["end"] for n in (10, 12, 13, 14, 16)]
    assert ends == [10, 10, 10, 8, 8]
    assert DONE == []


def test_what_an_agent_said_after_its_state_in_the_same_step_is_shared_and_not_lost(store: rk.Store) -> None:
    def agent(_: str, state: dict[str, Any] | None = None) -> dict[str, Any]:
        with rk.record("talking") as run:
            state = state or begun()
            while state["n"] < state["end"]:
                with run.step() as step:
                    state = step.done({**state, "n": state["n"] + 1, "log": [*state["log"], look(state["n"])]})
                    run.message("assistant", f"at {state['n']}")
            return state

    for rules in ({}, {"checkpoint_every": 4}):
        run_id = recorded(store, agent, **rules)
        for step in ("step_5", "step_7", "step_10"):
            journey = rk.resume(run_id, step, agent=agent, store=store)
            assert rk.compare(run_id, journey.run_id, store=store).identical


def test_a_patch_is_applied_once(store: rk.Store) -> None:
    def agent(_: str, state: dict[str, Any] | None = None) -> dict[str, Any]:
        with rk.record("plain") as run:
            state = state or begun()
            while state["n"] < 5:
                state = run.checkpoint({**state, "n": state["n"] + 1, "log": [*state["log"], look(state["n"])]})
            return state

    edits = rk.Edits(patch=({"op": "add", "path": "/log/0", "value": "first"},))
    for rules in ({}, {"checkpoint_every": 4}):
        run_id = recorded(store, agent, **rules)
        _, journey = rk.fork(run_id, "step_2", edits, agent=agent, store=store)
        assert journey.output["log"] == ["first", 0, 1, 4, 9, 16]


# Checkpoints that are saved by hand


def checkpoint(n: int, state: Any, **more: Any) -> rk.Checkpoint:
    return rk.Checkpoint(run_id="mine", step_id=f"step_{n}", state=state, **more)


def test_saved_checkpoints_are_sampled_alike(store: rk.Store) -> None:
    with rk.CheckpointStore(store, every=3) as checkpoints:
        for n in range(1, 9):
            checkpoints.save_checkpoint(checkpoint(n, {"n": n}))
        with pytest.raises(StateNotKept):
            checkpoints.load_checkpoint("mine", "step_8")

    reader = rk.CheckpointStore(store)
    assert [reader.load_checkpoint("mine", f"step_{n}").state for n in (1, 4, 7, 8)] == [{"n": n} for n in (1, 4, 7, 8)]
    with pytest.raises(StateNotKept, match="step_1, step_4"):
        reader.load_checkpoint("mine", "step_2")
    assert store.header("mine").sampling == Sampling(every=3)


def test_a_checkpoint_that_was_saved_is_there_also_when_nothing_changed(store: rk.Store) -> None:
    said = [{"role": "user", "content": "go on"}]
    with rk.CheckpointStore(store, on_change=True) as checkpoints:
        checkpoints.save_checkpoint(checkpoint(1, {"n": 1}))
        checkpoints.save_checkpoint(checkpoint(2, {"n": 1}))
        checkpoints.save_checkpoint(checkpoint(3, {"n": 1}, messages=said))

    assert [rk.CheckpointStore(store).load_checkpoint("mine", f"step_{n}").state for n in (1, 2, 3)] == [{"n": 1}] * 3
    assert len(kept(store, "mine")) == 2


def test_a_saved_call_that_failed_comes_back_as_one(store: rk.Store) -> None:
    failed = {"name": "t", "arguments": {}, "result": None, "error": "LookupError: no such index"}
    with rk.CheckpointStore(store) as checkpoints:
        checkpoints.save_checkpoint(checkpoint(1, {}, tool_calls=[failed]))
        assert checkpoints.load_checkpoint("mine", "step_1").tool_calls == [failed]


# On the command line


AGENT = """
import replaykit as rk

@rk.tool
def look(n):
    with open("looked", "a") as file:
        file.write("x")
    return n

def answer(question):
    with rk.record("walk") as run:
        state = {"n": 0, "end": 6}
        while state["n"] < state["end"]:
            with run.step() as step:
                look(state["n"])
                state = step.done({**state, "n": state["n"] + 1})
        return state["n"]
"""


def test_show_reaches_a_state_with_the_agent(own_directory: Any, monkeypatch: Any, capsys: Any) -> None:
    name = f"walking_{own_directory.name}".replace("-", "_")
    (own_directory / f"{name}.py").write_text(AGENT)
    monkeypatch.syspath_prepend(str(own_directory))
    with rk.record("walk", input="q", checkpoint_every=4) as run:
        run.output = __import__(name).answer("q")
    show = ["show", "walk", "--step", "step_3", "--state"]

    assert cli(show) == 2
    assert "The nearest stored ones: step_1, step_5." in capsys.readouterr().err
    assert cli([*show, "--agent", f"{name}:answer"]) == 0
    assert json.loads(capsys.readouterr().out) == {"n": 3, "end": 6}
    assert cli([*show, "--agent", f"{name}:answer", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == {"n": 3, "end": 6}
    assert (own_directory / "looked").read_text() == "x" * 6, "nothing was looked up again"
    assert cli(["show", "--steps", "walk"]) == 0
    assert [line.split()[2:4] for line in capsys.readouterr().out.splitlines()[1:4]] == [
        ["state", "look"],
        ["not", "stored"],
        ["not", "stored"],
    ]
    assert cli(["show", "walk"]) == 0
    shown = capsys.readouterr().out
    assert "states   one of 4 kept" in shown
    assert "checkpoint (state not stored)" in shown
    assert cli(["fork", "walk", "--step", "step_3", "--set", "end=4", "--agent", f"{name}:answer"]) == 0
    capsys.readouterr()
    assert cli(["compare", "walk", "walk@step_3"]) == 1
    assert "are not stored in both runs, and not compared" in capsys.readouterr().out
    assert cli(["show", "walk", "--agent", f"{name}:answer"]) == 2
    assert "--agent needs --state" in capsys.readouterr().err
