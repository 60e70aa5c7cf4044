"""A LangGraph agent whose threads ReplayKit keeps: it waits for a person, goes on later, and takes another way.

python examples/langgraph_agent.py
"""

from __future__ import annotations

from typing import Annotated, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, interrupt

import replaykit as rk
from replaykit.integrations.langgraph import ReplayKitSaver

ORDERS = {"A-7": 49.99}
THREAD = {"configurable": {"thread_id": "refund-7"}}


class Desk(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    order: str
    amount: float


def look_up(state: Desk) -> Desk:
    amount = ORDERS[state["order"]]
    return {"amount": amount, "messages": [AIMessage(f"Order {state['order']} cost {amount} €.")]}


def approve(state: Desk) -> Desk:
    answer = interrupt(f"Refund {state['amount']} €?")
    return {"messages": [HumanMessage(answer)]}


def close(state: Desk) -> Desk:
    granted = state["messages"][-1].content == "yes"
    return {"messages": [AIMessage(f"{state['amount'] if granted else 0.0} € are on their way.")]}


def desk(saver: ReplayKitSaver) -> CompiledStateGraph:
    graph = StateGraph(Desk)
    for node in (look_up, approve, close):
        graph.add_node(node)
    graph.add_edge(START, "look_up")
    graph.add_edge("look_up", "approve")
    graph.add_edge("approve", "close")
    return graph.compile(checkpointer=saver)


def ask() -> None:
    with ReplayKitSaver() as saver:
        told = desk(saver).invoke({"order": "A-7", "messages": [HumanMessage("I want my money back.")]}, THREAD)
    print("waits for:", told["__interrupt__"][0].value)


def answer() -> None:
    with ReplayKitSaver() as saver:  # the thread is on disk; this may be another process, another day
        told = desk(saver).invoke(Command(resume="no"), THREAD)
    print("answered:", told["messages"][-1].content)


def take_another_way() -> None:
    with ReplayKitSaver() as saver:
        graph = desk(saver)
        before = next(state for state in graph.get_state_history(THREAD) if state.next == ("approve",))
        fork = graph.update_state(before.config, {"amount": 20.0})
        graph.invoke(None, fork)
        told = graph.invoke(Command(resume="yes"), THREAD)
    print("the other way:", told["messages"][-1].content)


def look_at_it() -> None:
    for step in rk.CheckpointStore().list_checkpoints("thread:refund-7"):
        print("step:", step.step_id)
    print("now look at it: replaykit show refund-7")


if __name__ == "__main__":
    ask()
    answer()
    take_another_way()
    look_at_it()
