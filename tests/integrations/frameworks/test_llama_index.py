"""LlamaIndex, with its agent and the real OpenAI client."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_index.core")
pytest.importorskip("llama_index.llms.openai_like")

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ImageBlock, TextBlock
from llama_index.core.tools import FunctionTool, ToolOutput
from llama_index.core.tools.types import BaseTool, ToolMetadata
from llama_index.core.workflow import Context
from llama_index.llms.openai_like import OpenAILike
from openai import DefaultAsyncHttpxClient
from tests.integrations.frameworks.scripted import (
    ANSWER,
    EXAMPLES,
    ScriptedModel,
    Told,
    Tools,
    assert_replayed_whole,
    load,
    told_twice,
)

import replaykit as rk
from replaykit.errors import UsageError
from replaykit.integrations import llama_index
from replaykit.model.matching import MatchMode
from replaykit.seam.scope import current

# LlamaIndex looks at every attribute of its own pydantic models.
pytestmark = pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecationWarning")
TURN = [[("get_weather", {"city": "Bern"})]]


def asked(tools: list[Any], url: str, streaming: bool = True) -> str:
    async def ask() -> str:
        async with DefaultAsyncHttpxClient() as client:
            llm = OpenAILike(
                model="scripted",
                api_base=f"{url}/v1",
                api_key="none",
                is_chat_model=True,
                is_function_calling_model=True,
                async_http_client=client,
            )
            agent = FunctionAgent(tools=tools, llm=llm, streaming=streaming)
            return str(await agent.run("How is Paris?"))

    return asyncio.run(ask())


def told_of(agent: Callable[[str], str], turns: Any = None) -> Told:
    """A workflow numbers its steps as they come to run, and they come sooner where nothing is waited for: that calls
    are found at another place than the recorded one is no failure."""
    told = told_twice(agent, turns)
    return replace(told, deviations=[deviation for deviation in told.deviations if deviation.kind != "moved"])


@pytest.mark.parametrize("streaming", [True, False])
def test_a_run_is_recorded_and_served(streaming: bool) -> None:
    own = Tools()
    wrapped = llama_index.tools([own.get_weather, FunctionTool.from_defaults(own.get_time)])

    told = told_of(lambda url: asked(wrapped, url, streaming))

    assert_replayed_whole(told, own)


def test_matched_by_arguments_alone_nothing_has_moved() -> None:
    own = Tools()
    wrapped = llama_index.tools([own.get_weather, own.get_time])

    told = told_twice(lambda url: asked(wrapped, url))
    with rk.replaying(rk.Tape.of(told.trace), rk.MatchRules(mode=MatchMode.ARGS)) as replayer:
        assert asked(wrapped, "http://127.0.0.1:9") == ANSWER

    assert replayer.deviations == []
    assert len(own.ran) == 2


def test_asynchronous_tools_are_recorded_and_served() -> None:
    own = Tools()

    async def get_weather(city: str) -> str:
        """The weather of a city."""
        return own.get_weather(city)

    async def get_time(zone: str) -> str:
        """The time in a zone."""
        return own.get_time(zone)

    wrapped = llama_index.tools([get_weather, get_time])

    assert_replayed_whole(told_of(lambda url: asked(wrapped, url)), own)


def test_tools_that_were_done_in_another_order_than_they_were_called_are_served() -> None:
    own, first_done = Tools(), asyncio.Event()

    async def get_weather(city: str) -> str:
        """The weather of a city."""
        await first_done.wait()
        for _ in range(100):  # until the other's result has been handed on
            await asyncio.sleep(0)
        return own.get_weather(city)

    async def get_time(zone: str) -> str:
        """The time in a zone."""
        first_done.set()
        return own.get_time(zone)

    told = told_of(lambda url: asked(llama_index.tools([get_weather, get_time]), url))

    assert told.replayed == told.recorded == "It is noon CET and sunny in Paris é."
    assert own.ran == ["get_time", "get_weather"]
    assert told.deviations == []


def test_a_tool_that_fails_fails_again_without_being_run() -> None:
    ran = []

    def get_weather(city: str) -> str:
        """The weather of a city."""
        ran.append(city)
        raise LookupError(f"no station in {city}")

    told = told_of(lambda url: asked([llama_index.wrap(get_weather)], url), TURN)

    assert told.recorded == told.replayed == "It is no station in Bern."
    assert ran == ["Bern"]
    assert told.deviations == []
    (call,) = told.tools
    assert (call.name, call.arguments, call.error.type) == ("get_weather", {"city": "Bern"}, "LookupError")


def test_context_and_partial_parameters_are_passed_on_and_not_recorded() -> None:
    handle, seen = object(), []

    async def get_weather(ctx: Context, city: str, station: Any = None) -> str:
        """The weather of a city."""
        seen.append((type(ctx).__name__, station is handle))
        return f"sunny in {city}"

    get_weather.__annotations__ |= {"ctx": Context, "city": str}  # LlamaIndex knows a context by the class alone
    tool = FunctionTool.from_defaults(get_weather, partial_params={"station": handle})
    told = told_of(lambda url: asked([llama_index.wrap(tool)], url), TURN)

    assert told.recorded == told.replayed == "It is sunny in Bern."
    assert seen == [("Context", True)]
    assert [call.arguments for call in told.tools] == [{"city": "Bern"}]


def test_without_a_run_nothing_changes() -> None:
    own = Tools()
    plain = [FunctionTool.from_defaults(own.get_weather), FunctionTool.from_defaults(own.get_time)]
    wrapped = llama_index.tools(plain)

    with ScriptedModel() as model:
        assert asked(wrapped, model.url) == asked(plain, model.url) == ANSWER
    assert len(own.ran) == 4
    assert wrapped[0].metadata is plain[0].metadata
    assert wrapped[0]("Bern") == plain[0]("Bern")
    with pytest.raises(TypeError, match="takes"):
        wrapped[0].call("Bern", "Rome")


def picture(name: str) -> list[Any]:
    """A picture of a place."""
    return [TextBlock(text=name), ImageBlock(image=b"iVBORw0KGgo=", image_mimetype="image/png")]


def forecast(name: str) -> dict[str, Any]:
    """Numbers for a place."""
    return {"name": name, "celsius": [14, 15.5]}


def number(name: str) -> int:
    """One number."""
    return len(name)


@pytest.mark.parametrize("fn", [picture, forecast, number, Tools().get_weather])
def test_an_output_is_given_back_as_it_was(fn: Any) -> None:
    tool, (name,) = llama_index.wrap(fn), FunctionTool.from_defaults(fn).metadata.get_parameters_dict()["properties"]

    with rk.record("outputs") as run:
        recorded = tool.call(**{name: "Bern"})
    with rk.replaying(rk.Tape.of(load(run.id))) as replayer:
        served = tool.call(**{name: "Bern"})

    assert isinstance(served, ToolOutput)
    assert served.blocks == recorded.blocks
    assert (served.content, served.is_error, served.tool_name) == (recorded.content, False, fn.__name__)
    assert served.raw_input == recorded.raw_input
    if fn is not picture:  # whose blocks are classes of the framework, which come back as data
        assert served.raw_output == recorded.raw_output
    assert replayer.deviations == []


def test_a_tool_that_is_only_callable_is_made_asynchronous() -> None:
    class Echo(BaseTool):
        @property
        def metadata(self) -> ToolMetadata:
            return ToolMetadata(description="Says it again.", name="echo")

        def __call__(self, input: Any) -> ToolOutput:
            ran.append(input)
            return ToolOutput(tool_name="echo", content=input.upper(), raw_input={"input": input}, raw_output=input)

    ran: list[str] = []
    tool = llama_index.wrap(Echo())

    with rk.record("echo") as run:
        assert tool("a").content == "A"
        assert asyncio.run(tool.acall("b")).content == "B"
    with rk.replaying(rk.Tape.of(load(run.id))):
        assert tool("a").content == "A"
        assert asyncio.run(tool.acall("b")).content == "B"
    assert ran == ["a", "b"]
    assert [call.arguments for call in load(run.id).tool_calls] == [{"input": "a"}, {"input": "b"}]


def test_what_a_call_does_to_the_world_is_said_by_its_name() -> None:
    def look(name: str) -> str:
        """Looks."""
        return str(current().call.effects)

    def touch(name: str) -> str:
        """Touches."""
        return str(current().call.effects)

    with rk.record("effects"):
        told = [tool.call(name="").raw_output for tool in llama_index.tools([look, touch], effects={"look": "none"})]

    assert told == ["none", "external"]
    with pytest.raises(UsageError, match="external"):
        llama_index.wrap(touch, effects={"touch": "externel"})


def test_the_example_says_the_same_twice(own_directory: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "llama_index_agent.py"], capture_output=True, text=True, timeout=120
    )

    assert done.returncode == 0, done.stderr
    recorded, ran, replayed, since = done.stdout.splitlines()[-4:]
    # One tool runs in a thread, the other in the loop: which answer comes first is chance, and the replay repeats it.
    orders = ("It is sunny in Paris é and noon CET.", "It is noon CET and sunny in Paris é.")
    assert recorded.removeprefix("recorded: ") in orders
    assert replayed.removeprefix("replayed: ") == recorded.removeprefix("recorded: ")
    assert (ran, since) == ("tools that ran: 2", "tools that ran since: 0")
