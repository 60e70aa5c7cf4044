"""Agents of the OpenAI Agents SDK, recorded and replayed with the real SDK."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    RunContextWrapper,
    Runner,
    ToolOutputImage,
    ToolOutputText,
    WebSearchTool,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from tests.integrations.frameworks.scripted import (
    ANSWER,
    ScriptedModel,
    Told,
    Tools,
    assert_replayed_whole,
    effects_of,
    told_twice,
    told_with_other_arguments,
)

import replaykit as rk
from replaykit.integrations.openai_agents import tools as through
from replaykit.integrations.openai_agents import wrap

ONE = [[("look", {"at": "sky"})]]


@pytest.fixture(autouse=True)
def no_tracing() -> Iterator[None]:
    """Tracing sends what happened to OpenAI."""
    set_tracing_disabled(True)
    yield
    set_tracing_disabled(False)


def agent(url: str, tools: list[Any], api: str = "responses", **settings: Any) -> Agent[Any]:
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key="-", max_retries=0)
    kind: Any = OpenAIResponsesModel if api == "responses" else OpenAIChatCompletionsModel
    return Agent(name="desk", model=kind("small", client), tools=tools, **settings)


def run_once(own: Agent[Any], **settings: Any) -> Any:
    return asyncio.run(Runner.run(own, "?", **settings))


def outputs(result: Any) -> list[Any]:
    return [item.output for item in result.new_items if item.type == "tool_call_output_item"]


def functions(tools: Tools) -> list[FunctionTool]:
    return [function_tool(each) for each in (tools.get_weather, tools.get_time)]


@pytest.mark.parametrize("api", ["responses", "chat"])
def test_a_run_is_replayed_without_the_model_and_the_tools(api: str) -> None:
    tools = Tools()

    def run(url: str) -> str:
        return run_once(agent(url, through(functions(tools)), api)).final_output

    assert_replayed_whole(told_twice(run), tools)


@pytest.mark.parametrize("api", ["responses", "chat"])
def test_a_streamed_run_is_replayed_too(api: str) -> None:
    tools = Tools()

    async def stream(url: str) -> str:
        result = Runner.run_streamed(agent(url, through(functions(tools)), api), "?")
        async for _ in result.stream_events():
            pass
        return result.final_output

    assert_replayed_whole(told_twice(lambda url: asyncio.run(stream(url))), tools)


def test_without_a_session_nothing_changes() -> None:
    tools = Tools()

    with ScriptedModel() as scripted:
        assert run_once(agent(scripted.url, through(functions(tools)))).final_output == ANSWER

    assert sorted(tools.ran) == ["get_time", "get_weather"]


def looked(given: FunctionTool, turns: Any = ONE, **settings: Any) -> Told:
    return told_twice(lambda url: run_once(agent(url, [wrap(given)]), **settings), turns)


def test_the_context_and_the_ids_of_calls_are_not_arguments() -> None:
    @function_tool
    def look(context: RunContextWrapper[str], at: str) -> str:
        return f"{at} for {context.context}"

    told = looked(look, context="Ada")

    assert told.recorded.final_output == told.replayed.final_output == "It is sky for Ada."
    assert [call.arguments for call in told.tools] == [{"at": "sky"}]


def test_a_tool_that_fails_fails_again_as_the_model_is_told() -> None:
    ran = []

    @function_tool
    def look(at: str) -> str:
        ran.append(at)
        raise PermissionError(f"not at the {at}")

    told = looked(look)

    assert outputs(told.recorded) == outputs(told.replayed)
    assert outputs(told.replayed)[0].startswith("An error occurred while running the tool")
    assert told.deviations == []
    assert len(ran) == 1
    assert told.tools[0].error is not None
    assert told.tools[0].error.type == "PermissionError"


def test_a_tool_whose_failure_ends_the_run_ends_it_again() -> None:
    @function_tool(failure_error_function=None)
    def look(at: str) -> str:
        raise PermissionError(f"not at the {at}")

    def run(url: str) -> str:
        with pytest.raises(Exception, match="not at the sky") as caught:
            run_once(agent(url, [wrap(look)]))
        return f"{type(caught.value).__name__}: {caught.value}"

    told = told_twice(run, ONE)

    assert told.recorded == told.replayed
    assert told.deviations == []


def test_arguments_that_are_no_json_are_refused_again() -> None:
    ran = []

    @function_tool
    def look(at: int) -> str:
        ran.append(at)
        return "blue"

    told = looked(look)

    assert outputs(told.recorded) == outputs(told.replayed)
    assert told.tools[0].error is not None
    assert ran == []


def test_a_tool_made_by_hand_is_wrapped_too() -> None:
    ran = []

    async def invoke(context: Any, text: str) -> str:
        ran.append(text)
        return "blue"

    schema = {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}
    schema["additionalProperties"] = False

    told = looked(FunctionTool("look", "Look.", schema, invoke))

    assert told.recorded.final_output == told.replayed.final_output == "It is blue."
    assert told.tools[0].result == "blue"
    assert ran == ['{"at": "sky"}']


@dataclass
class Seen:
    colour: str


class Odd:
    def __str__(self) -> str:
        return "an odd sight"


def bare(result: Any) -> FunctionTool:
    @function_tool
    def look(at: str):  # type: ignore[no-untyped-def]
        return result

    return look


def typed(result: Seen) -> FunctionTool:
    @function_tool
    def look(at: str) -> Seen:
        return result

    return look


def loosely_typed(result: Any) -> FunctionTool:
    @function_tool
    def look(at: str) -> dict[str, Any]:
        return result

    return look


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (bare({"colour": "blue"}), {"colour": "blue"}),
        (bare(Odd()), "an odd sight"),
        (typed(Seen("blue")), {"colour": "blue"}),
        (bare(ToolOutputImage(image_url="data:image/png;base64,AA")), None),
        (bare([ToolOutputText(text="blue"), ToolOutputText(text="green")]), None),
        (loosely_typed({"sky": datetime.date(2026, 1, 2)}), {"sky": datetime.date(2026, 1, 2)}),
    ],
    ids=["plain", "odd", "typed", "image", "texts", "loosely typed"],
)
def test_results_come_back_as_what_they_were(given: FunctionTool, kept: Any) -> None:
    told = looked(given)

    assert told.deviations == []
    if kept == "an odd sight":
        assert outputs(told.replayed) == [kept]
    else:
        assert outputs(told.replayed) == outputs(told.recorded)
    if kept is not None:
        assert told.tools[0].result == kept


def test_the_model_is_told_the_same_of_objects_that_the_annotation_does_not_name() -> None:
    told = looked(loosely_typed({"sky": Seen("blue")}))

    assert told.deviations == []
    assert told.tools[0].result == {"sky": {"colour": "blue"}}
    assert list(map(str, outputs(told.replayed))) == ["{'sky': Seen(colour='blue')}"]
    assert told.replayed.final_output == told.recorded.final_output


def test_other_tools_and_the_given_ones_are_left_as_they_are() -> None:
    web, look = WebSearchTool(), bare("blue")
    invoke = look.on_invoke_tool

    first, second = through([web, look])

    assert first is web
    assert second is not look
    assert look.on_invoke_tool is invoke
    assert second.__wrapped__ is look.__wrapped__


def test_a_fork_tries_other_arguments() -> None:
    @function_tool
    def look(at: str) -> str:
        return at

    def run(url: str) -> str:
        return run_once(agent(url, [wrap(look)])).final_output

    assert told_with_other_arguments(run, ONE, {"at": "sea"}) == "It is sea."


def test_effects_are_checked_and_passed_on() -> None:
    with pytest.raises(rk.ReplayKitError, match="sometimes"):
        wrap(bare(1), effects={"look": "sometimes"})

    def run(url: str) -> Any:
        own = agent(url, through(functions(Tools()), effects={"get_weather": "none"}))
        return run_once(own, run_config=RunConfig(tracing_disabled=True))

    assert effects_of(run) == {"get_weather": "none", "get_time": "external"}
