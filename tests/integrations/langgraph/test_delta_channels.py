"""Delta channels keep their value in the writes of many checkpoints: whatever is removed, the value stays."""

from __future__ import annotations

from typing import Any

import pytest
from graphs_for_savers import THREAD, delta, history, savers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from tests.matrix import examples, sampled

import replaykit as rk
from replaykit.integrations.langgraph import ReplayKitSaver


def steps(count: int) -> list[str]:
    return [f"step {n}" for n in range(count)]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_a_delta_channel_has_the_same_values_as_in_memory(durability: str) -> None:
    with savers() as all_savers:
        found = {}
        for name, saver in all_savers.items():
            graph = delta(saver)
            for _ in range(2):
                graph.invoke({"n": 0, "log": []}, THREAD, durability=durability)
            past = list(graph.get_state_history(THREAD))
            fork = graph.update_state(past[len(past) // 2].config, {"log": ["by hand"]})
            found[name] = [graph.invoke(None, fork, durability=durability), history(graph)]

    assert found["kept"] == found["memory"]
    assert found["cold"] == found["memory"]
    assert len(found["memory"][0]["log"]) > 3


def test_the_value_survives_when_only_the_latest_checkpoint_is_kept(saver: ReplayKitSaver) -> None:
    graph = delta(saver)
    for seven in range(1, 5):  # wherever the last whole value is
        graph.invoke({"n": 7 * (seven - 1), "log": []}, THREAD)
        before = graph.get_state(THREAD)
        saver.prune(["t"])
        after = graph.get_state(THREAD)

        assert len(list(graph.get_state_history(THREAD))) == 1
        assert after.values == before.values == {"n": 7 * seven, "log": steps(7 * seven)}
    saver.close()
    assert delta(saver).get_state(THREAD).values["log"] == steps(28)


@sampled("snapshots", [1, 2, 5, 100], count=2)
def test_the_value_survives_when_its_ancestors_are_deleted(saver: ReplayKitSaver, snapshots: int) -> None:
    graph = delta(saver, snapshots=snapshots)
    for number, run in enumerate(("first", "second", "third")):
        graph.invoke({"n": 7 * number, "log": []}, {**THREAD, "metadata": {"run_id": run}})
    states = [(state.metadata["run_id"], state.values) for state in graph.get_state_history(THREAD)]

    for gone in (["second"], ["first", "never heard of"]):
        saver.delete_for_runs(gone)
        states = [(run, values) for run, values in states if run not in gone]
        assert [(state.metadata["run_id"], state.values) for state in graph.get_state_history(THREAD)] == states

    assert {run for run, _ in states} == {"third"}
    assert graph.get_state(THREAD).values["log"] == steps(21)
    graph.invoke({"n": 21, "log": ["more"]}, THREAD)
    assert graph.get_state(THREAD).values["log"] == [*steps(21), "more", *(f"step {n}" for n in range(21, 28))]
    with rk.Store.open("threads.db", read_only=True) as store:
        assert list(store.verify()) == []


def test_a_copy_goes_on_by_itself(saver: ReplayKitSaver) -> None:
    graph, copy = delta(saver), {"configurable": {"thread_id": "copy"}}
    graph.invoke({"n": 0, "log": []}, THREAD)

    saver.copy_thread("t", "copy")
    graph.invoke({"n": 7, "log": ["in the copy"]}, copy)
    saver.delete_thread("t")

    assert graph.get_state(copy).values["log"] == [*steps(7), "in the copy", *(f"step {n}" for n in range(7, 14))]
    assert graph.get_state(THREAD).values == {}


removals = st.lists(st.sampled_from(["invoke", "update", "fork", "prune", "forget", "reopen", "copy"]), max_size=10)


@settings(max_examples=examples(12))
@given(removals, st.sampled_from([1, 2, 4, 100]), st.sampled_from(["sync", "exit"]))
@example(["invoke", "invoke", "prune", "update", "invoke", "forget", "fork", "copy", "prune", "invoke"], 4, "sync")
@example(["invoke", "fork", "prune", "invoke", "forget", "invoke", "prune", "update", "reopen", "invoke"], 100, "exit")
def test_whatever_is_removed_the_latest_state_is_that_of_a_thread_that_keeps_all(
    saver: ReplayKitSaver, moves: list[str], snapshots: int, durability: Any
) -> None:
    for thread in range(len(moves) + 1):
        saver.delete_thread(str(thread))
    ours, theirs = (delta(each, until=3, snapshots=snapshots) for each in (saver, InMemorySaver()))
    at = 0
    for number, move in enumerate(moves):
        configs = {ours: {"configurable": {"thread_id": str(at)}}, theirs: THREAD}
        about = {"metadata": {"run_id": f"run {number % 3}"}}
        if move == "prune":
            saver.prune([str(at)])
        elif move == "reopen":
            saver.close()
        elif move == "copy":
            saver.copy_thread(str(at), str(at + 1))
            at += 1
        elif move == "forget":
            latest = saver.get_tuple(configs[ours])
            saver.delete_for_runs([f"run {n}" for n in range(3) if latest and latest.metadata["run_id"] != f"run {n}"])
        elif move in ("invoke", "update", "fork"):
            for graph, config in configs.items():
                state = graph.get_state(config)
                if move == "invoke":
                    given = {"n": state.values.get("n", 0) + 1, "log": [f"move {number}"]}
                    graph.invoke(given, {**config, **about}, durability=durability)
                elif state.values:
                    target = config if move == "update" else state.config
                    graph.update_state({**target, **about}, {"log": [f"by hand {number}"]})
        now = {"configurable": {"thread_id": str(at)}}
        assert ours.get_state(now).values == theirs.get_state(THREAD).values


CHANNELS = ("log", "plain", "gone")
_texts = st.text("ab", max_size=2)
checkpoints = st.lists(
    st.fixed_dictionaries(
        {
            "parent": st.integers(0, 12),  # how many back; the first has none
            "values": st.dictionaries(st.sampled_from(CHANNELS[:2]), st.lists(_texts, max_size=2), max_size=2),
            "snapshot": st.booleans(),
            "writes": st.lists(
                st.tuples(st.sampled_from(CHANNELS[:2]), st.lists(_texts, max_size=2), st.integers(0, 3)), max_size=3
            ),
        }
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=examples(40))
@given(checkpoints, st.data())
def test_the_history_of_a_channel_is_what_a_walk_along_the_parents_finds(
    saver: ReplayKitSaver, plan: list[Any], data: Any
) -> None:
    memory = InMemorySaver()
    saver.delete_thread("t")
    configs = [put_all(step, number, savers=[saver, memory]) for number, step in enumerate(plan)]
    for config in [*configs, {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}]:
        wanted = data.draw(st.lists(st.sampled_from(CHANNELS), unique=True))
        found = saver.get_delta_channel_history(config=config, channels=wanted)

        assert found == BaseCheckpointSaver.get_delta_channel_history(saver, config=config, channels=wanted)
        assert found == memory.get_delta_channel_history(config=config, channels=wanted)


@settings(max_examples=examples(40))
@given(checkpoints)
def test_a_checkpoint_that_stays_has_the_history_it_had(saver: ReplayKitSaver, plan: list[Any]) -> None:
    """Also where LangGraph's metadata do not say which channels are delta channels."""
    saver.delete_thread("t")
    for number, step in enumerate(plan):
        put_all(step, number, savers=[saver])

    def histories() -> dict[str, Any]:
        """By checkpoint; one that holds the whole value needs none."""
        return {
            item.checkpoint["id"]: saver.get_delta_channel_history(config=item.config, channels=["log"])
            for item in saver.list({"configurable": {"thread_id": "t"}})
            if "log" not in item.checkpoint["channel_values"]
        }

    before = histories()
    saver.delete_for_runs(["run 1"])
    left = histories()
    saver.prune(["t"])
    last = histories()

    assert left == {checkpoint: before[checkpoint] for checkpoint in left}
    assert last == {checkpoint: before[checkpoint] for checkpoint in last}
    assert len([*saver.list({"configurable": {"thread_id": "t"}})]) == 1


def put_all(step: Any, number: int, *, savers: list[Any]) -> Any:
    """Put one checkpoint of the plan, with its writes, into all savers."""
    parent = number - 1 - step["parent"] % number if number else None
    base = {"thread_id": "t", "checkpoint_ns": ""}
    config: Any = {"configurable": base if parent is None else {**base, "checkpoint_id": f"{parent:04}"}}
    values = {
        name: _DeltaSnapshot(value) if name == "log" and step["snapshot"] else value
        for name, value in step["values"].items()
    }
    versions = dict.fromkeys(CHANNELS[:2], number + 1)
    checkpoint: Any = {
        **empty_checkpoint(),
        "id": f"{number:04}",
        "channel_values": values,
        "channel_versions": versions,
    }
    for saver in savers:
        put = saver.put(config, checkpoint, {"source": "loop", "step": number, "run_id": f"run {number % 3}"}, versions)
        for index, (channel, value, task) in enumerate(step["writes"]):
            saver.put_writes(put, [(channel, value)], f"task-{task}-{index}", f"~__pregel_pull, {task}")
    return {"configurable": {**base, "checkpoint_id": f"{number:04}"}}
