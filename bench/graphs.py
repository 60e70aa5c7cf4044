"""A LangGraph agent of many steps, the same for every checkpointer: what keeping its checkpoints costs."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import workloads
from clock import disk_bytes
from measurements import Numbers

_WARM_STEPS = 100


class Costs:
    """CPU and wall seconds spent in a saver's two ways of writing."""

    cpu_s = 0.0
    wall_s = 0.0

    def timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            wall, cpu = time.perf_counter(), time.thread_time()
            try:
                return method(*arguments, **options)
            finally:
                self.cpu_s += time.thread_time() - cpu
                self.wall_s += time.perf_counter() - wall

        return call


def agent(begin: Callable[[Path], tuple[Any, Callable[[], None]]], work: Path, steps: int, kind: str) -> Numbers:
    """Run the agent on the saver that `begin` opens; `kind` is what its messages are: `dict`, or `AIMessage`."""
    _run(begin, work / "warm", _WARM_STEPS, kind)  # imports and compiles what is needed first
    return _run(begin, work / "graph", steps, kind)


def _run(begin: Callable[[Path], tuple[Any, Callable[[], None]]], home: Path, steps: int, kind: str) -> Numbers:
    from langgraph.graph import END, START, StateGraph
    from langgraph.graph.message import add_messages

    home.mkdir()
    saver, close = begin(home)
    said = _messages(steps, kind)
    reducer = operator.add if kind == "dict" else add_messages
    fields = {"step": int, "messages": Annotated[list[Any], reducer]}
    state_type = TypedDict("state_type", fields)  # type: ignore[misc]
    graph = StateGraph(state_type)
    graph.add_node("work", lambda state: {"step": state["step"] + 1, "messages": [said[state["step"]]]})
    graph.add_edge(START, "work")
    graph.add_conditional_edges("work", lambda state: "work" if state["step"] < steps else END)

    costs = Costs()
    saver.put, saver.put_writes = costs.timed(saver.put), costs.timed(saver.put_writes)
    compiled = graph.compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "bench"}, "recursion_limit": steps + 5}
    compiled.invoke({"step": 0, "messages": []}, config, durability="sync")
    history = list(compiled.get_state_history(config, limit=steps // 2))
    if compiled.get_state(config).values["messages"] != said:
        raise AssertionError("the graph lost messages")
    middle = history[-1]
    if middle.values["messages"] != said[: middle.values["step"]]:
        raise AssertionError("a checkpoint mid-run is not what it was")
    close()
    return {
        "bytes": disk_bytes(home),
        "step_us": costs.cpu_s / steps * 1e6,
        "step_wall_us": costs.wall_s / steps * 1e6,
    }


def _messages(count: int, kind: str) -> list[Any]:
    plain = workloads.messages(count)
    if kind == "dict":
        return plain
    from langchain_core.messages import AIMessage

    return [AIMessage(content=message["content"], id=message["id"]) for message in plain]
