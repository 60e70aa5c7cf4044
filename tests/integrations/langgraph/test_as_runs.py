"""A thread is a run: every command shows it, and what it shows reads well."""

from __future__ import annotations

import json
import operator
import random
import re
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from click.testing import CliRunner
from graphs_for_savers import THREAD, Count, approval, ask, both, chat, counter, delta, history, nested, spread
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.func import entrypoint
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command

import replaykit as rk
from replaykit.cli import cli
from replaykit.formats.files import import_trace
from replaykit.integrations.langgraph import ReplayKitSaver
from replaykit.model.events import Note, State
from replaykit.model.run import RunHeader, TraceRun, encode_run


def replaykit(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(cli, [*arguments, "--store", "threads.db"])
    assert done.exit_code == code, done.output
    return done.output


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def run_of(name: str) -> TraceRun:
    with rk.Store.open("threads.db", read_only=True) as store:
        return store.load(f"thread:{name}")


def header_of(name: str) -> RunHeader:
    return run_of(name).header


@pytest.fixture
def counted(saver: ReplayKitSaver) -> Any:
    """A thread that has counted to four."""
    graph = counter(saver)
    graph.invoke({"n": 0, "log": []}, thread("count"), durability="sync")
    return graph


def test_runs_lists_threads_by_their_names(saver: ReplayKitSaver, counted: Any) -> None:
    approval(saver).invoke({"n": 0, "log": []}, thread("waits"))
    with pytest.raises(ValueError, match="no 2"):
        counter(saver, fails_at=2).invoke({"n": 0, "log": []}, thread("fails"))

    lines = [line.split() for line in replaykit("runs").splitlines()[1:]]

    assert [line[:2] for line in lines] == [
        ["thread:fails", "error"],
        ["thread:waits", "running"],
        ["thread:count", "success"],
    ]


def test_show_tells_what_each_node_wrote_in_which_step(counted: Any) -> None:
    text = replaykit("show", "count")

    head, events = text.split("\n\n")
    assert head.splitlines()[0] == "thread:count  success  count"
    assert "input    {'n': 0, 'log': []}" in head
    assert "output   {'n': 4, 'log': ['added to 0', 'added to 1', 'added to 2', 'added to 3']}" in head
    told = [re.sub(r"^ *\d+ +[+]\d+\.\d+s |, 'task'.*", "", line) for line in events.splitlines()]
    assert told[0] == "[input] checkpoint"
    assert {line for line in told if "step_0" in line or "step_1" in line} == {
        "[step_0] input {'writes': [['n', 0], ['log', []], ['branch:to:add', None]]",
        "[step_0] checkpoint (change)",
        "[step_1] add {'writes': [['n', 1], ['log', ['added to 0']], ['branch:to:add', None]]",
        "[step_1] checkpoint (change)",
    }
    assert len(told) == 11


def test_show_gives_a_step_its_state_and_the_whole_log(counted: Any) -> None:
    state = json.loads(replaykit("show", "count", "--step", "step_2", "--state"))
    step = replaykit("show", "thread:count", "--step", "step_2")
    log = json.loads(replaykit("show", "count", "--json"))

    assert state == {"n": 2, "log": ["added to 0", "added to 1"], "branch:to:add": None}
    assert "added to 1" in step
    assert log["run"]["id"] == "thread:count"
    assert [event["type"] for event in log["run"]["events"]].count("state") == 6


def test_checkpoints_names_the_steps_as_langgraph_numbers_them(counted: Any) -> None:
    lines = replaykit("show", "--steps", "count").splitlines()[1:]

    assert [line.split()[0] for line in lines] == ["input", *(f"step_{n}" for n in range(5))]
    assert all(line.split()[2] == "state" for line in lines)
    numbers = {state["step"]: state["values"] for state in history(counted, thread("count"))}
    for number in range(5):
        shown = json.loads(replaykit("show", "count", "--step", f"step_{number}", "--state"))
        assert shown["n"] == numbers[number]["n"]


def test_compare_finds_nothing_in_a_copy_and_the_place_where_threads_part(saver: ReplayKitSaver, counted: Any) -> None:
    saver.copy_thread("count", "copy")
    same = replaykit("compare", "count", "copy")
    counted.update_state(thread("copy"), {"log": ["extra"]})
    other = replaykit("compare", "count", "copy", code=1)

    assert same.startswith("identical")
    assert "$.log[4]: 'extra'" in other


def test_tree_shows_subgraphs_below_their_thread(saver: ReplayKitSaver) -> None:
    graph = nested(saver)
    graph.invoke({"n": 0, "log": []}, thread("deep"))

    first, second = replaykit("show", "--forks", "thread:deep").splitlines()

    assert first == "thread:deep  running  deep"
    assert re.fullmatch(r"└─ thread:deep/inner:[0-9a-f-]{36}  running  deep/inner", second)
    assert replaykit("show", "deep").startswith("thread:deep  running"), "the name is the thread's, not the subgraph's"
    assert replaykit("show", "deep/inner").startswith("thread:deep/inner:")


def test_a_thread_can_be_exported_and_goes_on_in_another_store(saver: ReplayKitSaver, own_directory: Path) -> None:
    graph = chat(saver)
    graph.invoke(ask("one"), THREAD)
    Path("thread.json").write_text(replaykit("export", "thread:t"))
    (run,) = import_trace("thread.json").runs
    with rk.Store.open("other.db") as store:
        store.add(run)

    with ReplayKitSaver("other.db") as other:
        assert history(chat(other)) == history(graph)
        moved = chat(other).invoke(ask("two"), THREAD)
    stayed = graph.invoke(ask("two"), THREAD)

    assert moved == stayed
    with rk.Store.open("other.db", read_only=True) as store:
        assert list(store.verify()) == []
        assert len(store.load("thread:t").events) > len(run.events)


AGENT = "def agent(state):\n    return {'ten times': state['n'] * 10}\n"


def test_a_thread_can_be_forked_and_resumed_by_an_agent_that_takes_a_state(
    saver: ReplayKitSaver, counted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("tenfold.py").write_text(AGENT)
    monkeypatch.syspath_prepend(".")

    forked = replaykit("fork", "thread:count", "--step", "step_3", "--set", "n=5", "--agent", "tenfold:agent")
    resumed = replaykit("resume", "thread:count", "--step", "step_2", "--agent", "tenfold:agent")

    assert "output   {'ten times': 50}" in forked
    assert "output   {'ten times': 20}" in resumed
    family = replaykit("show", "--forks", "thread:count")
    assert "forked at step_3  count@step_3" in family
    assert [item.checkpoint["channel_values"].get("n") for item in saver.list(thread("count"))] == [4, 3, 2, 1, 0, None]

    before = run_of_fork(forked)
    saver.prune(["count"])
    assert run_of_fork(forked) == before, "a fork keeps what it shares with its thread"
    saver.delete_thread("count")
    assert run_of_fork(forked) == before
    assert "none damaged" in replaykit("store", "verify")


def run_of_fork(told: str) -> Any:
    with rk.Store.open("threads.db", read_only=True) as store:
        return store.load(told.split()[0]).events


def test_a_thread_with_an_error_makes_a_case(saver: ReplayKitSaver) -> None:
    with pytest.raises(ValueError, match="no 2"):
        counter(saver, fails_at=2).invoke({"n": 0, "log": []}, thread("fails"))

    made = replaykit("scaffold", "thread:fails", "--out", "cases/fails")

    assert "note: a LangGraph thread holds states and no calls" in made
    assert "run.error: 'ValueError: no * today'" in Path("cases/fails/case.yaml").read_text().replace('"', "'")


def test_the_header_says_how_the_thread_stands(saver: ReplayKitSaver) -> None:
    graph = approval(saver)
    graph.invoke({"n": 0, "log": []}, thread("t"))
    waits = header_of("t")
    graph.invoke(Command(resume="yes"), thread("t"))
    done = header_of("t")
    graph.update_state(thread("t"), {"log": ["more"]})
    changed = header_of("t")

    assert (waits.status, waits.input, waits.ended_at) == ("running", {"n": 0, "log": []}, None)
    assert (done.status, done.output) == ("success", {"n": 1, "log": ["prepared", "answer yes"]})
    assert done.ended_at is not None
    assert changed.output == {"n": 1, "log": ["prepared", "answer yes", "more"]}
    assert waits.started_at == changed.started_at


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_an_error_stays_until_the_thread_goes_on(saver: ReplayKitSaver, durability: Any) -> None:
    graph = counter(saver, fails_at=2)
    with pytest.raises(ValueError, match="no 2"):
        graph.invoke({"n": 0, "log": []}, THREAD, durability=durability)
    failed = header_of("t")
    graph.invoke(None, THREAD, durability=durability)
    done = header_of("t")

    assert (failed.status, str(failed.error)) == ("error", "ValueError: no 2 today")
    assert failed.error is not None
    assert "raise ValueError" in (failed.error.traceback or "")
    assert (done.status, done.error) == ("success", None)


def test_an_error_that_is_known_before_the_checkpoint_it_follows_is_not_forgotten(saver: ReplayKitSaver) -> None:
    first, second = (str(uuid6(clock_seq=step)) for step in (0, 1))
    wanted = {"thread_id": "t", "checkpoint_ns": ""}

    def kept(checkpoint: str, step: int) -> None:
        values: Any = {**empty_checkpoint(), "id": checkpoint, "channel_values": {"branch:to:a": None}}
        saver.put({"configurable": wanted}, values, {"step": step}, {"branch:to:a": 1})  # type: ignore[typeddict-item]

    saver.put_writes({"configurable": {**wanted, "checkpoint_id": second}}, [("__error__", ValueError("no"))], "task")
    saver.close()
    kept(first, 0)
    between = header_of("t").status
    saver.close()
    kept(second, 1)

    assert (between, header_of("t").status, str(header_of("t").error)) == ("running", "error", "ValueError: no")


def test_an_error_stays_when_the_rest_of_the_thread_is_pruned(saver: ReplayKitSaver) -> None:
    with pytest.raises(ValueError, match="no 2"):
        counter(saver, fails_at=2).invoke({"n": 0, "log": []}, THREAD, durability="sync")

    saver.prune(["t"])

    kinds = {type(event).__name__ for event in run_of("t").events}
    assert kinds == {"State", "Note", "ErrorEvent"}
    assert header_of("t").status == "error"
    assert counter(saver).invoke(None, THREAD)["n"] == 4
    assert header_of("t").status == "success"


def test_what_is_left_to_do_is_seen_in_every_kind_of_graph(saver: ReplayKitSaver) -> None:
    spread(saver).invoke({"words": ["a", "bc"], "sizes": []}, thread("sent"))
    assert header_of("sent").status == "success"
    assert header_of("sent").output == {"words": ["a", "bc"], "sizes": [1, 2], "total": 3}

    joined = both(saver)
    joined.invoke({"n": 0, "log": []}, thread("joined"))
    answers = {item.id: "yes" for item in joined.get_state(thread("joined")).interrupts}
    joined.invoke(Command(resume=answers), thread("joined"), interrupt_before=["done"])
    assert header_of("joined").status == "running", "both have come, and what waits for them has not run"
    joined.invoke(None, thread("joined"))
    assert header_of("joined").status == "success"
    assert header_of("joined").output["n"] == 2

    @entrypoint(checkpointer=saver)
    def flow(n: int) -> Any:
        return entrypoint.final(value={"twice": n * 2}, save=n)

    flow.invoke(4, thread("flow"))
    assert (header_of("flow").input, header_of("flow").output) == (4, {"twice": 8})


def test_a_node_that_waits_for_the_end_is_left_to_do(saver: ReplayKitSaver) -> None:
    graph = StateGraph(Count)
    graph.add_node("left", lambda state: {"log": ["left"]})
    graph.add_node("right", lambda state: {"log": ["right"]})
    graph.add_node("last", lambda state: {"n": len(state["log"])}, defer=True)
    graph.add_edge(START, "left")
    graph.add_edge(START, "right")
    graph.add_edge(["left", "right"], "last")
    built = graph.compile(checkpointer=saver)

    built.invoke({"n": 0, "log": []}, THREAD, interrupt_before=["last"])
    assert header_of("t").status == "running"
    built.invoke(None, THREAD)
    assert (header_of("t").status, header_of("t").output["n"]) == ("success", 2)


def test_notes_are_called_what_they_are(saver: ReplayKitSaver) -> None:
    graph = approval(saver)
    graph.invoke({"n": 0, "log": []}, THREAD, durability="sync")
    graph.invoke(Command(resume="yes"), THREAD, durability="sync")
    graph.update_state(THREAD, {"n": 9}, as_node="prepare")
    spread(saver).invoke({"words": ["a"], "sizes": []}, thread("sent"), durability="sync")

    def names(name: str) -> list[str]:
        return sorted(event.name for event in run_of(name).events if isinstance(event, Note))

    assert names("t") == ["approve", "approve", "input", "prepare", "resume", "update"]
    assert names("sent") == ["input", "send", "total"]


def test_steps_have_one_name_each_whatever_comes_first(saver: ReplayKitSaver) -> None:
    """In the default durability checkpoints are kept beside the run, and may come after what is written on them."""
    first, second, third = (str(uuid6(clock_seq=step)) for step in (-1, 0, 1))

    def wrote(checkpoint: str) -> None:
        saver.put_writes({"configurable": {**wanted, "checkpoint_id": checkpoint}}, [("n", 1)], checkpoint, "")

    def kept(checkpoint: str, step: int, parent: str | None) -> None:
        about = {**wanted, **({"checkpoint_id": parent} if parent else {})}
        saver.put({"configurable": about}, {**empty_checkpoint(), "id": checkpoint}, {"step": step}, {})  # type: ignore[typeddict-item, arg-type]

    wanted = {"thread_id": "t", "checkpoint_ns": ""}
    wrote(second)
    kept(first, -1, None)
    kept(second, 0, first)
    wrote(first)
    kept(third, 1, second)
    wrote(second)

    steps = [(type(event).__name__, event.step) for event in run_of("t").events]

    assert steps == [
        ("Note", "step_1"),
        ("State", "input"),
        ("State", "step_0"),
        ("Note", "step_0"),
        ("State", "step_1"),
    ]


def test_branches_of_a_thread_have_steps_of_their_own(saver: ReplayKitSaver) -> None:
    graph = counter(saver)
    for _ in range(3):
        graph.invoke({"n": 0, "log": []}, thread("t"))
    assert all("." not in (event.step or "") for event in run_of("t").events)

    middle = next(state for state in graph.get_state_history(THREAD) if state.values.get("n") == 2)
    for _ in range(2):
        graph.invoke(None, middle.config)
    names = [event.step or "" for event in run_of("t").events if isinstance(event, State)]

    assert len(names) == len(set(names))
    assert {name.partition(".")[2] for name in names} == {"", "2", "3"}


def message(number: int) -> dict[str, Any]:
    return {"role": "tool", "content": random.Random(number).randbytes(400).hex(), "id": f"m{number}"}


class Talk(TypedDict, total=False):
    messages: Annotated[list[dict[str, Any]], operator.add]
    last: Annotated[list[str], lambda _, now: now]
    n: int


def talk(saver: ReplayKitSaver, steps: int) -> None:
    """Each step adds a message; two nodes take turns, so that channels come and go before others that stay."""
    graph = StateGraph(Talk)
    for name in ("a", "b"):
        graph.add_node(name, lambda state: {"messages": [message(state["n"])], "n": state["n"] + 1, "last": ["x"]})
    graph.add_edge(START, "a")
    graph.add_conditional_edges("a", lambda state: END if state["n"] >= steps else "b")
    graph.add_conditional_edges("b", lambda state: END if state["n"] >= steps else "a")
    built = graph.compile(checkpointer=saver)
    limits = {**THREAD, "recursion_limit": steps + 10}
    assert len(built.invoke({"messages": [], "n": 0}, limits, durability="sync")["messages"]) == steps


def test_bytes_are_linear_in_steps() -> None:
    sizes = {}
    for steps in (100, 300):
        path = Path(f"{steps}.db")
        with ReplayKitSaver(path) as saver:
            talk(saver, steps)
        sizes[steps] = path.stat().st_size

    content = 300 * 400
    assert sizes[300] < 3.5 * sizes[100]
    assert sizes[300] < 6 * content, sizes


def test_a_channel_that_comes_and_goes_does_not_make_states_whole(saver: ReplayKitSaver) -> None:
    values = {"messages": [message(n) for n in range(50)], "z": 1}
    for number in range(40):
        now = {"messages": values["messages"], **({"branch": number} if number % 2 else {}), "z": number}
        versions = dict.fromkeys(["messages", "branch", "z"], number + 1)
        checkpoint: Any = {
            **empty_checkpoint(),
            "id": f"{number:04}",
            "channel_values": now,
            "channel_versions": versions,
        }
        saver.put({"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, checkpoint, {"step": number}, versions)  # type: ignore[arg-type]

    whole = [event for event in run_of("t").events if isinstance(event, State) and event.change is None]

    assert len(whole) == 1


def test_a_delta_channel_far_from_its_last_whole_value_is_found_fast(saver: ReplayKitSaver) -> None:
    """The states between are not read: they do not hold the channel."""
    graph = delta(saver, until=150, snapshots=1000)
    graph.invoke({"n": 1, "log": []}, {**THREAD, "recursion_limit": 500}, durability="sync")
    read: list[int] = []
    with saver._saver_store as store:
        original = store.state_json
        store.state_json = lambda *given: (read.append(1), original(*given))[1]  # type: ignore[method-assign, func-returns-value]
        assert len(graph.get_state(THREAD).values["log"]) == 149
        del store.state_json

    assert len(read) <= 2


def test_the_run_log_of_a_thread_is_read_again(saver: ReplayKitSaver, counted: Any) -> None:
    run = run_of("count")

    Path("log.json").write_bytes(encode_run(run))

    assert import_trace("log.json").runs == (run,)
