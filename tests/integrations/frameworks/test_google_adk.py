"""Agents of Google's ADK, recorded and replayed with the real SDK."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from google.adk.agents import LlmAgent, RunConfig
from google.adk.agents.run_config import StreamingMode
from google.adk.apps import App
from google.adk.models import Gemini
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools import FunctionTool, ToolContext
from google.genai import types
from pydantic import BaseModel
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
from replaykit.integrations.google_adk import ReplayKitPlugin

# google-genai makes a subclass of aiohttp's session
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
ONE = [[("look", {"at": "sky"})]]
WHOLE, STREAMED = RunConfig(), RunConfig(streaming_mode=StreamingMode.SSE)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "-")


def agent(url: str, tools: list[Any], **settings: Any) -> LlmAgent:
    return LlmAgent(name="desk", model=Gemini(model="gemini-small", base_url=url), tools=tools, **settings)


async def events_of(root: LlmAgent, plugin: ReplayKitPlugin | None, how: RunConfig) -> tuple[list[Any], Any]:
    sessions = InMemorySessionService()
    app = App(name="desk", root_agent=root, plugins=[plugin or ReplayKitPlugin()])
    runner = Runner(app=app, session_service=sessions)
    session = await sessions.create_session(app_name="desk", user_id="ada")
    asked = types.Content(role="user", parts=[types.Part(text="?")])
    ids = {"user_id": "ada", "session_id": session.id}
    events = [event async for event in runner.run_async(**ids, new_message=asked, run_config=how)]
    await runner.close()
    return events, (await sessions.get_session(app_name="desk", **ids)).state


def run_once(root: LlmAgent, plugin: ReplayKitPlugin | None = None, how: RunConfig = WHOLE) -> tuple[list[Any], Any]:
    return asyncio.run(events_of(root, plugin, how))


def answer(events: list[Any]) -> str:
    return "".join(part.text or "" for part in events[-1].content.parts)


def responses(events: list[Any]) -> list[types.FunctionResponse]:
    return [response for event in events for response in event.get_function_responses()]


@pytest.mark.parametrize("how", [WHOLE, STREAMED], ids=["whole", "streamed"])
def test_a_run_is_replayed_without_the_model_and_the_tools(how: RunConfig) -> None:
    tools = Tools()

    def run(url: str) -> str:
        return answer(run_once(agent(url, [tools.get_weather, tools.get_time]), how=how)[0])

    assert_replayed_whole(told_twice(run), tools)


def test_without_a_session_nothing_changes() -> None:
    tools = Tools()

    with ScriptedModel() as scripted:
        assert answer(run_once(agent(scripted.url, [tools.get_weather, tools.get_time]))[0]) == ANSWER

    assert sorted(tools.ran) == ["get_time", "get_weather"]


def looked(look: Any, **settings: Any) -> Told:
    return told_twice(lambda url: run_once(agent(url, [look], **settings)), ONE)


def test_what_a_tool_does_to_its_context_is_done_again() -> None:
    ran = []

    def look(at: str, tool_context: ToolContext) -> dict[str, Any]:
        ran.append(at)
        tool_context.state["seen"] = at
        tool_context.actions.transfer_to_agent = None
        tool_context.actions.skip_summarization = True
        return {"colour": "blue"}

    told = looked(look)

    assert told.tools[0].arguments == {"at": "sky"}
    assert told.tools[0].result == {
        "result": {"colour": "blue"},
        "actions": {"state_delta": {"seen": "sky"}, "skip_summarization": True},
    }
    for events, state in (told.recorded, told.replayed):
        assert state == {"seen": "sky"}
        assert len(events) == 2, "the model is not asked again"
        assert responses(events)[0].response == {"colour": "blue"}
    assert ran == ["sky"]
    assert told.deviations == []


def test_a_call_hands_over_to_another_agent_again() -> None:
    def run(url: str) -> list[str]:
        alone = {"disallow_transfer_to_parent": True, "disallow_transfer_to_peers": True}
        other = LlmAgent(name="other", model=Gemini(model="gemini-small", base_url=url), description="Knows.", **alone)
        return [event.author for event in run_once(agent(url, [], sub_agents=[other]))[0]]

    told = told_twice(run, [[("transfer_to_agent", {"agent_name": "other"})]])

    assert told.recorded == told.replayed == ["desk", "desk", "other"]
    assert told.deviations == []


def test_a_request_for_confirmation_has_the_id_of_the_call_it_is_made_for() -> None:
    def look(at: str, tool_context: ToolContext) -> dict[str, Any]:
        tool_context.request_confirmation(hint="Sure?")
        return {"status": "waiting"}

    told = looked(look)

    for events, _ in (told.recorded, told.replayed):
        asked = [event.actions.requested_tool_confirmations for event in events]
        (call_id,) = [response.id for response in responses(events) if response.name == "look"]
        assert [waiting[call_id].hint for waiting in asked if waiting] == ["Sure?"]
    assert list(told.tools[0].result["actions"]["requested_tool_confirmations"]) == [""]


def test_a_tool_that_fails_fails_again() -> None:
    ran = []

    def look(at: str) -> str:
        ran.append(at)
        raise PermissionError(f"not at the {at}")

    def run(url: str) -> str:
        with pytest.raises(PermissionError, match="not at the sky") as caught:
            run_once(agent(url, [look]))
        return str(caught.value)

    told = told_twice(run, ONE)

    assert told.recorded == told.replayed
    assert told.deviations == []
    assert len(ran) == 1
    assert told.tools[0].error is not None
    assert told.tools[0].error.type == "PermissionError"


def test_callbacks_of_the_agent_work_in_a_replay_as_they_did() -> None:
    called = []

    def failed(tool: Any, args: Any, tool_context: Any, error: Exception) -> dict[str, Any]:
        called.append("failed")
        return {"sorry": str(error)}

    def before(tool: Any, args: Any, tool_context: Any) -> None:
        called.append("before")

    def look(at: str) -> str:
        raise PermissionError("no")

    told = looked(look, on_tool_error_callback=failed, before_tool_callback=before)

    assert called == ["before", "failed"] * 2
    assert answer(told.recorded[0]) == answer(told.replayed[0]) == "It is no."
    assert told.deviations == []


class Seen(BaseModel):
    colour: str


@dataclass
class Spot:
    x: int
    of: Any = None


@pytest.mark.parametrize(
    "result",
    [
        Seen(colour="blue"),
        [Seen(colour="blue"), 2],
        {"result": 1, "actions": {}},
        ["a", {"b": None}],
        types.Part.from_bytes(data=b"\x89PNG", mime_type="image/png"),
        {"picture": types.Part.from_bytes(data=b"\x89PNG", mime_type="image/png"), "of": "sky"},
        Spot(1, of=Spot(2)),
        [Spot(1)],
        {"media": {"url": "sky.png"}},
        {"media": {"plain": "sky"}},
        {"media": "sky"},
    ],
    ids=[
        *("model", "models", "like ours", "list", "media", "media inside", "dataclass", "dataclasses"),
        *("like our media", "very like our media", "no media"),
    ],
)
def test_the_model_is_told_the_same_whatever_a_tool_returns(result: Any) -> None:
    def look(at: str) -> Any:
        return result

    told = looked(look)

    first, again = (
        responses(events)[0].model_dump(mode="json", exclude={"id"}) for events, _ in (told.recorded, told.replayed)
    )
    assert first == again
    assert told.deviations == []


def test_a_tool_is_wrapped_once() -> None:
    tools = Tools()
    own = FunctionTool(tools.get_weather)

    for _ in range(2):
        with ScriptedModel([[("get_weather", {"city": "Rome"})] * 2]) as scripted, rk.record("agent") as run:
            run_once(agent(scripted.url, [own]))

    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        assert len([call for call in store.load(run.id).calls if call.name == "get_weather"]) == 2


def test_a_fork_tries_other_arguments() -> None:
    def look(at: str) -> str:
        return at

    told = told_with_other_arguments(lambda url: answer(run_once(agent(url, [look]))[0]), ONE, {"at": "sea"})

    assert told == "It is sea."


def test_effects_are_checked_and_passed_on() -> None:
    with pytest.raises(rk.ReplayKitError, match="sometimes"):
        ReplayKitPlugin(effects={"look": "sometimes"})
    tools = Tools()

    def run(url: str) -> Any:
        plugin = ReplayKitPlugin(effects={"get_weather": "none"})
        return run_once(agent(url, [tools.get_weather, tools.get_time]), plugin)

    assert effects_of(run) == {"get_weather": "none", "get_time": "external"}
