"""Many writers, sudden ends, forks, damage and odd names: threads stay whole, or there is a named error."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from graphs_for_savers import THREAD, Elsewhere, approval, chat, counter, history
from langgraph.checkpoint.base import empty_checkpoint

import replaykit as rk
from replaykit.errors import CorruptStore, StoreError, UsageError
from replaykit.integrations.langgraph import ReplayKitSaver, records
from replaykit.integrations.langgraph import saver as saver_module

HERE = Path(__file__).parent


def config(thread: Any, checkpoint: str | None = None) -> Any:
    wanted = {"thread_id": thread, "checkpoint_ns": ""}
    return {"configurable": wanted if checkpoint is None else {**wanted, "checkpoint_id": checkpoint}}


def put(saver: ReplayKitSaver, thread: Any, number: int, parent: str | None = None, **values: Any) -> str:
    """Put a checkpoint whose values say which one it is."""
    values = {"n": number, "log": [f"entry {n}" for n in range(number % 20)], **values}
    checkpoint: Any = {
        **empty_checkpoint(),
        "id": f"{number:08}",
        "channel_values": values,
        "channel_versions": dict.fromkeys(values, number + 1),
    }
    metadata: Any = {"source": "loop", "step": number}
    saver.put(config(thread, parent), checkpoint, metadata, dict.fromkeys(values, number + 1))
    return str(checkpoint["id"])


def assert_whole(path: str = "threads.db") -> None:
    with rk.Store.open(path, read_only=True) as store:
        assert list(store.verify()) == []


WRITER = """
import sys, threading
from pathlib import Path
sys.path.insert(0, str(Path(sys.argv[1]).parent))
from replaykit.integrations.langgraph import ReplayKitSaver
import test_robustness as tests

saver, process, failed = ReplayKitSaver("threads.db"), int(sys.argv[2]), []

def write(thread):
    try:
        for i in range(15):
            number = i * 100 + process * 10 + thread
            for name in ("shared", f"own {process} {thread}"):
                checkpoint = tests.put(saver, name, number)
                saver.put_writes(tests.config(name, checkpoint), [("n", number)], f"task {thread}")
                assert saver.get_tuple(tests.config(name, checkpoint)).checkpoint["channel_values"]["n"] == number
    except BaseException as error:
        failed.append(repr(error))

threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(failed)
"""


@pytest.mark.exhaustive
def test_two_processes_of_four_threads_each_write_to_one_thread_and_to_many(own_directory: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(HERE / "x"), *"p"]
    writers = [
        subprocess.Popen([*command[:-1], str(n)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for n in range(2)
    ]
    told = [writer.communicate(timeout=60) for writer in writers]
    numbers = {i * 100 + p * 10 + t for i in range(15) for p in range(2) for t in range(4)}

    assert [out.split() for out, _ in told] == [["[]"], ["[]"]], told
    with ReplayKitSaver("threads.db") as saver:
        found = [*saver.list(config("shared"))]
        assert [item.checkpoint["channel_values"]["n"] for item in found] == sorted(numbers, reverse=True)
        assert all(len(item.pending_writes or ()) == 1 for item in found)
        owned = [item for p in range(2) for t in range(4) for item in saver.list(config(f"own {p} {t}"))]
        assert {item.checkpoint["channel_values"]["n"] for item in owned} == numbers
        for item in [*found, *owned]:
            assert item.checkpoint["channel_values"]["log"] == [
                f"entry {n}" for n in range(int(item.config["configurable"]["checkpoint_id"]) % 20)
            ]
    assert_whole()


def test_eight_threads_run_graphs_on_one_saver(saver: ReplayKitSaver) -> None:
    graph = counter(saver, until=6)

    def run(number: int) -> Any:
        return graph.invoke({"n": number % 3, "log": []}, config(f"t{number}"), durability="sync")["n"]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(run, range(24))) == [6] * 24
    saver.close()
    assert [graph.get_state(config(f"t{number}")).values["n"] for number in range(24)] == [6] * 24
    assert_whole()


KILLED = """
import os, sys
from graphs_for_savers import THREAD, StateGraph, START, END, Count, ReplayKitSaver

def add(state):
    os.write(1, b"%d\\n" % state["n"])  # all that led here was acknowledged
    return {"n": state["n"] + 1, "log": ["x" * 500]}

builder = StateGraph(Count)
builder.add_node("add", add)
builder.add_edge(START, "add")
builder.add_conditional_edges("add", lambda state: END if state["n"] >= 300 else "add")
graph = builder.compile(checkpointer=ReplayKitSaver("threads.db"))
going = graph.get_state(THREAD).values
graph.invoke(None if going else {"n": 0, "log": []}, {**THREAD, "recursion_limit": 500}, durability="sync")
"""


@pytest.mark.exhaustive
def test_nothing_acknowledged_is_lost_when_a_process_is_killed(own_directory: Path) -> None:
    rng, acknowledged = random.Random(7), 0
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    for kill_after in (rng.randrange(5, 40), rng.randrange(5, 40)):
        process = subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, env=env)
        assert process.stdout is not None
        for _ in range(kill_after):
            process.stdout.readline()
        process.kill()
        rest, _ = process.communicate()
        lines = rest.decode().split("\n")[:-1]
        acknowledged += kill_after + len(lines) - bool(acknowledged)  # the step in flight is done again
        with ReplayKitSaver("threads.db") as saver:
            found = saver.get_tuple(THREAD)
            assert found is not None
            values = found.checkpoint["channel_values"]
            assert values["n"] >= acknowledged - 1
            assert values["log"] == ["x" * 500] * values["n"]
            acknowledged = values["n"] + 1
        assert_whole()


FORKED = """
import json, os, sys
import replaykit as rk
from replaykit.errors import StoreError
from graphs_for_savers import ReplayKitSaver, counter

def config(name): return {"configurable": {"thread_id": name}}

saver = ReplayKitSaver("threads.db")
opened = ReplayKitSaver(rk.Store.open("opened.db"))
graph = counter(saver, until=5)
graph.invoke({"n": 0, "log": []}, config("before"), durability="sync")
children = []
for number in range(3):
    child = os.fork()
    if child == 0:
        same = graph.get_state(config("before")).values["n"] == 5
        for use in (opened.get_tuple, lambda _: opened.delete_thread("x")):
            try: use(config("x")); same = False
            except StoreError: pass
        for name in ("shared", f"own {number}"):
            graph.invoke({"n": 0, "log": []}, config(name), durability="sync")
        os._exit(0 if same else 3)
    children.append(child)
graph.invoke({"n": 0, "log": []}, config("shared"), durability="sync")
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
names = ("before", "shared", "own 0", "own 1", "own 2")
print(json.dumps([codes, [graph.get_state(config(name)).values["n"] for name in names],
                  len(list(graph.get_state_history(config("shared"))))]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_workers_that_are_forked_from_a_program_that_used_its_saver_work(elsewhere: Elsewhere) -> None:
    codes, values, shared = elsewhere(FORKED)

    assert codes == [0, 0, 0]
    assert values == [5] * 5
    assert shared == 4 * 7
    assert_whole()


@pytest.mark.exhaustive
def test_an_interrupted_thread_is_answered_in_another_process(saver: ReplayKitSaver, elsewhere: Elsewhere) -> None:
    approval(saver).invoke({"n": 0, "log": []}, THREAD)
    program = """
import json
from graphs_for_savers import *
from langgraph.types import Command
with ReplayKitSaver("threads.db") as saver:
    graph = approval(saver)
    waiting = [item.value for item in graph.get_state(THREAD).interrupts]
    answer = graph.invoke(Command(resume="yes"), THREAD)
print(json.dumps([waiting, answer["log"]]))
"""

    waiting, log = elsewhere(program)

    assert waiting == [{"may I?": 1}]
    assert log == ["prepared", "answer yes"]
    assert approval(saver).get_state(THREAD).values["log"] == log, "this process sees it too"


@pytest.mark.parametrize(
    "name",
    [
        "a/b",
        "a%2Fb",
        "a%b",
        "ünï ✓",
        "",
        " ",
        "x" * 5000,
        7,
        "7/inner:1",
        "thread:t",
        "..",
        "a\nb",
        "a\0b",
        "'; DROP TABLE runs",
        "%",
    ],
    ids=lambda name: repr(name)[:20],
)
def test_any_thread_id_names_a_thread_of_its_own(saver: ReplayKitSaver, name: Any) -> None:
    graph = chat(saver)
    others = ["a", "a/b/c", "xx", "70"]
    for thread in [name, *others]:
        graph.invoke({"messages": [("human", f"I am {thread}")]}, config(thread))
    saver.close()

    assert graph.get_state(config(name)).values["messages"][0].content == f"I am {name}"
    assert {item.config["configurable"]["thread_id"] for item in saver.list(config(name))} == {str(name)}
    saver.copy_thread(name, "copy")
    assert len(list(saver.list(config("copy")))) == len(list(saver.list(config(name))))
    saver.prune([name])
    saver.delete_thread(name)
    assert saver.get_tuple(config(name)) is None
    assert all(saver.get_tuple(config(thread)) is not None for thread in others)
    assert_whole()


def test_a_thread_needs_a_name_that_can_be_written(saver: ReplayKitSaver) -> None:
    for wrong in ({"configurable": {}}, {"configurable": {"thread_id": None}}, {}):
        with pytest.raises(UsageError, match="names no thread"):
            saver.get_tuple(wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="cannot be written"):
        saver.get_tuple(config("a\ud800"))


def test_the_store_stays_where_it_was_when_the_program_goes_elsewhere(
    own_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for given in (None, "threads.db", Path("more.db")):
        with ReplayKitSaver(given) as saver:
            put(saver, "t", 1)
            saver.close()
            Path("elsewhere").mkdir(exist_ok=True)
            monkeypatch.chdir("elsewhere")
            assert saver.get_tuple(config("t")) is not None
            monkeypatch.chdir(own_directory)
    assert list(Path("elsewhere").iterdir()) == []
    with pytest.raises(UsageError, match="kept in a file"):
        ReplayKitSaver(":memory:")


def test_a_store_that_was_closed_underneath_is_an_error(store: rk.Store) -> None:
    saver = ReplayKitSaver(store)
    graph = counter(saver)
    graph.invoke({"n": 0, "log": []}, THREAD)
    saver.close()  # a store that was handed over stays open
    assert graph.get_state(THREAD).values["n"] == 4
    store.close()

    with pytest.raises(StoreError):
        graph.invoke({"n": 0, "log": []}, THREAD)
    with pytest.raises(StoreError):
        graph.get_state(THREAD)
    with pytest.raises(StoreError):
        saver.delete_thread("t")


@pytest.mark.parametrize("table", ["events", "packs", "runs"])
def test_damage_is_a_named_error_and_never_an_empty_thread(saver: ReplayKitSaver, table: str) -> None:
    for number in range(100):
        put(saver, "t", number, f"{number - 1:08}" if number else None)
    column = "header" if table == "runs" else "data"
    with closing(sqlite3.connect("threads.db")) as db, db:
        rows = db.execute(f"UPDATE {table} SET {column} = substr({column}, 1, length({column}) - 1) || 'x'").rowcount
    assert rows
    saver.close()

    for _ in range(3):
        with pytest.raises(CorruptStore):
            saver.get_tuple(config("t", f"{0:08}"))
        with pytest.raises(CorruptStore):
            put(saver, "t", 1000)


@pytest.mark.parametrize("table", ["events", "packs"])
def test_events_that_are_missing_are_a_named_error(saver: ReplayKitSaver, table: str) -> None:
    for number in range(300):
        put(saver, "t", number, **{"branch:to:more": None})
    put(saver, "t", 300)  # it ends, so its log moves into the database
    put(saver, "t", 301, **{"branch:to:more": None})  # it goes on, so its header does not say how many events it has
    saver.close()
    with closing(sqlite3.connect("threads.db")) as db, db:
        assert db.execute(f"DELETE FROM {table} WHERE key = (SELECT min(key) FROM {table})").rowcount == 1

    for _ in range(2):
        with pytest.raises(CorruptStore, match="missing"):
            saver.get_tuple(config("t"))


@pytest.mark.parametrize("begun", [False, True], ids=["the first checkpoint", "a later one"])
def test_a_checkpoint_that_finds_no_room_leaves_the_thread_as_it_was(store: rk.Store, begun: bool) -> None:
    saver = ReplayKitSaver(store)
    if begun:
        put(saver, "t", 1)
    store.db.execute("PRAGMA max_page_count = 30")
    with pytest.raises(StoreError, match="full"):
        put(saver, "t", 2, **{f"x{n}": random.Random(n).randbytes(9000).hex() for n in range(20)})
    assert saver.get_tuple(config("t", f"{2:08}")) is None
    store.db.execute("PRAGMA max_page_count = 100000")

    put(saver, "t", 3)

    found = [*saver.list(config("t"))]
    assert [item.checkpoint["channel_values"]["n"] for item in found] == ([3, 1] if begun else [3])
    assert [*ReplayKitSaver(store).list(config("t"))] == found
    assert list(store.verify()) == []


def test_a_thread_that_another_process_prunes_is_seen_as_it_is(saver: ReplayKitSaver) -> None:
    last = None
    for number in range(150):
        last = put(saver, "t", number, last)
    with ReplayKitSaver("threads.db") as other:  # another connection is what another process has
        other.prune(["t"])

        assert saver.get_tuple(config("t", f"{70:08}")) is None
        latest = saver.get_tuple(config("t"))
        assert latest is not None
        assert latest.checkpoint["channel_values"]["n"] == 149
        put(saver, "t", 150, last)
        assert [item.checkpoint["channel_values"]["n"] for item in other.list(config("t"))] == [150, 149]
        other.delete_thread("t")
        assert saver.get_tuple(config("t")) is None
        put(saver, "t", 151)
        assert [item.checkpoint["channel_values"]["n"] for item in other.list(config("t"))] == [151]
    assert_whole()


def test_readers_see_one_moment_and_no_writer_loses_a_checkpoint_while_another_prunes(saver: ReplayKitSaver) -> None:
    wrong: list[str] = []
    done = threading.Event()

    def read() -> None:
        with ReplayKitSaver("threads.db") as reader:
            while not done.is_set():
                latest = reader.get_tuple(config("t"))
                if latest is None:
                    wrong.append("no thread")
                for item in [*([latest] if latest else []), *reader.list(config("t"), limit=5)]:
                    number = int(item.config["configurable"]["checkpoint_id"])
                    if item.checkpoint["channel_values"]["n"] != number:
                        wrong.append(f"{number} has {item.checkpoint['channel_values']['n']}")

    def prune() -> None:
        with ReplayKitSaver("threads.db") as pruner:
            while not done.is_set():
                pruner.prune(["t"])

    last = put(saver, "t", 0)
    with ThreadPoolExecutor(3) as pool:
        others = [pool.submit(read), pool.submit(read), pool.submit(prune)]
        for number in range(1, 150):
            last = put(saver, "t", number, last)
            found = saver.get_tuple(config("t", last))
            if found is None or found.checkpoint["channel_values"]["n"] != number:
                wrong.append(f"{number} is lost")
        done.set()
        for other in others:
            other.result(timeout=30)

    assert wrong == []
    assert_whole()


def test_a_checkpoint_that_is_put_while_another_process_prunes_is_not_lost(
    saver: ReplayKitSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        put(saver, "t", number)
    with ReplayKitSaver("threads.db") as other:
        late = threading.Thread(target=put, args=(other, "t", 5))
        without = saver_module.without

        def without_in_time(*arguments: Any) -> Any:
            late.start()
            late.join(0.2)  # it waits for its turn; it would be through by now if it did not have to
            return without(*arguments)

        monkeypatch.setattr(saver_module, "without", without_in_time)
        saver.prune(["t"])
        late.join(30)

        for reader in (saver, other):
            assert [item.checkpoint["channel_values"]["n"] for item in reader.list(config("t"))] == [5, 4]


def test_more_threads_than_are_kept_in_memory(saver: ReplayKitSaver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saver_module, "_OPEN_THREADS", 20)
    for _ in range(2):
        for thread in range(50):
            number = len(list(saver.list(config(thread))))
            put(saver, thread, number, f"{number - 1:08}" if number else None, name=thread)
    assert len(saver._logs) == 20

    for thread in range(50):
        found = [item.checkpoint["channel_values"] for item in saver.list(config(thread))]
        assert [(values["name"], values["n"]) for values in found] == [(thread, 1), (thread, 0)]


def test_large_threads_do_not_stay_in_memory_together(saver: ReplayKitSaver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saver_module, "_OPEN_BYTES", 100_000)
    for thread in range(10):
        saver.put_writes(config(thread, put(saver, thread, 0)), [("n", "x" * 40_000)], "task")

    assert len(saver._logs) <= 4
    assert all(len(saver.get_tuple(config(thread)).pending_writes) == 1 for thread in range(10))  # type: ignore[union-attr, arg-type]


@pytest.mark.parametrize("limit", [0, 3000, 10**9])
def test_states_are_the_same_from_memory_and_from_the_store(
    saver: ReplayKitSaver, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(records, "_LIMIT_BYTES", limit)
    last = None
    for number in range(60):
        last = put(saver, "t", number, last, more="x" * number)

    for _ in range(2):
        found = [item.checkpoint["channel_values"] for item in saver.list(config("t"))]
        assert [(values["n"], len(values["more"])) for values in found] == [(n, n) for n in reversed(range(60))]
        assert all(len(values["log"]) == values["n"] % 20 for values in found)
        saver.close()


def test_a_thread_that_goes_on_after_its_end_is_a_whole_run_again(saver: ReplayKitSaver) -> None:
    graph = counter(saver)
    with rk.Store.open("threads.db") as store:
        for _ in range(3):
            graph.invoke({"n": 0, "log": []}, THREAD)
            header = store.header("thread:t")
            assert header.event_count == len(store.load("thread:t").events)
            graph.update_state(THREAD, {"n": 1}, as_node="__start__")
            assert store.header("thread:t").event_count is None, "something is left to do"
        assert list(store.verify()) == []
    assert len(history(graph)) > 20
