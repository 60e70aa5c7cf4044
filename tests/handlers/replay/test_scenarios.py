"""Nine shapes of agents, recorded and replayed with other latencies: is every call given its own answer?

The world's answer depends on who asks and how often, so a wrong match is seen as a wrong answer.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import replaykit as rk
from replaykit.handlers.replay.handler import Replayer
from replaykit.model.events import ToolCall
from replaykit.model.matching import MatchMode
from replaykit.seam.scope import RunSession, current, enter

TRIALS = 5


class World:
    """Answers with the asker's name and how often it has asked."""

    def __init__(self, seed: int) -> None:
        self.asked: Counter[str] = Counter()
        self.random = random.Random(seed)

    async def answer(self, who: str, name: str, arguments: Any) -> str:
        await asyncio.sleep(self.random.random() * 0.002)
        self.asked[f"{who}|{name}|{arguments}"] += 1
        return f"{who}|{name}|{arguments}|{self.asked[f'{who}|{name}|{arguments}']}"


Answers = list[tuple[str, str]]
Scenario = Callable[["Agent", bool], Awaitable[None]]


class Agent:
    """Runs one scenario and writes down who was answered what."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.answers: Answers = []
        self.misses = 0

    async def ask(self, who: str, name: str, arguments: dict[str, Any]) -> None:
        @rk.tool(name=name)
        async def call(**given: Any) -> str:
            return await self.world.answer(who, name, given)

        try:
            self.answers.append((who, await call(**arguments)))
        except rk.Divergence:
            self.misses += 1

    async def sub(self, who: str, calls: list[tuple[str, dict[str, Any]]], *, scoped: bool = False) -> None:
        if scoped and (here := current()) is not None:
            enter(here.job(who))
        for name, arguments in calls:
            await self.ask(who, name, arguments)


async def sequential(agent: Agent, replayed: bool) -> None:
    await agent.sub("a", [("s", {"i": i}) for i in range(10)])


async def flat_gather(agent: Agent, replayed: bool) -> None:
    await asyncio.gather(*[agent.ask("a", "s", {"i": i}) for i in range(10)])


async def distinct_sub_agents(agent: Agent, replayed: bool) -> None:
    await asyncio.gather(
        *[agent.sub(f"s{k}", [("s", {"k": k, "i": i}) for i in range(5)], scoped=True) for k in range(4)]
    )


async def same_sub_agents(agent: Agent, replayed: bool) -> None:
    await asyncio.gather(*[agent.sub(f"s{k}", [("inbox", {})] * 5, scoped=True) for k in range(4)])


async def same_sub_agents_without_scopes(agent: Agent, replayed: bool) -> None:
    await asyncio.gather(*[agent.sub(f"s{k}", [("inbox", {})] * 5) for k in range(4)])


async def polling(agent: Agent, replayed: bool) -> None:
    await agent.sub("a", [("status", {"job": 1})] * 6)


async def one_call_inserted(agent: Agent, replayed: bool) -> None:
    await agent.sub("a", ([("s", {"new": 1})] if replayed else []) + [("s", {"i": i}) for i in range(10)])


async def every_prompt_changed(agent: Agent, replayed: bool) -> None:
    await agent.sub("a", [("llm", {"system": "v2" if replayed else "v1", "i": i}) for i in range(10)])


async def moved_under_a_new_scope(agent: Agent, replayed: bool) -> None:
    await agent.sub("x", [("s", {"i": i}) for i in range(10)], scoped=replayed)


async def play(scenario: Scenario, mode: MatchMode, trial: int, store: rk.Store) -> tuple[Agent, Agent, Replayer]:
    recorded = Agent(World(trial))
    with rk.record("scenario", store=store) as run:
        await scenario(recorded, False)
    calls = [event for event in store.load(run.id).events if isinstance(event, ToolCall)]
    replayer = Replayer(rk.Tape(calls), rk.MatchRules(mode=mode))
    replayed = Agent(World(trial + 1000))
    with RunSession(replayer).active():
        await scenario(replayed, True)
    return recorded, replayed, replayer


@pytest.mark.parametrize(
    "scenario",
    [
        sequential,
        flat_gather,
        distinct_sub_agents,
        same_sub_agents,
        same_sub_agents_without_scopes,
        polling,
        moved_under_a_new_scope,
    ],
)
def test_every_call_gets_its_own_answer(scenario: Scenario, store: rk.Store) -> None:
    for trial in range(TRIALS):
        recorded, replayed, _ = asyncio.run(play(scenario, MatchMode.CAUSAL, trial, store))

        assert replayed.misses == 0
        assert sorted(replayed.answers) == sorted(recorded.answers)


def test_only_the_inserted_call_misses(store: rk.Store) -> None:
    recorded, replayed, _ = asyncio.run(play(one_call_inserted, MatchMode.CAUSAL, 1, store))

    assert replayed.misses == 1
    assert replayed.answers == recorded.answers


def test_when_every_prompt_changed_nothing_is_served_by_similarity(store: rk.Store) -> None:
    _, replayed, _ = asyncio.run(play(every_prompt_changed, MatchMode.CAUSAL, 1, store))

    assert replayed.misses == 10
    assert replayed.answers == []


def test_when_every_prompt_changed_sequence_serves_by_position_and_says_so(store: rk.Store) -> None:
    recorded, replayed, replayer = asyncio.run(play(every_prompt_changed, MatchMode.SEQUENCE, 1, store))

    assert replayed.answers == recorded.answers
    assert [deviation.kind for deviation in replayer.deviations] == ["arguments"] * 10


def test_calls_moved_under_a_new_scope_are_noted_as_moved(store: rk.Store) -> None:
    _, _, replayer = asyncio.run(play(moved_under_a_new_scope, MatchMode.CAUSAL, 1, store))

    assert [deviation.kind for deviation in replayer.deviations] == ["moved"] * 10


@pytest.mark.parametrize("scenario", [sequential, flat_gather, distinct_sub_agents, polling])
def test_arguments_alone_are_enough_where_they_differ_or_come_in_order(scenario: Scenario, store: rk.Store) -> None:
    recorded, replayed, _ = asyncio.run(play(scenario, MatchMode.ARGS, 1, store))

    assert sorted(replayed.answers) == sorted(recorded.answers)


def test_strict_holds_for_unchanged_sequential_code_and_stops_at_an_inserted_call(store: rk.Store) -> None:
    recorded, replayed, _ = asyncio.run(play(sequential, MatchMode.STRICT, 1, store))
    assert replayed.answers == recorded.answers

    _, changed, _ = asyncio.run(play(one_call_inserted, MatchMode.STRICT, 1, store))
    assert changed.misses == 1
