"""LangChain agents and LangGraph's ToolNode, recorded and replayed with the real SDK."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
from langchain.agents import AgentState, create_agent
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import InjectedToolCallId, StructuredTool, tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode, tools_condition
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command, Send, interrupt
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
from replaykit.integrations.langchain import ReplayKitMiddleware, _from_recorded, awrap_tool_call, wrap_tool_call

ONE = [[("look", {"at": "sky"})]]
ASKED = {"messages": [HumanMessage("?")]}


def model(url: str, **settings: Any) -> ChatOpenAI:
    return ChatOpenAI(model="small", base_url=f"{url}/v1", api_key="-", max_retries=0, **settings)


def agent(url: str, tools: list[Any], **settings: Any) -> Any:
    return create_agent(model(url), tools, middleware=[ReplayKitMiddleware()], **settings)


def graph(url: str, tools: list[Any]) -> Any:
    """The same agent, made by hand of a model and a ToolNode."""

    def think(state: MessagesState) -> Any:
        return {"messages": [model(url).bind_tools(tools).invoke(state["messages"])]}

    async def athink(state: MessagesState) -> Any:
        return {"messages": [await model(url).bind_tools(tools).ainvoke(state["messages"])]}

    builder = StateGraph(MessagesState)
    builder.add_node("think", RunnableLambda(think, athink))
    builder.add_node("tools", ToolNode(tools, wrap_tool_call=wrap_tool_call, awrap_tool_call=awrap_tool_call))
    builder.add_edge(START, "think")
    builder.add_conditional_edges("think", tools_condition)
    builder.add_edge("tools", "think")
    return builder.compile()


def structured(tools: Tools) -> list[StructuredTool]:
    return [StructuredTool.from_function(each) for each in (tools.get_weather, tools.get_time)]


def answer(state: Any) -> str:
    return state["messages"][-1].content


def answers_of_tools(state: Any) -> list[ToolMessage]:
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


@pytest.mark.parametrize("made", [agent, graph])
@pytest.mark.parametrize("awaited", [False, True], ids=["invoke", "ainvoke"])
def test_a_run_is_replayed_without_the_model_and_the_tools(made: Any, awaited: bool) -> None:
    tools = Tools()

    def run(url: str) -> str:
        own = made(url, structured(tools))
        return answer(asyncio.run(own.ainvoke(ASKED)) if awaited else own.invoke(ASKED))

    assert_replayed_whole(told_twice(run), tools)


def test_a_streamed_run_with_the_responses_api_is_replayed_too() -> None:
    tools = Tools()

    def run(url: str) -> str:
        own = create_agent(
            model(url, use_responses_api=True, streaming=True), structured(tools), middleware=[ReplayKitMiddleware()]
        )
        chunks = [chunk for chunk, _ in own.stream(ASKED, stream_mode="messages")]
        return "".join(chunk.text for chunk in chunks if isinstance(chunk, AIMessageChunk))

    assert_replayed_whole(told_twice(run), tools)


def test_without_a_session_nothing_changes() -> None:
    tools = Tools()

    with ScriptedModel() as scripted:
        assert answer(agent(scripted.url, structured(tools)).invoke(ASKED)) == ANSWER

    assert sorted(tools.ran) == ["get_time", "get_weather"]


def looked(given: Any, **settings: Any) -> Told:
    return told_twice(lambda url: agent(url, [given], **settings).invoke(ASKED), ONE)


def test_what_the_framework_injects_is_not_an_argument() -> None:
    @tool
    def look(at: str, state: Annotated[Any, InjectedState], call: Annotated[str, InjectedToolCallId]) -> str:
        """Look."""
        return f"{at} of {len(state['messages'])}, {call}"

    told = looked(look)

    assert [call.arguments for call in told.tools] == [{"at": "sky"}]
    assert answer(told.recorded) == answer(told.replayed) == "It is sky of 2, call_0_0."


def test_a_tool_that_fails_fails_again() -> None:
    ran = []

    @tool
    def look(at: str) -> str:
        """Look."""
        ran.append(at)
        raise PermissionError(f"not at the {at}")

    def run(url: str) -> str:
        with pytest.raises(PermissionError, match="not at the sky") as caught:
            agent(url, [look]).invoke(ASKED)
        return str(caught.value)

    told = told_twice(run, ONE)

    assert told.recorded == told.replayed
    assert told.deviations == []
    assert len(ran) == 1
    assert told.tools[0].error is not None
    assert told.tools[0].error.type == "PermissionError"


def test_arguments_that_a_tool_refuses_are_refused_again() -> None:
    @tool
    def look(at: int) -> str:
        """Look."""
        return "blue"

    told = looked(look)

    (message,), (again,) = answers_of_tools(told.recorded), answers_of_tools(told.replayed)
    assert message.status == again.status == "error"
    assert message.content == again.content
    assert told.tools[0].result["status"] == "error"
    assert told.deviations == []


def test_what_is_not_meant_for_the_model_comes_back() -> None:
    @tool(response_format="content_and_artifact")
    def look(at: str) -> tuple[str, Any]:
        """Look."""
        return "blue", {"lux": 3}

    told = looked(look)

    assert told.tools[0].result == {"message_type": "tool", "content": "blue", "artifact": {"lux": 3}}
    (again,) = answers_of_tools(told.replayed)
    assert (again.artifact, again.name, again.tool_call_id) == ({"lux": 3}, "look", "call_0_0")


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ({"status": "lost", "answers": []}, '{"status": "lost", "answers": []}'),
        ([{"id": 1}], '[{"id": 1}]'),
        (7, "7"),
        ([{"type": "text", "text": "blue"}], [{"type": "text", "text": "blue"}]),
    ],
)
def test_a_result_of_a_foreign_trace_is_served_as_the_model_would_read_it(value: Any, content: Any) -> None:
    message = _from_recorded(value, {"id": "call_0", "name": "look", "args": {}})

    assert isinstance(message, ToolMessage)
    assert message.content == content


class Mood(AgentState[Any]):
    mood: str
    notes: Any


def test_a_command_changes_the_state_again() -> None:
    @tool
    def look(at: str, call: Annotated[str, InjectedToolCallId]) -> Any:
        """Look."""
        update = {"mood": "calm", "notes": (AIMessage("hm"), 1), "messages": [ToolMessage("blue", tool_call_id=call)]}
        return Command(update=update)

    told = looked(look, state_schema=Mood)

    for state in (told.recorded, told.replayed):
        assert (state["mood"], state["notes"][0].content, state["notes"][1]) == ("calm", "hm", 1)
        assert answers_of_tools(state)[0].tool_call_id == "call_0_0"
    update = told.tools[0].result["command"]["update"]
    assert update["mood"] == "calm"
    assert update["messages"] == [{"message_type": "tool", "content": "blue"}]
    assert told.deviations == []


def request_of(call_id: str) -> Any:
    call = {"name": "look", "args": {"at": "sky"}, "id": call_id, "type": "tool_call"}
    return ToolCallRequest(tool_call=call, tool=None, state={}, runtime=None)  # type: ignore[arg-type, typeddict-item]


@pytest.mark.parametrize(
    "made",
    [
        lambda i: ToolMessage("blue", tool_call_id=i, name="look"),
        lambda i: ToolMessage([{"type": "text", "text": "blue"}], tool_call_id=i, name="look", status="error"),
        lambda i: Command(goto=[Send("there", {"m": ToolMessage("x", tool_call_id=i, name="look")}), "here"]),
        lambda i: Command(update={"a": 1}, graph=Command.PARENT),
        lambda i: [Command(update={"a": (1, 2)}), ToolMessage("blue", tool_call_id=i, name="look")],
    ],
)
def test_an_answer_carries_the_id_of_the_call_it_is_given_for(made: Any) -> None:
    with rk.record("answers") as run:
        assert wrap_tool_call(request_of("first"), lambda _: made("first")) == made("first")
    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        trace = store.load(run.id)

    with rk.replaying(rk.Tape.of(trace)):
        assert wrap_tool_call(request_of("second"), lambda _: pytest.fail("done for real")) == made("second")
    assert "first" not in str(list(trace.calls))


def test_a_tool_that_waits_for_a_person_waits_again() -> None:
    ran = []

    @tool
    def look(at: str) -> str:
        """Look."""
        first, second = interrupt(f"At the {at}?"), interrupt("Sure?")
        ran.append(at)
        return f"{first}, {second}"

    def run(url: str) -> Any:
        own, config = agent(url, [look], checkpointer=InMemorySaver()), {"configurable": {"thread_id": "1"}}
        waits = [own.invoke(ASKED, config)["__interrupt__"][0].value]
        waits.append(own.invoke(Command(resume="yes"), config)["__interrupt__"][0].value)
        return waits, answer(own.invoke(Command(resume="very"), config))

    told = told_twice(run, ONE)

    assert told.recorded == told.replayed == (["At the sky?", "Sure?"], "It is yes, very.")
    assert [call.result for call in told.tools] == [
        {"interrupt": ["At the sky?"]},
        {"interrupt": ["Sure?"]},
        "yes, very",
    ]
    assert ran == ["sky"]
    assert told.deviations == []


@pytest.mark.parametrize("awaited", [False, True], ids=["invoke", "ainvoke"])
def test_a_fork_tries_other_arguments(awaited: bool) -> None:
    @tool
    def look(at: str) -> str:
        """Look."""
        return at

    def run(url: str) -> str:
        own = agent(url, [look])
        return answer(asyncio.run(own.ainvoke(ASKED)) if awaited else own.invoke(ASKED))

    assert told_with_other_arguments(run, ONE, {"at": "sea"}) == "It is sea."


def test_effects_are_checked_and_passed_on() -> None:
    with pytest.raises(rk.ReplayKitError, match="sometimes"):
        ReplayKitMiddleware(effects={"look": "sometimes"})

    def run(url: str) -> Any:
        own = ReplayKitMiddleware(effects={"get_weather": "none"})
        return create_agent(model(url), structured(Tools()), middleware=[own]).invoke(ASKED)

    assert effects_of(run) == {"get_weather": "none", "get_time": "external"}
