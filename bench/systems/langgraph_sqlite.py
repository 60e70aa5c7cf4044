"""LangGraph's SqliteSaver: the whole state in one row a step; and the same through its beta DeltaChannel.

Only `put` is timed. A graph also calls `put_writes` once a step, which would make its figure larger.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import measurements
import workloads
from clock import Stopwatch, disk_bytes
from measurements import Checkpoints, Numbers

NAME = "LangGraph SqliteSaver"
DISTRIBUTION = "langgraph-checkpoint-sqlite"

_SYNCHRONOUS = {"process": "NORMAL", "power": "FULL"}


def checkpoints(work: Path, steps: int, durability: str = "process", text: str = "prose") -> Numbers:
    """The saver driven directly, as a graph drives it after each step."""
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.checkpoint.sqlite import SqliteSaver

    def begin(home: Path) -> Checkpoints:
        connection = _connect(home, durability)
        saver = SqliteSaver(connection)
        saver.setup()
        thread = {"configurable": {"thread_id": "bench", "checkpoint_ns": ""}}
        version: str | None = None

        def write(state: dict[str, Any]) -> dict[str, Any]:
            nonlocal thread, version
            version = saver.get_next_version(version, None)
            versions = dict.fromkeys(state, version)
            checkpoint = {**empty_checkpoint(), "channel_values": state, "channel_versions": versions}
            metadata = {"source": "loop", "step": state["step"], "parents": {}}
            thread = saver.put(thread, checkpoint, metadata, versions)
            return thread

        def reopen() -> Any:
            again = SqliteSaver(_connect(home, durability))
            return lambda address: again.get_tuple(address).checkpoint["channel_values"]

        return Checkpoints(write=write, close=connection.close, reopen=reopen)

    return measurements.checkpoints(begin, work, steps, text)


def _connect(work: Path, durability: str) -> sqlite3.Connection:
    connection = sqlite3.connect(work / "checkpoints.db", check_same_thread=False)
    connection.execute(f"PRAGMA synchronous={_SYNCHRONOUS[durability]}")
    return connection


def delta_channel(work: Path, steps: int) -> Numbers:
    """Bytes of a graph whose messages live in a DeltaChannel: only a graph can drive that one."""
    from typing import Annotated, TypedDict

    from langgraph.channels.delta import DeltaChannel
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, StateGraph

    messages = workloads.messages(steps)

    def append(state: list[Any] | None, writes: list[list[Any]]) -> list[Any]:
        return [*(state or []), *(item for write in writes for item in write)]

    fields = {"step": int, "messages": Annotated[list[Any], DeltaChannel(append)]}
    state_type = TypedDict("state_type", fields)  # type: ignore[misc]
    graph = StateGraph(state_type)
    graph.add_node("work", lambda state: {"step": state["step"] + 1, "messages": [messages[state["step"]]]})
    graph.add_edge(START, "work")
    graph.add_conditional_edges("work", lambda state: "work" if state["step"] < steps else END)

    connection = _connect(work, "process")
    compiled = graph.compile(checkpointer=SqliteSaver(connection))
    config = {"configurable": {"thread_id": "bench"}, "recursion_limit": steps + 5}
    with Stopwatch() as watch:
        last = compiled.invoke({"step": 0, "messages": []}, config, durability="sync")
    if last["messages"] != messages:
        raise AssertionError("the graph lost messages")
    connection.close()
    return {"bytes": disk_bytes(work), "graph_step_us": watch.cpu_s / steps * 1e6}


def graph_agent(work: Path, steps: int, kind: str, durability: str = "process") -> Numbers:
    """A graph on this saver."""
    import graphs
    from langgraph.checkpoint.sqlite import SqliteSaver

    def begin(home: Path) -> tuple[SqliteSaver, Callable[[], None]]:
        connection = _connect(home, durability)
        saver = SqliteSaver(connection)
        saver.setup()
        return saver, connection.close

    return graphs.agent(begin, work, steps, kind)


def import_time(work: Path) -> Numbers:
    return measurements.start_up("import langgraph.checkpoint.sqlite", work)
