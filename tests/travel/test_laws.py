"""The laws of time travel, over random agents: in sequence, in parallel, retrying, nested, polling."""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.matrix import examples

import replaykit as rk
from replaykit.model.events import Call, State
from replaykit.model.run import TraceRun
from replaykit.travel.compare_events import answer_key
from replaykit.travel.run_steps import run_steps, steps_with_states

TICKS = itertools.count()
TRIES: Counter[str] = Counter()


@rk.tool
def look(key: str) -> list[Any]:
    """Never answers the same twice: what is done again for real is noticed."""
    return [key, next(TICKS)]


@rk.tool
async def look_async(key: str) -> list[Any]:
    for _ in range(next(TICKS) % 3):
        await asyncio.sleep(0)
    return [key, next(TICKS)]


@rk.tool
def flaky(key: str, fails: int) -> list[Any]:
    TRIES[key] += 1
    if TRIES[key] % (fails + 1):
        raise ConnectionError(f"{key} is down ({next(TICKS)})")
    return [key, next(TICKS)]


@rk.tool
def poll(key: str, times: int) -> str:
    TRIES[key] += 1
    return "pending" if TRIES[key] % (times + 1) else f"done {next(TICKS)}"


@rk.tool
def ask_both(keys: list[str]) -> list[Any]:
    return [look(key) for key in keys]


def in_turn(keys: list[str]) -> list[Any]:
    return [look(key) for key in keys]


async def in_turn_async(keys: list[str]) -> list[Any]:
    return [await look_async(key) for key in keys]


def in_tasks(lanes: list[list[str]]) -> list[Any]:
    async def main() -> list[Any]:
        return list(await asyncio.gather(*map(in_turn_async, lanes)))

    return asyncio.run(main())


def in_threads(lanes: list[list[str]]) -> list[Any]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(in_turn, lanes))


def retrying(key: str, fails: int) -> list[Any]:
    for _ in range(fails):
        try:
            return list(flaky(key, fails))
        except ConnectionError:
            continue
    return list(flaky(key, fails))


def polling(key: str, times: int) -> list[str]:
    seen = [poll(key, times)]
    while seen[-1] == "pending":
        seen.append(poll(key, times))
    return seen


KEY = st.sampled_from("ab")
KEYS = st.lists(KEY, min_size=1, max_size=2)
LANES = st.lists(st.lists(KEY, max_size=2), min_size=2, max_size=3).filter(any)  # some tasks make no call at all
ROUND = st.one_of(
    st.tuples(st.just(in_turn), KEYS),
    st.tuples(st.just(in_tasks), LANES),
    st.tuples(st.just(in_threads), LANES),
    st.tuples(st.just(retrying), KEY, st.integers(0, 2)),
    st.tuples(st.just(polling), KEY, st.integers(0, 3)),
    st.tuples(st.just(ask_both), KEYS),
)
ROUNDS = st.lists(ROUND, min_size=1, max_size=4)


class Agent:
    """A program of rounds; each ends with a state. It marks its rounds as steps, or not; it takes a state, or not."""

    def __init__(self, rounds: list[tuple[Any, ...]], *, marks: bool, stateful: bool) -> None:
        self.rounds = rounds
        self.marks = marks
        self.states: list[Any] = []
        """Every state it handed over, as it was then."""
        self.run: Callable[..., Any] = self._stateful if stateful else self._plain

    def _plain(self, question: str) -> dict[str, Any]:
        return self._go({"round": 0, "seen": [], "mode": "plain"})

    def _stateful(self, question: str, state: dict[str, Any] | None = None) -> dict[str, Any]:
        return self._go(state or {"round": 0, "seen": [], "mode": "plain"})

    def _go(self, state: dict[str, Any]) -> dict[str, Any]:
        with rk.record("inner") as run:
            while state["round"] < len(self.rounds):
                if self.marks:
                    with run.step() as step:
                        state = step.done(self._advanced(state))
                else:
                    state = run.checkpoint(self._advanced(state))
        return state

    def _advanced(self, state: dict[str, Any]) -> dict[str, Any]:
        act, *arguments = self.rounds[state["round"]]
        after = {**state, "round": state["round"] + 1, "seen": [*state["seen"], act(*arguments)]}
        self.states.append(copy.deepcopy(after))
        return after


AGENTS = st.builds(Agent, ROUNDS, marks=st.booleans(), stateful=st.booleans())
MARKED = st.builds(Agent, ROUNDS, marks=st.just(True), stateful=st.booleans())


@pytest.fixture(scope="module")
def laws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[rk.Store]:
    """One store for all examples: making one costs more than a run."""
    with rk.Store.open(tmp_path_factory.mktemp("laws") / "store.db") as store:
        yield store


def recorded(store: rk.Store, agent: Agent, **rules: Any) -> TraceRun:
    TRIES.clear()
    with rk.record("law", input="q", store=store, **rules) as run:
        run.output = agent.run("q")
    return store.load(run.id)


def rows(store: rk.Store) -> set[Any]:
    """Everything the store holds."""
    tables = [name for (name,) in store.query("SELECT name FROM sqlite_master WHERE type = 'table'")]
    own = [name for name in tables if not name.startswith("sqlite_")]
    return {(name, *row) for name in own for row in store.query(f"SELECT * FROM {name}")}


def steps(run: TraceRun) -> list[str]:
    return [name for name, _ in steps_with_states(run)]


def by_cause(run: TraceRun, within: list[str] | None = None) -> dict[str, list[Any]]:
    """The calls that the agent itself made, in the order of each task and thread."""
    belongs = {event.seq: name for name, events in steps_with_states(run) for event in events}
    calls = {call.seq for call in run.calls}
    found = defaultdict(list)
    for call in run.calls:
        if call.parent not in calls and (within is None or belongs.get(call.seq) in within):
            found[call.path].append(answer_key(call))
    return found


def the_same_seen(a: TraceRun, b: TraceRun) -> None:
    assert rk.compare(a, b).first is None
    assert by_cause(a) == by_cause(b)


@settings(max_examples=examples(40))
@given(AGENTS, st.data())
def test_a_run_goes_on_from_any_step_as_it_did_and_its_own_rows_stay_as_they_are(
    laws: rk.Store, agent: Agent, data: st.DataObject
) -> None:
    parent = recorded(laws, agent)
    step = data.draw(st.sampled_from(steps(parent)))
    before, tick = rows(laws), next(TICKS)

    journey = rk.resume(parent.id, step, agent=agent.run, store=laws)
    _, fork = rk.fork(parent.id, step, None, agent=agent.run, store=laws, dry_run=data.draw(st.booleans()))

    assert next(TICKS) == tick + 1, "nothing happened for real"
    assert (journey.output, journey.error, journey.deviations) == (parent.output, None, ())
    assert (fork.output, fork.deviations, fork.would_be_live) == (parent.output, (), ())
    assert before <= rows(laws)
    the_same_seen(parent, laws.load(journey.run_id))
    again = rk.resume(journey.run_id, step, agent=agent.run, store=laws)
    assert (again.output, again.deviations) == (parent.output, ())
    the_same_seen(parent, laws.load(again.run_id))


@settings(max_examples=examples(40))
@given(MARKED, st.data())
def test_a_change_of_the_state_is_seen_at_its_step_and_never_before(
    laws: rk.Store, agent: Agent, data: st.DataObject
) -> None:
    parent = recorded(laws, agent)
    names = steps(parent)
    step = data.draw(st.sampled_from(names))
    before = rows(laws)

    fork_id, journey = rk.fork(parent.id, step, {"mode": "other"}, agent=agent.run, store=laws)

    assert (journey.deviations, journey.output) == ((), {**parent.output, "mode": "other"})
    first = rk.compare(parent.id, fork_id, store=laws).first
    assert first is not None
    assert (first.a_step, first.b_step, first.text) == (step, step, "state ($.mode)")
    assert [str(difference) for difference in first.differences] == ["changed   $.mode: 'plain' → 'other'"]
    fork = laws.load(fork_id)
    modes = [rk.state_at(fork_id, name, store=laws)["mode"] for name in names]
    assert modes == ["plain" if n < names.index(step) else "other" for n in range(len(names))]
    assert by_cause(fork) == by_cause(parent)
    assert before <= rows(laws)


@settings(max_examples=examples(40))
@given(AGENTS, st.data())
def test_a_change_of_an_answer_is_seen_at_its_step_and_never_before_also_where_it_ends_badly(
    laws: rk.Store, agent: Agent, data: st.DataObject
) -> None:
    parent = recorded(laws, agent)
    names = steps(parent)
    inner = {call.seq for call in parent.calls if call.parent is not None}
    fitting = [
        s.step_id for s in run_steps(parent) if any(isinstance(e, Call) and e.seq not in inner for e in s.events)
    ]
    step = data.draw(st.sampled_from(fitting))
    earlier = names[: names.index(step)]
    before = rows(laws)

    fork_id, journey = rk.fork(parent.id, step, rk.Edits(result="changed"), agent=agent.run, store=laws)

    assert not [deviation for deviation in journey.deviations if deviation.kind not in ("undecided", "live")]
    assert before <= rows(laws)
    fork = laws.load(fork_id)
    for path, calls in by_cause(parent, earlier).items():
        assert by_cause(fork)[path][: len(calls)] == calls
    first = rk.compare(parent, fork).first
    if first is not None:  # an answer that nobody looks at changes nothing but itself
        assert first.a_step is None or names.index(first.a_step) >= names.index(step)
    assert any(call.result == "changed" for call in fork.calls)


@settings(max_examples=examples(25))
@given(AGENTS, st.integers(2, 5), st.booleans(), st.data())
def test_a_state_that_was_not_kept_is_reached_again_and_one_can_go_on_from_it(
    laws: rk.Store, agent: Agent, every: int, on_change: bool, data: st.DataObject
) -> None:
    parent = recorded(laws, agent, checkpoint_every=every, checkpoint_on_change=on_change)
    truth = list(agent.states)
    states = [event.seq for event in parent.events if isinstance(event, State)]
    before, tick = rows(laws), next(TICKS)

    for standing in run_steps(parent):
        reached = rk.state_at(parent.id, standing.step_id, agent=agent.run, store=laws)
        by_then = sum(seq <= standing.last.seq for seq in states)
        assert reached == (truth[min(by_then, len(truth)) - 1] if by_then else None)
    assert rows(laws) == before
    step = data.draw(st.sampled_from(steps(parent)))
    journey = rk.resume(parent.id, step, agent=agent.run, store=laws)
    assert (journey.output, journey.deviations) == (parent.output, ())
    assert next(TICKS) == tick + 1, "nothing happened for real"
    assert before <= rows(laws)
    the_same_seen(parent, laws.load(journey.run_id))


class Broken(Exception):
    """What an agent fails with."""


@settings(max_examples=examples(25))
@given(AGENTS, st.data())
def test_an_agent_that_was_changed_and_fails_changes_nothing_of_its_parent(
    laws: rk.Store, agent: Agent, data: st.DataObject
) -> None:
    parent = recorded(laws, agent)
    step = data.draw(st.sampled_from(steps(parent)))
    before = rows(laws)
    strange = [(look, "z"), (ask_both, ["z"]), *([(data.draw(st.sampled_from([look, ask_both])), "q")])]
    other = Agent([data.draw(st.sampled_from(strange)), *agent.rounds], marks=agent.marks, stateful=False)

    def failing(question: str) -> None:
        agent.run(question)
        raise Broken(question)

    wanders = rk.resume(parent.id, step, agent=other.run, store=laws, dry_run=data.draw(st.booleans()))
    fails = rk.resume(parent.id, step, agent=failing, store=laws)

    assert wanders.error is not None
    assert fails.error == "Broken: q"
    assert before <= rows(laws)
    assert laws.load(parent.id) == parent
