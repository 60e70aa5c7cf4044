"""Agents of Microsoft's Agent Framework, recorded and replayed with the real SDK."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agent_framework import Agent, Content, FunctionInvocationContext, MiddlewareFailure, tool
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient
from pydantic import BaseModel
from tests.integrations.frameworks.scripted import (
    ANSWER,
    ScriptedModel,
    Told,
    Tools,
    assert_replayed_whole,
    effects_of,
    load,
    told_twice,
    told_with_other_arguments,
)

import replaykit as rk
from replaykit.integrations.agent_framework import ReplayKitMiddleware

ONE = [[("look", {"at": "sky"})]]


def agent(url: str, tools: list[Any], api: str = "chat", **settings: Any) -> Agent:
    kind: Any = OpenAIChatCompletionClient if api == "chat" else OpenAIChatClient
    client = kind(model="small", base_url=f"{url}/v1", api_key="-")
    settings.setdefault("middleware", [ReplayKitMiddleware()])
    return Agent(client, tools=[tool(each, approval_mode="never_require") for each in tools], **settings)


def run_once(own: Agent) -> Any:
    return asyncio.run(own.run("?"))


def results(response: Any) -> list[Content]:
    contents = [content for message in response.messages for content in message.contents]
    return [content for content in contents if content.type == "function_result"]


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_a_run_is_replayed_without_the_model_and_the_tools(api: str) -> None:
    tools = Tools()

    def run(url: str) -> str:
        return run_once(agent(url, [tools.get_weather, tools.get_time], api)).text

    assert_replayed_whole(told_twice(run), tools)


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_a_streamed_run_is_replayed_too(api: str) -> None:
    tools = Tools()

    async def stream(url: str) -> str:
        updates = agent(url, [tools.get_weather, tools.get_time], api).run("?", stream=True)
        return "".join([update.text async for update in updates])

    assert_replayed_whole(told_twice(lambda url: asyncio.run(stream(url))), tools)


def test_without_a_session_nothing_changes() -> None:
    tools = Tools()

    with ScriptedModel() as scripted:
        assert run_once(agent(scripted.url, [tools.get_weather, tools.get_time])).text == ANSWER

    assert sorted(tools.ran) == ["get_time", "get_weather"]


def looked(look: Any, turns: Any = ONE) -> Told:
    return told_twice(lambda url: run_once(agent(url, [look])), turns)


def test_the_context_and_the_ids_of_calls_are_not_arguments() -> None:
    def look(at: str, context: FunctionInvocationContext) -> str:
        return f"{at} by {context.function.name}"

    told = looked(look)

    assert told.recorded.text == told.replayed.text == "It is sky by look."
    assert [call.arguments for call in told.tools] == [{"at": "sky"}]


def test_a_tool_that_fails_fails_again_as_the_model_is_told() -> None:
    ran = []

    def look(at: str) -> str:
        ran.append(at)
        raise PermissionError(f"not at the {at}")

    told = looked(look)

    (first,), (again,) = results(told.recorded), results(told.replayed)
    assert first.to_dict(exclude={"id"}) == again.to_dict(exclude={"id"}), "the id is the framework's own, of that run"
    assert told.deviations == []
    assert len(ran) == 1
    assert told.tools[0].error is not None
    assert told.tools[0].error.type == "PermissionError"


class Seen(BaseModel):
    colour: str


@pytest.mark.parametrize(
    ("result", "kept"),
    [
        (Seen(colour="blue"), '{"colour": "blue"}'),
        ({"colour": "blue"}, '{"colour": "blue"}'),
        (None, ""),
        ([Content.from_text("blue"), Content.from_data(b"\x89PNG", "image/png")], None),
    ],
    ids=["model", "data", "nothing", "media"],
)
def test_results_come_back_as_contents(result: Any, kept: Any) -> None:
    def look(at: str) -> Any:
        return result

    told = looked(look)

    (first,), (again,) = results(told.recorded), results(told.replayed)
    assert first.to_dict(exclude={"id"}) == again.to_dict(exclude={"id"}), "the id is the framework's own, of that run"
    assert told.deviations == []
    if kept is not None:
        assert told.tools[0].result == kept
    else:
        assert [content["type"] for content in told.tools[0].result["contents"]] == ["text", "data"]


def test_middleware_further_out_sees_the_same_contents_in_a_replay() -> None:
    seen = []

    async def watch(context: FunctionInvocationContext, call_next: Any) -> None:
        await call_next()
        seen.append([content.text for content in context.result])

    def look(at: str) -> str:
        return "blue"

    told_twice(lambda url: run_once(agent(url, [look], middleware=[watch, ReplayKitMiddleware()])), ONE)

    assert seen == [["blue"], ["blue"]]


def test_a_divergence_stops_the_run_instead_of_being_told_to_the_model() -> None:
    def look(at: str) -> str:
        return "blue"

    with ScriptedModel(ONE) as scripted, rk.record("agent") as run:
        run_once(agent(scripted.url, [look]))
    trace = load(run.id)
    without = [event for event in trace.events if event.kind != "tool_call"]

    with rk.replaying(rk.Tape.of(type(trace)(**{**_fields(trace), "events": without}))):
        with pytest.raises(MiddlewareFailure) as caught:
            run_once(agent(scripted.url, [look]))

    assert isinstance(caught.value.__cause__, rk.Divergence)


def _fields(trace: Any) -> dict[str, Any]:
    return {name: getattr(trace, name) for name in trace.__struct_fields__}


def test_a_fork_tries_other_arguments() -> None:
    def look(at: str) -> str:
        return at

    told = told_with_other_arguments(lambda url: run_once(agent(url, [look])).text, ONE, {"at": "sea"})

    assert told == "It is sea."


def test_effects_are_checked_and_passed_on() -> None:
    with pytest.raises(rk.ReplayKitError, match="sometimes"):
        ReplayKitMiddleware(effects={"look": "sometimes"})
    tools = Tools()

    def run(url: str) -> Any:
        middleware = [ReplayKitMiddleware(effects={"get_weather": "none"})]
        return run_once(agent(url, [tools.get_weather, tools.get_time], middleware=middleware))

    assert effects_of(run) == {"get_weather": "none", "get_time": "external"}
