"""Tools of a framework that fail: Pydantic AI's agent meets each fault, and tells its model of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from tests.integrations.frameworks.scripted import ANSWER, ScriptedModel, Tools

import replaykit as rk
from replaykit.candidates.agent_run import AgentCall
from replaykit.handlers.chaos.answers import PAYLOAD
from replaykit.handlers.replay.world import World
from replaykit.integrations.pydantic_ai import ReplayKit
from replaykit.model.faults import ChaosPlan, ToolFault, ToolTrouble
from replaykit.model.matching import MatchRules, ToolMode
from replaykit.model.run import RunStatus, TraceRun


class Weather:
    """An agent with two tools, in a live world or on a tape."""

    def __init__(self, url: str, *tools: Any) -> None:
        self._tools = tools
        self._model = OpenAIChatModel("small", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="-"))

    def __call__(self, _: str) -> str:
        own: Agent[Any, str] = Agent(self._model, tools=self._tools, capabilities=[ReplayKit()])
        return asyncio.run(own.run("?")).output

    def live(self, plan: ChaosPlan | None = None) -> TraceRun:
        rules = MatchRules(network=("*",))
        world = World(case_id="x", tools={"*": ToolMode.LIVE}, models=ToolMode.LIVE, rules=rules, chaos=plan)
        return AgentCall(world).run(self)

    def taped(self, run: TraceRun, plan: ChaosPlan | None = None) -> TraceRun:
        return AgentCall(World(case_id="x", calls=run.events, chaos=plan)).run(self)


def plan_of(mode: ToolTrouble) -> ChaosPlan:
    return ChaosPlan(tool_faults=(ToolFault(mode=mode, tool="get_weather"),))


def faults(run: TraceRun) -> list[tuple[str, ...]]:
    return [call.faults for call in run.calls if call.name == "get_weather"]


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        (ToolTrouble.MALFORMED, "It is sunny in\ufffd\ufffd{ and noon CET."),
        (ToolTrouble.PARTIAL, "It is sunny in and noon CET."),
        (ToolTrouble.EMPTY, "It is  and noon CET."),
        (ToolTrouble.MALICIOUS, f"It is {PAYLOAD} and noon CET."),
        (ToolTrouble.SLOW, ANSWER),
    ],
)
def test_the_model_is_told_what_the_fault_made_of_an_answer(mode: ToolTrouble, said: str) -> None:
    tools = Tools()
    with ScriptedModel() as model:
        weather = Weather(model.url, tools.get_weather, tools.get_time)
        run = weather.live(plan_of(mode))

    assert run.output.replace("  and", " and") == said.replace("  and", " and")
    assert faults(run) == [(f"tool.{mode}",)]
    assert weather.taped(run).output == run.output  # without chaos, and without the model


@pytest.mark.parametrize(("mode", "error"), [(ToolTrouble.TIMEOUT, "TimeoutError"), (ToolTrouble.ERROR, "ToolError")])
def test_a_tool_that_fails_fails_the_agent_as_any_exception_of_a_tool_does(mode: ToolTrouble, error: str) -> None:
    tools = Tools()
    with ScriptedModel() as model:
        weather = Weather(model.url, tools.get_weather, tools.get_time)
        run = weather.live(plan_of(mode))

    assert run.status is not RunStatus.SUCCESS
    assert run.error is not None
    assert run.error.type == error
    assert "get_weather" not in tools.ran
    again = weather.taped(run)
    assert again.error is not None
    assert (again.error.type, again.error.message) == (run.error.type, run.error.message)


def test_a_tool_that_catches_its_failure_lets_the_model_try_again() -> None:
    @rk.tool
    def ask(city: str) -> str:
        return f"sunny in {city}"

    def get_weather(city: str) -> str:
        try:
            return ask(city)
        except rk.ToolError as error:
            raise ModelRetry(f"status {error.status}") from error

    turn = [("get_weather", {"city": "Bern"})]
    fault = ToolFault(mode=ToolTrouble.ERROR, tool="ask", probability=0.5)
    with ScriptedModel([turn, turn]) as model:
        runs = [Weather(model.url, get_weather).live(ChaosPlan(seed=seed, tool_faults=(fault,))) for seed in range(12)]

    struck = [[call.faults for call in run.calls if call.name == "ask"] for run in runs]
    overcome = runs[struck.index([("tool.error",), ()])]
    assert "sunny in Bern" in overcome.output
    assert "status 503" in overcome.output


def test_on_a_tape_a_stale_tool_answers_as_it_did_a_turn_ago() -> None:
    numbers = iter(range(1, 9))

    def get_weather(city: str) -> str:
        return f"{city} {next(numbers)}"

    turn = [("get_weather", {"city": "Bern"})]
    with ScriptedModel([turn, turn]) as model:
        weather = Weather(model.url, get_weather)
        calm = weather.live()
        assert calm.output == "It is Bern 1 and Bern 2."
        stale = with_a_live_model(calm)
        taped = AgentCall(stale).run(weather)

    assert taped.output == "It is Bern 1 and Bern 1."
    assert faults(taped) == [(), ("tool.stale",)]


def with_a_live_model(calm: TraceRun) -> World:
    """The tools on the tape, and the model asked in earnest: it is told another story than it was."""
    rules = MatchRules(network=("*",))
    return World(case_id="x", calls=calm.events, rules=rules, models=ToolMode.LIVE, chaos=plan_of(ToolTrouble.STALE))
