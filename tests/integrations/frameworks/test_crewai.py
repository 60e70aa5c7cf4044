"""CrewAI: a crew and an agent of its own, with the real OpenAI client."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# CrewAI reports to its makers from the moment it is imported, unless these are set.
os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "CREWAI_TRACING_ENABLED": "false"}
pytest.importorskip("crewai")
pytest.importorskip("openai")

from crewai import LLM, Agent, Crew, Task
from crewai.tools import BaseTool, tool
from crewai.tools.tool_failure import ToolFailure
from pydantic import BaseModel
from tests.integrations.frameworks.scripted import (
    ANSWER,
    EXAMPLES,
    ScriptedModel,
    Tools,
    assert_replayed_whole,
    load,
    told_twice,
)

import replaykit as rk
from replaykit.errors import UsageError
from replaykit.integrations import crewai
from replaykit.seam.scope import current

pytestmark = pytest.mark.filterwarnings(r"ignore::DeprecationWarning:crewai\..*")  # it uses what it deprecates
TURN = [[("get_weather", {"city": "Bern"})]]


class Time(BaseTool):
    """A tool that is a class, with a state of its own."""

    name: str = "get_time"
    description: str = "The time in a zone."
    own: Any = None

    def _run(self, zone: str) -> str:
        return self.own.get_time(zone)


def plain(own: Tools) -> list[Any]:
    @tool
    def get_weather(city: str) -> str:
        """The weather of a city."""
        return own.get_weather(city)

    return [get_weather, Time(own=own)]


def asked(tools: list[Any], url: str, **options: Any) -> str:
    llm = LLM(model="openai/scripted", base_url=f"{url}/v1", api_key="none", **options)
    agent = Agent(role="guide", goal="Answer.", backstory="Knows Paris.", tools=tools, llm=llm)
    task = Task(description="How is Paris?", expected_output="One sentence.", agent=agent)
    return str(Crew(agents=[agent], tasks=[task]).kickoff())


@pytest.mark.parametrize("stream", [False, True])
def test_a_run_is_recorded_and_served(stream: bool) -> None:
    own = Tools()
    wrapped = crewai.tools(plain(own))

    told = told_twice(lambda url: asked(wrapped, url, stream=stream))

    assert_replayed_whole(told, own)


def test_asynchronous_tools_are_recorded_and_served() -> None:
    own = Tools()

    @tool
    async def get_weather(city: str) -> str:
        """The weather of a city."""
        return own.get_weather(city)

    class Time(BaseTool):
        name: str = "get_time"
        description: str = "The time in a zone."

        async def _run(self, zone: str) -> str:
            return own.get_time(zone)

    wrapped = crewai.tools([get_weather, Time()])

    assert_replayed_whole(told_twice(lambda url: asked(wrapped, url)), own)


def test_a_crew_that_is_awaited_is_recorded_and_served() -> None:
    own = Tools()
    wrapped = crewai.tools(plain(own))

    def agent(url: str) -> str:
        llm = LLM(model="openai/scripted", base_url=f"{url}/v1", api_key="none")
        guide = Agent(role="guide", goal="Answer.", backstory="Knows Paris.", tools=wrapped, llm=llm)
        task = Task(description="How is Paris?", expected_output="One sentence.", agent=guide)
        return str(asyncio.run(Crew(agents=[guide], tasks=[task]).kickoff_async()))

    assert_replayed_whole(told_twice(agent), own)


def test_a_tool_with_an_asynchronous_way_of_its_own_is_served_both_ways() -> None:
    class Twice(BaseTool):
        name: str = "Say It Twice"
        description: str = "Says it twice."

        def _run(self, text: str) -> str:
            ran.append("run")
            return text * 2

        async def _arun(self, text: str) -> str:
            ran.append("arun")
            return text * 2

    ran: list[str] = []
    wrapped = crewai.wrap(Twice())

    def called() -> list[str]:
        structured = wrapped.to_structured_tool()
        return [
            wrapped.run(text="a"),
            wrapped.run("b"),
            asyncio.run(wrapped.arun(text="c")),
            structured.invoke({"text": "d"}),
        ]

    with rk.record("twice") as run:
        recorded = called()
    trace = load(run.id)
    with rk.replaying(rk.Tape.of(trace)) as replayer:
        assert called() == recorded == ["aa", "bb", "cc", "dd"]
    assert ran == ["run", "run", "arun", "run"]
    assert replayer.deviations == []
    assert {call.name for call in trace.tool_calls} == {"say_it_twice"}, "as the model knows it"
    assert [call.arguments["text"] for call in trace.tool_calls] == ["a", "b", "c", "d"]


def test_a_tool_that_fails_fails_again_without_being_run() -> None:
    ran = []

    @tool
    def get_weather(city: str) -> str:
        """The weather of a city."""
        ran.append(city)
        raise LookupError(f"no station in {city}")

    wrapped = crewai.tools([get_weather])
    told = told_twice(lambda url: asked(wrapped, url), TURN)

    assert told.recorded == told.replayed == "It is Error executing tool: no station in Bern."
    assert ran == ["Bern"]
    assert told.deviations == []
    (call,) = told.tools
    assert (call.name, call.arguments, call.error.type) == ("get_weather", {"city": "Bern"}, "LookupError")


def test_a_failure_that_a_tool_reports_is_a_failure_again() -> None:
    ran = []

    @tool
    def get_weather(city: str) -> str:
        """The weather of a city."""
        ran.append(city)
        return ToolFailure(message=f"no station in {city}", code="E7")

    wrapped = crewai.wrap(get_weather)
    with rk.record("failure") as run:
        recorded = wrapped.run(city="Bern")
    trace = load(run.id)
    with rk.replaying(rk.Tape.of(trace)):
        served = wrapped.run(city="Bern")

    assert served == recorded
    assert isinstance(served, ToolFailure)
    assert ran == ["Bern"]
    assert trace.tool_calls[0].result["tool_failure"]["message"] == "no station in Bern"


class Forecast(BaseModel):
    city: str
    celsius: float


def forecast(city: str) -> Forecast:
    """What is to come."""
    return Forecast(city=city, celsius=14.5)


def test_a_result_is_given_back_in_its_own_class() -> None:
    wrapped = crewai.wrap(tool(forecast))

    with rk.record("forecast") as run:
        recorded = wrapped.run(city="Bern")
    with rk.replaying(rk.Tape.of(load(run.id))):
        served = wrapped.run(city="Bern")

    assert served == recorded == Forecast(city="Bern", celsius=14.5)
    assert wrapped.format_output_for_agent(served) == '{"city":"Bern","celsius":14.5}'


def test_the_model_is_told_the_same_of_objects_that_no_annotation_names() -> None:
    @tool
    def get_weather(city: str) -> list:  # type: ignore[type-arg]
        """The weather of a city."""
        return [forecast(city)]

    wrapped = crewai.tools([get_weather])

    told = told_twice(lambda url: asked(wrapped, url), TURN)

    assert told.replayed == told.recorded == "It is [Forecast(city='Bern', celsius=14.5)]."
    assert told.tools[0].result == [{"city": "Bern", "celsius": 14.5}]
    assert told.deviations == []


def test_without_a_run_nothing_changes() -> None:
    own = Tools()
    tools = plain(own)
    wrapped = crewai.tools(tools)

    with ScriptedModel() as model:
        assert asked(wrapped, model.url) == asked(tools, model.url) == ANSWER
    assert len(own.ran) == 4
    assert [each.formatted_description for each in wrapped] == [each.formatted_description for each in tools]
    for each in (wrapped[0], tools[0]):
        with pytest.raises(TypeError, match="takes"):
            each.run("Bern", "Rome")


def test_how_often_a_tool_may_be_used_is_counted_where_it_is_served_too() -> None:
    @tool(max_usage_count=1)
    def get_weather(city: str) -> str:
        """The weather of a city."""
        return f"sunny in {city}"

    def called() -> list[Any]:
        wrapped = crewai.wrap(get_weather)
        return [wrapped.run(city="Bern"), wrapped.run(city="Bern")]

    with rk.record("limit") as run:
        recorded = called()
    trace = load(run.id)
    with rk.replaying(rk.Tape.of(trace)):
        assert called() == recorded

    assert isinstance(recorded[1], ToolFailure)
    assert len(trace.tool_calls) == 1


def test_what_a_call_does_to_the_world_is_said_by_its_name() -> None:
    @tool
    def look(name: str) -> str:
        """Looks."""
        return str(current().call.effects)

    @tool
    def touch(name: str) -> str:
        """Touches."""
        return str(current().call.effects)

    with rk.record("effects"):
        told = [each.run(name="") for each in crewai.tools([look, touch], effects={"look": "none"})]

    assert told == ["none", "external"]
    with pytest.raises(UsageError, match="external"):
        crewai.wrap(touch, effects={"touch": "externel"})


def test_the_example_says_the_same_twice(own_directory: Path) -> None:
    done = subprocess.run([sys.executable, EXAMPLES / "crewai_agent.py"], capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stderr
    recorded, ran, replayed, since = done.stdout.splitlines()[-4:]
    assert (
        recorded.removeprefix("recorded: ")
        == replayed.removeprefix("replayed: ")
        == "It is sunny in Paris é and noon CET."
    )
    assert (ran, since) == ("tools that ran: 2", "tools that ran since: 0")
