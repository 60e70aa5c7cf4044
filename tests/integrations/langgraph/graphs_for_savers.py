"""Graphs that the savers are tried with, and what one sees of their threads. All messages have ids of their own."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Send, StateSnapshot, interrupt

from replaykit.integrations.langgraph import ReplayKitSaver

THREAD: Any = {"configurable": {"thread_id": "t"}}
Elsewhere = Callable[..., Any]
"""Runs a program in another process."""


class Chat(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    turns: int


def chat(saver: Any) -> Any:
    """Answers each message in two steps."""

    def think(state: Chat) -> Chat:
        return {"turns": state.get("turns", 0) + 1}

    def answer(state: Chat) -> Chat:
        text = f"{state['messages'][-1].content}, {state['turns']}"
        return {"messages": [AIMessage(text, id=f"a{state['turns']}")]}

    graph = StateGraph(Chat)
    graph.add_node(think)
    graph.add_node(answer)
    graph.add_edge(START, "think")
    graph.add_edge("think", "answer")
    return graph.compile(checkpointer=saver)


def ask(text: str) -> Chat:
    return {"messages": [HumanMessage(text, id=f"h-{text}")]}


class Count(TypedDict, total=False):
    n: int
    log: Annotated[list[str], operator.add]


def counter(saver: Any, *, until: int = 4, fails_at: int | None = None) -> Any:
    """Counts in a loop; may fail once on its way."""
    failing = [fails_at]

    def add(state: Count) -> Count:
        if state["n"] == failing[0]:
            failing[0] = None
            raise ValueError(f"no {state['n']} today")
        return {"n": state["n"] + 1, "log": [f"added to {state['n']}"]}

    graph = StateGraph(Count)
    graph.add_node(add)
    graph.add_edge(START, "add")
    graph.add_conditional_edges("add", lambda state: END if state["n"] >= until else "add")
    return graph.compile(checkpointer=saver)


def approval(saver: Any) -> Any:
    """Asks a person, then says what was answered."""

    def prepare(state: Count) -> Count:
        return {"n": state["n"] + 1, "log": ["prepared"]}

    def approve(state: Count) -> Count:
        answer = interrupt({"may I?": state["n"]})
        return {"log": [f"answer {answer}"]}

    graph = StateGraph(Count)
    graph.add_node(prepare)
    graph.add_node(approve)
    graph.add_edge(START, "prepare")
    graph.add_edge("prepare", "approve")
    return graph.compile(checkpointer=saver)


def both(saver: Any) -> Any:
    """Asks two persons at the same time, and waits for both."""

    def asks(name: str) -> Callable[[Count], Count]:
        return lambda state: {"log": [f"{name} says {interrupt(f'{name}?')}"]}

    def done(state: Count) -> Count:
        return {"n": len(state["log"])}

    graph = StateGraph(Count)
    graph.add_node("left", asks("left"))
    graph.add_node("right", asks("right"))
    graph.add_node(done)
    graph.add_edge(START, "left")
    graph.add_edge(START, "right")
    graph.add_edge(["left", "right"], "done")
    return graph.compile(checkpointer=saver)


def nested(saver: Any, *, own_memory: bool = False) -> Any:
    """A graph within a graph; the inner one asks a person. With a memory of its own it counts its visits."""

    class Inner(TypedDict, total=False):
        n: int
        visits: Annotated[list[int], operator.add]

    def visit(state: Inner) -> Inner:
        return {"visits": [state["n"]]}

    def question(state: Inner) -> Inner:
        return {"n": state["n"] + interrupt(f"add to {state['n']}, visit {len(state['visits'])}?")}

    inner = StateGraph(Inner)
    inner.add_node(visit)
    inner.add_node(question)
    inner.add_edge(START, "visit")
    inner.add_edge("visit", "question")

    def before(state: Count) -> Count:
        return {"n": state["n"] + 1}

    def after(state: Count) -> Count:
        return {"log": [f"inner gave {state['n']}"]}

    graph = StateGraph(Count)
    graph.add_node(before)
    graph.add_node("inner", inner.compile(checkpointer=True if own_memory else None))
    graph.add_node(after)
    graph.add_edge(START, "before")
    graph.add_edge("before", "inner")
    graph.add_edge("inner", "after")
    return graph.compile(checkpointer=saver)


class Spread(TypedDict, total=False):
    words: list[str]
    sizes: Annotated[list[int], operator.add]
    total: int


def spread(saver: Any) -> Any:
    """Measures each word in a task of its own."""

    def measure(task: dict[str, str]) -> Spread:
        return {"sizes": [len(task["word"])]}

    def total(state: Spread) -> Spread:
        return {"total": sum(state["sizes"])}

    graph = StateGraph(Spread)
    graph.add_node("measure", measure)  # type: ignore[arg-type]
    graph.add_node(total)
    graph.add_conditional_edges(START, lambda state: [Send("measure", {"word": word}) for word in state["words"]])
    graph.add_edge("measure", "total")
    return graph.compile(checkpointer=saver)


def extend(state: list[Any], writes: Any) -> list[Any]:
    """The reducer of delta channels: batching-invariant."""
    return [*state, *(item for write in writes for item in write)]


def delta(saver: Any, *, until: int = 7, snapshots: int = 3) -> Any:
    """Counts in a loop; its log is a delta channel."""

    channel = DeltaChannel(extend, snapshot_frequency=snapshots)
    log: Any = TypedDict("log", {"n": int, "log": Annotated[list[str], channel]}, total=False)

    def add(state: Any) -> Any:
        return {"n": state["n"] + 1, "log": [f"step {state['n']}"]}

    graph = StateGraph(log)
    graph.add_node(add)
    graph.add_edge(START, "add")
    graph.add_conditional_edges("add", lambda state: END if state["n"] % until == 0 else "add")
    return graph.compile(checkpointer=saver)


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"rain in {city}"


class Scripted(BaseChatModel):
    """A model that calls a tool first, and then says what it gave."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        number = len(messages)
        if messages[-1].type == "tool":
            reply = AIMessage(f"It is {messages[-1].content}.", id=f"ai-{number}")
        else:
            call = {"name": "weather", "args": {"city": messages[-1].content}, "id": f"call-{number}"}
            usage = {"input_tokens": number, "output_tokens": 1, "total_tokens": number + 1}
            reply = AIMessage("", id=f"ai-{number}", tool_calls=[call], usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=reply)])


def seen(state: StateSnapshot, numbers: dict[str, int]) -> dict[str, Any]:
    """What a snapshot says, with checkpoints as numbers in the order in which they were first seen."""

    def number(config: Any) -> int | None:
        found = (config or {}).get("configurable", {}).get("checkpoint_id")
        return None if found is None else numbers.setdefault(found, len(numbers))

    return {
        "at": number(state.config),
        "parent": number(state.parent_config),
        "values": state.values,
        "next": state.next,
        "source": (state.metadata or {}).get("source"),
        "step": (state.metadata or {}).get("step"),
        "interrupts": sorted(repr(found.value) for found in state.interrupts),
        "tasks": sorted(
            (
                task.name,
                repr(task.error),
                [found.value for found in task.interrupts],
                repr(task.result),
                seen(task.state, numbers) if isinstance(task.state, StateSnapshot) else bool(task.state),
            )
            for task in state.tasks
        ),
    }


def history(graph: Any, config: Any = THREAD, **options: Any) -> list[dict[str, Any]]:
    """Everything that a thread's history says."""
    numbers: dict[str, int] = {}
    return [seen(state, numbers) for state in graph.get_state_history(config, **options)]


class Forgetful(ReplayKitSaver):
    """A saver that remembers nothing from one call to the next: every read is from the disk."""

    def get_tuple(self, config: Any) -> Any:
        self.close()
        return super().get_tuple(config)

    def put(self, *arguments: Any) -> Any:
        self.close()
        return super().put(*arguments)

    def put_writes(self, *arguments: Any, **options: Any) -> None:
        self.close()
        super().put_writes(*arguments, **options)


@contextmanager
def savers(**options: Any) -> Iterator[dict[str, BaseCheckpointSaver[Any]]]:
    """The savers that have to agree, by name; `memory` is the one that is right."""
    with ReplayKitSaver(Path("kept.db"), **options) as kept, Forgetful(Path("cold.db"), **options) as cold:
        yield {"memory": InMemorySaver(), "kept": kept, "cold": cold}
