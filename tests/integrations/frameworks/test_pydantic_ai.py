"""Pydantic AI agents, recorded and replayed with the real SDK."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel, Field
from pydantic_ai import Agent, BinaryImage, CallDeferred, DeferredToolRequests, ModelRetry, RunContext, ToolReturn
from pydantic_ai.exceptions import ToolFailed, UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessage, ToolReturnPart
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from tests.integrations.frameworks.scripted import (
    ANSWER,
    ScriptedModel,
    Tools,
    assert_replayed_whole,
    effects_of,
    told_twice,
    told_with_other_arguments,
)

import replaykit as rk
from replaykit.integrations.pydantic_ai import ReplayKit

ONE = [[("look", {"at": "sky"})]]


def model(url: str, api: str = "chat") -> Any:
    if api == "anthropic":
        return AnthropicModel("small", provider=AnthropicProvider(base_url=url, api_key="-"))
    kind = OpenAIChatModel if api == "chat" else OpenAIResponsesModel
    return kind("small", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="-"))


def agent(url: str, *tools: Any, api: str = "chat", **settings: Any) -> Agent[Any, str]:
    return Agent(model(url, api), tools=tools, capabilities=[ReplayKit()], **settings)


def run_once(own: Agent[Any, str], **settings: Any) -> Any:
    return asyncio.run(own.run("?", **settings))


def returns(messages: list[ModelMessage]) -> list[ToolReturnPart]:
    return [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]


@pytest.mark.parametrize("api", ["chat", "responses", "anthropic"])
def test_a_run_is_replayed_without_the_model_and_the_tools(api: str) -> None:
    tools = Tools()

    def run(url: str) -> str:
        return run_once(agent(url, tools.get_weather, tools.get_time, api=api)).output

    assert_replayed_whole(told_twice(run), tools)


def test_a_streamed_run_is_replayed_too() -> None:
    tools = Tools()

    async def stream(url: str) -> str:
        async with agent(url, tools.get_weather, tools.get_time).run_stream("?") as streamed:
            return await streamed.get_output()

    assert_replayed_whole(told_twice(lambda url: asyncio.run(stream(url))), tools)


def test_without_a_session_nothing_changes() -> None:
    tools = Tools()

    with ScriptedModel() as scripted:
        assert run_once(agent(scripted.url, tools.get_weather, tools.get_time)).output == ANSWER

    assert sorted(tools.ran) == ["get_time", "get_weather"]


def test_the_context_and_the_ids_of_calls_are_not_arguments() -> None:
    def look(ctx: RunContext[str], at: str) -> str:
        return f"{at} for {ctx.deps}"

    def run(url: str) -> str:
        return run_once(agent(url, look, deps_type=str), deps="Ada").output

    told = told_twice(run, ONE)

    assert told.recorded == told.replayed == "It is sky for Ada."
    assert [call.arguments for call in told.tools] == [{"at": "sky"}]


def test_a_tool_that_fails_fails_again() -> None:
    ran = []

    def look(at: str) -> str:
        ran.append(at)
        raise PermissionError(f"not at the {at}")

    def run(url: str) -> str:
        with pytest.raises(PermissionError, match="not at the sky") as caught:
            run_once(agent(url, look))
        return str(caught.value)

    told = told_twice(run, ONE)

    assert told.recorded == told.replayed
    assert told.deviations == []
    assert len(ran) == 1
    assert told.tools[0].error is not None
    assert told.tools[0].error.type == "PermissionError"


@pytest.mark.parametrize("kind", [ModelRetry, ToolFailed])
def test_what_a_tool_tells_the_model_by_raising_is_told_again(kind: type[Exception]) -> None:
    ran = []

    def look(at: str) -> str:
        ran.append(at)
        if len(ran) == 1:
            raise kind("too bright")
        return "blue"

    def run(url: str) -> Any:
        done = run_once(agent(url, look))
        return [(part.tool_call_id, part.content, part.outcome) for part in returns(done.all_messages())]

    told = told_twice(run, [*ONE, *ONE])

    assert told.recorded == told.replayed
    assert [call_id for call_id, _, _ in told.replayed] == ["call_0_0", "call_1_0"]
    assert told.deviations == []
    assert len(ran) == 2
    assert [call.error and call.error.type for call in told.tools] == [kind.__name__, None]


def test_a_tool_that_asks_for_too_many_retries_ends_the_run_again() -> None:
    def look(at: str) -> str:
        raise ModelRetry("again")

    def run(url: str) -> str:
        with pytest.raises(UnexpectedModelBehavior) as caught:
            run_once(agent(url, look))
        return str(caught.value)

    told = told_twice(run, [*ONE, *ONE])

    assert told.recorded == told.replayed
    assert [call.error and call.error.message for call in told.tools] == ["again", "again"]
    assert told.deviations == []


class Seen(BaseModel):
    colour: str = Field(serialization_alias="Colour")


@pytest.mark.parametrize(
    ("result", "kept"),
    [
        (Seen(colour="blue"), {"Colour": "blue"}),
        ([1, None, "x"], [1, None, "x"]),
        (ToolReturn("blue", content="look up", metadata={"lux": 3}), None),
        (BinaryImage(b"\x89PNG", media_type="image/png"), None),
        ({"kind": "tool-return", "sky": "blue"}, {"kind": "tool-return", "sky": "blue"}),
    ],
    ids=["model", "list", "ToolReturn", "BinaryImage", "like a ToolReturn"],
)
def test_results_come_back_as_what_the_framework_makes_of_them(result: Any, kept: Any) -> None:
    def look(at: str) -> Any:
        return result

    def run(url: str) -> Any:
        done = run_once(agent(url, look))
        parts = [part for message in done.new_messages() for part in message.parts]
        return [(type(p), getattr(p, "metadata", None), getattr(p, "content", None)) for p in parts]

    told = told_twice(run, ONE)

    assert told.deviations == []
    assert [kind for kind, _, _ in told.replayed] == [kind for kind, _, _ in told.recorded]
    assert [meta for _, meta, _ in told.replayed] == [meta for _, meta, _ in told.recorded]
    if kept is None:
        assert told.replayed == told.recorded
        assert told.tools[0].result["kind"] in ("tool-return", "binary")
    else:
        assert told.tools[0].result == kept


def test_a_call_that_is_deferred_is_deferred_again() -> None:
    def look(at: str) -> str:
        raise CallDeferred({"at": at})

    def run(url: str) -> Any:
        done = run_once(agent(url, look, output_type=[str, DeferredToolRequests])).output
        return done.calls[0].tool_call_id, done.metadata

    told = told_twice(run, ONE)

    assert told.recorded == told.replayed == ("call_0_0", {"call_0_0": {"at": "sky"}})
    assert told.deviations == []


def test_a_fork_tries_other_arguments() -> None:
    def look(at: str) -> str:
        return at

    told = told_with_other_arguments(lambda url: run_once(agent(url, look)).output, ONE, {"at": "sea"})

    assert told == "It is sea."


def test_effects_are_checked_and_passed_on() -> None:
    with pytest.raises(rk.ReplayKitError, match="sometimes"):
        ReplayKit(effects={"look": "sometimes"})
    tools = Tools()

    def run(url: str) -> str:
        capability = ReplayKit(effects={"get_weather": "none"})
        own = Agent(model(url), tools=[tools.get_weather, tools.get_time], capabilities=[capability])
        return run_once(own).output

    assert effects_of(run) == {"get_weather": "none", "get_time": "external"}
