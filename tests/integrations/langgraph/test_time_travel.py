"""LangGraph's own time travel on threads kept here: the same as with its saver in memory, warm and cold."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from graphs_for_savers import (
    THREAD,
    Scripted,
    approval,
    ask,
    both,
    chat,
    counter,
    history,
    nested,
    savers,
    seen,
    spread,
    weather,
)
from langgraph.func import entrypoint, task
from langgraph.prebuilt import create_react_agent
from langgraph.types import Command, interrupt

Scenario = Callable[[Any], Any]


def assert_all_see_the_same(scenario: Scenario, names: str = "memory kept cold") -> Any:
    """Play a scenario with every saver; gives what was seen."""
    with savers() as all_savers:
        found = {name: scenario(all_savers[name]) for name in names.split()}
    for name in found:
        assert found[name] == found["memory"], name
    return found["memory"]


def test_states_and_their_history_are_the_same() -> None:
    def scenario(saver: Any) -> Any:
        graph = chat(saver)
        answers = [graph.invoke(ask(text), THREAD) for text in ("one", "two", "three")]
        numbers: dict[str, int] = {}
        return answers, history(graph), seen(graph.get_state(THREAD), numbers)

    answers, past, now = assert_all_see_the_same(scenario)

    assert [len(answer["messages"]) for answer in answers] == [2, 4, 6]
    assert len(past) == 12
    assert now["next"] == ()


def test_a_history_can_be_cut_and_filtered() -> None:
    def scenario(saver: Any) -> Any:
        graph = counter(saver)
        graph.invoke({"n": 0, "log": []}, THREAD)
        states = list(graph.get_state_history(THREAD))
        return [
            history(graph, limit=2),
            history(graph, limit=0),
            history(graph, before=states[2].config),
            history(graph, before=states[2].config, limit=1),
            history(graph, filter={"source": "input"}),
            history(graph, filter={"source": "loop", "step": 2}),
            history(graph, filter={"nothing": "like that"}),
            history(graph, filter={"nothing": None}, limit=1),
        ]

    found = assert_all_see_the_same(scenario)

    assert [len(states) for states in found] == [2, 0, 3, 1, 1, 1, 0, 1]


def test_any_state_of_the_past_can_be_read_again() -> None:
    def scenario(saver: Any) -> Any:
        graph = counter(saver, until=6)
        graph.invoke({"n": 0, "log": []}, THREAD)
        configs = [state.config for state in graph.get_state_history(THREAD)]
        numbers: dict[str, int] = {}
        return [seen(graph.get_state(config), numbers) for config in reversed(configs)]

    states = assert_all_see_the_same(scenario)

    assert [state["values"].get("n") for state in states] == [None, *range(7)]


def test_a_replay_goes_on_from_a_checkpoint() -> None:
    def scenario(saver: Any) -> Any:
        graph = counter(saver)
        graph.invoke({"n": 0, "log": []}, THREAD)
        middle = list(graph.get_state_history(THREAD))[2]
        again = graph.invoke(None, middle.config)
        return again, history(graph)

    again, past = assert_all_see_the_same(scenario)

    assert again["log"] == [f"added to {n}" for n in range(4)]
    assert len(past) > 6


def test_a_fork_goes_its_own_way_and_leaves_the_rest_alone() -> None:
    def scenario(saver: Any) -> Any:
        graph = counter(saver)
        graph.invoke({"n": 0, "log": []}, THREAD)
        before = history(graph)
        middle = list(graph.get_state_history(THREAD))[3]
        fork = graph.update_state(middle.config, {"n": 2, "log": ["changed"]})
        forked = graph.invoke(None, fork)
        numbers: dict[str, int] = {}
        return before, forked, history(graph), seen(graph.get_state(middle.config), numbers)

    before, forked, after, middle = assert_all_see_the_same(scenario)

    assert forked["log"] == ["added to 0", "changed", "added to 2", "added to 3"]
    assert [state["values"] for state in after[-len(before) :]] == [state["values"] for state in before]
    assert middle["values"]["n"] == 1


def test_a_state_can_be_changed_by_hand_as_a_node() -> None:
    def scenario(saver: Any) -> Any:
        graph = approval(saver)
        graph.invoke({"n": 0, "log": []}, THREAD)
        graph.update_state(THREAD, {"n": 10}, as_node="prepare")
        waiting = history(graph)
        graph.update_state(THREAD, {"log": ["by hand"]}, as_node="approve")
        return waiting, history(graph)

    waiting, done = assert_all_see_the_same(scenario)

    assert waiting[0]["next"] == ("approve",)
    assert done[0]["next"] == ()
    assert done[0]["values"] == {"n": 10, "log": ["prepared", "by hand"]}


def test_an_interrupt_waits_for_its_answer() -> None:
    def scenario(saver: Any) -> Any:
        graph = approval(saver)
        graph.invoke({"n": 0, "log": []}, THREAD)
        waiting = history(graph)
        answered = graph.invoke(Command(resume="yes"), THREAD)
        return waiting, answered, history(graph)

    waiting, answered, _ = assert_all_see_the_same(scenario)

    assert waiting[0]["interrupts"] == ["{'may I?': 1}"]
    assert answered["log"] == ["prepared", "answer yes"]


def test_interrupts_in_parallel_are_answered_one_by_one_or_at_once() -> None:
    def scenario(saver: Any) -> Any:
        graph = both(saver)
        found = []
        for number in range(2):
            config = {"configurable": {"thread_id": f"t{number}"}}
            graph.invoke({"n": 0, "log": []}, config)
            ids = {item.value: item.id for item in graph.get_state(config).interrupts}
            if number:
                graph.invoke(Command(resume={ids["left?"]: "yes", ids["right?"]: "no"}), config)
            else:
                graph.invoke(Command(resume={ids["right?"]: "no"}), config)
                found.append(history(graph, config))
                graph.invoke(Command(resume={ids["left?"]: "yes"}), config)
            found.append(history(graph, config))
        return found

    half, one_by_one, at_once = assert_all_see_the_same(scenario)

    assert "right says no" in half[0]["tasks"][1][3]
    assert one_by_one[0]["values"] == at_once[0]["values"] == {"n": 2, "log": ["left says yes", "right says no"]}


@pytest.mark.parametrize("own_memory", [False, True], ids=["of the thread", "of its own"])
def test_a_subgraph_has_its_states_in_a_namespace(own_memory: bool) -> None:
    def scenario(saver: Any) -> Any:
        graph = nested(saver, own_memory=own_memory)
        numbers: dict[str, int] = {}
        found = []
        for n in (0, 10):
            graph.invoke({"n": n, "log": []}, THREAD)
            waiting = graph.get_state(THREAD, subgraphs=True)
            found.append(seen(waiting, numbers))
            inner = waiting.tasks[0].state.config
            found += [seen(state, numbers) for state in graph.get_state_history(inner)]
            graph.invoke(Command(resume=5), THREAD)
            found.append(seen(graph.get_state(THREAD, subgraphs=True), numbers))
        return found

    found = assert_all_see_the_same(scenario)

    assert found[0]["tasks"][0][2] == ["add to 1, visit 1?"]
    second = next(state for state in found if state["values"].get("n") == 11 and state["tasks"])
    assert second["tasks"][0][2] == [f"add to 11, visit {2 if own_memory else 1}?"]
    assert found[-1]["values"]["log"][-1] == "inner gave 16"


def test_the_state_of_a_waiting_subgraph_can_be_changed_by_hand() -> None:
    def scenario(saver: Any) -> Any:
        graph = nested(saver)
        graph.invoke({"n": 0, "log": []}, THREAD)
        inner = graph.get_state(THREAD, subgraphs=True).tasks[0].state.config
        graph.update_state(inner, {"n": 100}, as_node="visit")
        return graph.invoke(Command(resume=5), THREAD), history(graph)

    answer, _ = assert_all_see_the_same(scenario)

    assert answer["n"] == 105


def test_tasks_that_are_sent_out_come_back_in_order() -> None:
    def scenario(saver: Any) -> Any:
        graph = spread(saver)
        answer = graph.invoke({"words": ["a", "few", "words"], "sizes": []}, THREAD)
        sent = next(state for state in graph.get_state_history(THREAD) if len(state.next) == 3)
        return answer, graph.invoke(None, sent.config), history(graph)

    answer, again, past = assert_all_see_the_same(scenario)

    assert answer["total"] == again["total"] == 9
    assert any(state["next"] == ("measure",) * 3 for state in past)


def test_after_an_error_a_thread_goes_on_where_it_failed() -> None:
    def scenario(saver: Any) -> Any:
        graph = counter(saver, fails_at=2)
        with pytest.raises(ValueError, match="no 2 today"):
            graph.invoke({"n": 0, "log": []}, THREAD)
        failed = history(graph)
        return failed, graph.invoke(None, THREAD), history(graph)

    failed, answer, _ = assert_all_see_the_same(scenario)

    assert failed[0]["tasks"][0][:2] == ("add", "\"ValueError('no 2 today')\"")
    assert answer["n"] == 4


def test_what_others_did_beside_a_failing_task_is_not_done_again() -> None:
    def scenario(saver: Any) -> Any:
        done: list[str] = []

        @task
        def work(name: str) -> str:
            done.append(name)
            if name == "bad" and done.count("bad") == 1:
                raise ValueError("bad")
            return name

        @entrypoint(checkpointer=saver)
        def flow(names: list[str]) -> list[str]:
            return [work(name).result() for name in names]

        with pytest.raises(ValueError, match="bad"):
            flow.invoke(["good", "bad"], THREAD)
        return flow.invoke(None, THREAD), done

    assert assert_all_see_the_same(scenario) == (["good", "bad"], ["good", "bad", "bad"])


def test_the_functional_api_remembers_and_waits() -> None:
    def scenario(saver: Any) -> Any:
        @task
        def double(n: int) -> int:
            return n * 2

        @entrypoint(checkpointer=saver)
        def flow(n: int, *, previous: int | None = None) -> Any:
            doubled = double(n).result()
            extra = interrupt(f"{doubled} and?")
            return entrypoint.final(value=doubled + extra + (previous or 0), save=doubled)

        found: list[Any] = []
        for n in (1, 20):
            found.append([item.value for item in flow.invoke(n, THREAD)["__interrupt__"]])
            found.append(flow.invoke(Command(resume=100), THREAD))
        return found, history(flow)

    found, _ = assert_all_see_the_same(scenario)

    assert found == [["2 and?"], 102, ["40 and?"], 142]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_every_durability_leaves_the_same_thread(durability: str) -> None:
    def scenario(saver: Any) -> Any:
        graph = nested(saver)
        graph.invoke({"n": 0, "log": []}, THREAD, durability=durability)
        waiting = history(graph)
        answer = graph.invoke(Command(resume=1), THREAD, durability=durability)
        return waiting, answer, history(graph)

    waiting, answer, past = assert_all_see_the_same(scenario)

    assert waiting[0]["interrupts"] == ["'add to 1, visit 1?'"]
    assert answer["n"] == 2
    assert len(past) == (2 if durability == "exit" else 5)


def test_streams_are_the_same() -> None:
    def scenario(saver: Any) -> Any:
        graph = counter(saver)
        updates = list(graph.stream({"n": 0, "log": []}, THREAD, stream_mode=["values", "updates"]))
        kept = [
            (part["values"], part["next"])
            for part in counter(saver).stream(
                {"n": 0, "log": []}, {"configurable": {"thread_id": "other"}}, stream_mode="checkpoints"
            )
        ]
        return updates, kept

    updates, kept = assert_all_see_the_same(scenario)

    assert updates[-1] == ("values", {"n": 4, "log": [f"added to {n}" for n in range(4)]})
    assert len(kept) == 6


def test_async_code_sees_what_plain_code_sees() -> None:
    async def play(graph: Any) -> Any:
        await graph.ainvoke({"n": 0, "log": []}, THREAD)
        numbers: dict[str, int] = {}
        waiting = [seen(state, numbers) async for state in graph.aget_state_history(THREAD)]
        await graph.aupdate_state(THREAD, {"n": 7})
        parts = [part async for part in graph.astream(Command(resume="yes"), THREAD, stream_mode="updates")]
        now = await graph.aget_state(THREAD)
        return waiting, parts, seen(now, numbers), history(graph)

    def scenario(saver: Any) -> Any:
        return asyncio.run(play(approval(saver)))

    waiting, _, now, _ = assert_all_see_the_same(scenario)

    assert waiting[0]["next"] == ("approve",)
    assert now["values"]["log"][-1] == "answer yes"


def test_many_graphs_run_at_once_in_one_loop() -> None:
    async def play(graph: Any) -> Any:
        configs = [{"configurable": {"thread_id": f"t{number}"}} for number in range(12)]
        await asyncio.gather(*(graph.ainvoke({"n": n, "log": []}, config) for n, config in enumerate(configs)))
        answers = await asyncio.gather(*(graph.ainvoke(Command(resume=1), config) for config in configs))
        return [answer["n"] for answer in answers]

    found = assert_all_see_the_same(lambda saver: asyncio.run(play(approval(saver))))

    assert found == list(range(1, 13))


def test_an_agent_with_tools_keeps_its_conversation() -> None:
    def scenario(saver: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the agent has moved to another package, which is not needed here
            graph = create_react_agent(Scripted(), [weather], checkpointer=saver)
        for city in ("Oslo", "Lima"):
            graph.invoke({"messages": [("human", city)]}, THREAD)
        messages = graph.get_state(THREAD).values["messages"]
        return [(message.type, message.content, getattr(message, "tool_calls", None)) for message in messages]

    found = assert_all_see_the_same(scenario)

    assert [kind for kind, _, _ in found] == ["human", "ai", "tool", "ai"] * 2
    assert found[-1][1] == "It is rain in Lima."


def test_a_long_conversation_stays_whole() -> None:
    def scenario(saver: Any) -> Any:
        graph = chat(saver)
        for number in range(40):
            graph.invoke(ask(f"question {number}"), THREAD)
        past = list(graph.get_state_history(THREAD, limit=30))
        numbers: dict[str, int] = {}
        return graph.get_state(THREAD).values, [seen(state, numbers) for state in past]

    now, _ = assert_all_see_the_same(scenario, "memory kept")

    assert len(now["messages"]) == 80
    assert now["turns"] == 40
