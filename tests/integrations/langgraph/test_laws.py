"""Whatever is done with a saver, it holds what LangGraph's saver in memory holds."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME
from tests.matrix import examples

import replaykit as rk
from replaykit.integrations.langgraph import ReplayKitSaver

THREADS = ("one", "two", "one/two")
NAMESPACES = ("", "inner:1", "inner:1|deep:2")
CHANNELS = ("messages", "n", "branch:to:a", "notes")

scalars = st.none() | st.booleans() | st.integers(-5, 2**63) | st.floats(allow_nan=False) | st.text(max_size=3)
messages = st.builds(HumanMessage, st.text("xy", max_size=2)) | st.builds(
    AIMessage,
    st.just("called"),
    id=st.text("ab", max_size=1),
    tool_calls=st.lists(st.just({"name": "f", "args": {"q": 1}, "id": "c"}), max_size=1),
)
items = scalars | messages | st.dictionaries(st.text("$kv", max_size=2), scalars, max_size=2)
values = items | st.lists(items, max_size=4)
number = st.integers(0, 11)
operations = st.one_of(
    st.tuples(st.just("put"), number, number, st.lists(st.tuples(number, number, values), max_size=3)),
    st.tuples(st.just("write"), number, number, st.lists(st.tuples(number, values), max_size=3)),
    st.tuples(st.just("reopen"), number, number, st.none()),
    st.tuples(st.sampled_from(["delete", "prune", "copy", "forget_runs"]), number, number, st.none()),
)


class Model(InMemorySaver):
    """The saver in memory, with what it lacks."""

    def prune(self, thread_ids: Any, *, strategy: str = "keep_latest") -> None:
        for thread in thread_ids:
            for namespace, held in self.storage.get(thread, {}).items():
                self.keep(thread, namespace, {max(held, default="")})

    def delete_for_runs(self, run_ids: Any) -> None:
        for thread, namespaces in self.storage.items():
            for namespace, held in namespaces.items():
                made = {found: self.serde.loads_typed(about[1]).get("run_id") for found, about in held.items()}
                self.keep(thread, namespace, {found for found, run in made.items() if run not in run_ids})

    def keep(self, thread: str, namespace: str, kept: set[str]) -> None:
        held = self.storage[thread][namespace]
        for checkpoint in set(held) - kept:
            del held[checkpoint]
            self.writes.pop((thread, namespace, checkpoint), None)

    def copy_thread(self, source: str, target: str) -> None:
        self.storage[target] = copy.deepcopy(self.storage[source])
        for held in (self.blobs, self.writes):
            held.update({(target, *key[1:]): copy.copy(v) for key, v in [*held.items()] if key[0] == source})  # type: ignore[attr-defined]


class Play:
    """The same moves on both savers. The program's own objects are shared by its states, and changed in place."""

    def __init__(self, saver: ReplayKitSaver) -> None:
        self.saver, self.memory = saver, Model()
        self.states: dict[tuple[str, str], dict[str, tuple[dict[str, Any], dict[str, int]]]] = {}
        self.count = 0

    def put(self, where: int, parent: int, changes: list[tuple[int, int, Any]]) -> None:
        place = (THREADS[where % 3], NAMESPACES[where // 3 % 3])
        known = self.states.setdefault(place, {})
        before = [*known][-1 - parent % len(known)] if known else None
        old_values, versions = known[before] if before else ({}, {})
        now, new_versions = dict(old_values), {}
        for channel_number, way, value in changes:
            channel = CHANNELS[channel_number % len(CHANNELS)]
            change(now, channel, way, value)
            new_versions[channel] = versions.get(channel, 0) + self.count + 1
        self.count += 1
        checkpoint: Any = {
            **empty_checkpoint(),
            "id": f"{self.count:06}",
            "channel_values": dict(now),
            "channel_versions": {**versions, **new_versions},
            "versions_seen": {"node": dict(versions)},
            "updated_channels": sorted(new_versions),
        }
        wanted = {"thread_id": place[0], "checkpoint_ns": place[1], **({"checkpoint_id": before} if before else {})}
        metadata = {"source": "loop", "step": parent - 1, "run_id": f"run {self.count % 3}", "writes": {"$a": [1]}}
        for saver in (self.saver, self.memory):
            put: Any = saver.put({"configurable": wanted}, checkpoint, metadata, new_versions)  # type: ignore[arg-type]
            assert put["configurable"]["checkpoint_id"] == checkpoint["id"]
        known[checkpoint["id"]] = (now, checkpoint["channel_versions"])

    def write(self, where: int, at: int, writes: list[tuple[int, Any]]) -> None:
        places = [place for place, known in self.states.items() if known]
        if not places:
            return
        place = places[where % len(places)]
        checkpoint = [*self.states[place]][at % len(self.states[place])]
        channels = (*CHANNELS, ERROR, INTERRUPT, RESUME)
        named = [(channels[channel % len(channels)], value) for channel, value in writes]
        wanted = {"thread_id": place[0], "checkpoint_ns": place[1], "checkpoint_id": checkpoint}
        for saver in (self.saver, self.memory):
            saver.put_writes({"configurable": wanted}, named, f"task {at % 3}", f"~__pregel_pull, {where % 2}")

    def reopen(self, *_: Any) -> None:
        self.saver.close()

    def delete(self, where: int, *_: Any) -> None:
        self.drop(THREADS[where % 3])

    def drop(self, thread: str) -> None:
        for saver in (self.saver, self.memory):
            saver.delete_thread(thread)
        self.states = {place: known for place, known in self.states.items() if place[0] != thread}

    def prune(self, where: int, *_: Any) -> None:
        for saver in (self.saver, self.memory):
            saver.prune([THREADS[where % 3], "nobody"])
        self.forget()

    def forget_runs(self, where: int, *_: Any) -> None:
        for saver in (self.saver, self.memory):
            saver.delete_for_runs([f"run {where % 3}", "no such run"])
        self.forget()

    def copy(self, where: int, to: int, _: Any) -> None:
        source, target = THREADS[where % 3], THREADS[to % 3]
        if source == target:
            return
        self.drop(target)
        for saver in (self.saver, self.memory):
            saver.copy_thread(source, target)
        self.states |= {(target, ns): dict(known) for (thread, ns), known in self.states.items() if thread == source}

    def forget(self) -> None:
        for (thread, namespace), known in self.states.items():
            for checkpoint in set(known) - set(self.memory.storage.get(thread, {}).get(namespace, {})):
                del known[checkpoint]

    def check(self) -> None:
        for thread in THREADS:
            for namespace in NAMESPACES:
                wanted: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": namespace}}
                assert self.saver.get_tuple(wanted) == self.memory.get_tuple(wanted)
                found = [*self.saver.list(wanted)]
                assert found == [*self.memory.list(wanted)]
                assert [self.saver.get_tuple(item.config) for item in found] == found
                for options in ({"limit": 2}, {"filter": {"step": 0, "run_id": "run 1"}}, {"before": middle(found)}):
                    assert [*self.saver.list(wanted, **options)] == [*self.memory.list(wanted, **options)]  # type: ignore[arg-type]
            everywhere: Any = {"configurable": {"thread_id": thread}}
            assert by_id(self.saver.list(everywhere)) == by_id(self.memory.list(everywhere))
        assert by_id(self.saver.list(None)) == by_id(self.memory.list(None))


def middle(found: list[Any]) -> Any:
    return found[len(found) // 2].config if found else None


def by_id(found: Any) -> list[Any]:
    return sorted(found, key=lambda item: sorted(item.config["configurable"].items()), reverse=True)


def change(now: dict[str, Any], channel: str, way: int, value: Any) -> None:
    """Change one channel: set it, drop it, or let its list grow, shrink or change within."""
    held = now.get(channel)
    if way == 0:
        now.pop(channel, None)
    elif not isinstance(held, list) or way == 1:
        now[channel] = value
    elif way < 5:
        now[channel] = [*held, value]
    elif way < 7:
        held.append(value)
    elif way == 7:
        now[channel] = held[:-1]
    elif held and isinstance(held[0], HumanMessage):
        held[0].content = f"{held[0].content}!"
    elif held and isinstance(held[0], dict):
        held[0]["changed"] = way
    elif held:
        held[-1] = value


GROWING = [("put", 0, 0, [(0, way, [HumanMessage("x")] if way == 1 else {"k": way})]) for way in (1, 2, 5, 8, 9, 7, 2)]


@settings(max_examples=examples(70))
@given(st.lists(operations, max_size=14))
@example([*GROWING, ("reopen", 0, 0, None), *GROWING, ("prune", 0, 0, None), *GROWING[1:]])
@example([*GROWING, ("write", 0, 0, [(4, "failed")]), ("write", 0, 0, [(0, "done"), (4, "failed again")])])
@example(
    [*GROWING, ("write", 0, 3, [(0, 1), (4, "failed"), (0, 2)]), ("forget_runs", 1, 0, None), ("copy", 0, 1, None)]
)
def test_a_saver_holds_what_the_saver_in_memory_holds(saver: ReplayKitSaver, moves: list[Any]) -> None:
    for thread in THREADS:
        saver.delete_thread(thread)
    play = Play(saver)
    for move, where, at, more in moves:
        getattr(play, move)(where, at, more)
    play.check()
    saver.close()
    play.check()
    with rk.Store.open("threads.db", read_only=True) as store:
        assert list(store.verify()) == []
