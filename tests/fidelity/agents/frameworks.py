"""Agents that are made with a framework."""

from __future__ import annotations

import asyncio
import operator
import time
from typing import Annotated, TypedDict

import trio
from collection import failing, main, ran, took
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy

import replaykit as rk


class Unusable(Exception):
    """The graph ended where it should not."""


class State(TypedDict, total=False):
    question: str
    notes: Annotated[list[str], operator.add]
    answer: str


@rk.tool
def research(topic: str):
    ran("research")
    time.sleep(0.25 if topic == "deep" else 0.05)
    return {"topic": topic, "found": 0}


@rk.tool
async def aresearch(topic: str):
    ran("aresearch")
    await asyncio.sleep(0.6 if topic == "deep" else 0.05)
    return {"topic": topic, "found": 0}


@failing("Research it in parallel")
def parallel_nodes(question: str) -> str:
    arrived: list[str] = []

    def node(topic: str):
        def study(state: State) -> State:
            found = research(topic)
            arrived.append(found["topic"])
            return {"notes": [f"{topic}: {found['found']}"]}

        return study

    graph = StateGraph(State)
    for topic in ("deep", "broad"):
        graph.add_node(topic, node(topic))
        graph.add_edge(START, topic)
        graph.add_edge(topic, END)
    result = graph.compile().invoke({"question": question, "notes": []})
    took(f"{result['notes']} {arrived}")
    if arrived[0] != "deep":
        raise Unusable(f"the first note is {arrived[0]}")
    return str(result["notes"])


@failing("Research it with a limit for each step")
async def step_timeout(question: str) -> str:
    async def study(state: State) -> State:
        return {"notes": [(await aresearch("deep"))["topic"]]}

    graph = StateGraph(State)
    graph.add_node("study", study)
    graph.add_edge(START, "study")
    graph.add_edge("study", END)
    compiled = graph.compile()
    compiled.step_timeout = 0.2
    try:
        result = await compiled.ainvoke({"question": question, "notes": []})
    except TimeoutError:
        took("timed out")
        raise Unusable("the step took too long") from None
    took("in time")
    return str(result["notes"])


@rk.tool
def flaky_search(query: str, attempt: int):
    ran("flaky_search")
    raise ConnectionError(f"attempt {attempt} failed")


@failing("Search, and try again")
def retried_node(question: str) -> str:
    attempts: list[int] = []

    def search(state: State) -> State:
        attempts.append(len(attempts) + 1)
        return {"notes": [flaky_search(question, len(attempts))]}

    graph = StateGraph(State)
    graph.add_node("search", search, retry_policy=RetryPolicy(max_attempts=3, initial_interval=0.05, jitter=True))
    graph.add_edge(START, "search")
    graph.add_edge("search", END)
    try:
        graph.compile().invoke({"question": question, "notes": []})
    except ConnectionError as error:
        took(f"{attempts} {error}")
        raise Unusable(f"{len(attempts)} attempts failed") from error
    return "found"


@task
def study_task(topic: str) -> dict:
    return research(topic)


@entrypoint()
def workflow(topics: list[str]) -> list[dict]:
    return [future.result() for future in [study_task(topic) for topic in topics]]


@failing("Research it as a workflow")
def functional_api(question: str) -> str:
    found = workflow.invoke(["deep", "broad", "broad"])
    took(str([note["topic"] for note in found]))
    if not any(note["found"] for note in found):
        raise Unusable("nothing was found")
    return "found"


@rk.tool
async def slow_lookup(key: str):
    ran("slow_lookup")
    await trio.sleep(0.6)
    return {"key": key}


@failing("Look it up in trio")
def trio_move_on(question: str) -> str:
    async def look_up() -> dict | None:
        with trio.move_on_after(0.2):
            return await slow_lookup("k")
        return None

    found = trio.run(look_up)
    took("found" if found else "moved on")
    if found is None:
        raise Unusable("moved on without an answer")
    return found["key"]


if __name__ == "__main__":
    main(globals())
