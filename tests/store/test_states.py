"""States out of a store that is open: what it remembers makes the next load faster, and never another."""

from __future__ import annotations

import datetime as dt
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.matrix import examples

import replaykit as rk
from replaykit.errors import CorruptStore, RunNotFound, StateNotKept, StoreError
from replaykit.model.changes import StateFold
from replaykit.model.events import AnyEvent, Change, Note, Shared, State
from replaykit.model.run import RunHeader, TraceRun
from replaykit.model.sampling import NOT_KEPT
from replaykit.model.values import Raw, encode
from replaykit.store import writer
from replaykit.store.states import Recent

ITEM = st.text(max_size=6) | st.integers() | st.tuples(st.integers()) | st.dates() | st.just("long" * 200)
STATE = st.fixed_dictionaries(
    {"messages": st.lists(ITEM, max_size=3), "n": st.integers(0, 3)}, optional={"$x": ITEM, "memory": ITEM}
)


@contextmanager
def packs_of(count: int) -> Iterator[None]:
    """Runs are folded after so many events."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "PACK_EVENTS", count)
        yield


def written(store: rk.Store, run_id: str, states: list[Any]) -> None:
    """A run of these states; the number of each is its place in the list."""
    log = store.begin(RunHeader(id=run_id))
    fold = StateFold()
    for seq, state in enumerate(states):
        whole, change = fold.advance(state)
        log.append(State(seq=seq, state_json=whole, change=change))
    log.finish(RunHeader(id=run_id))


def growing(count: int) -> list[dict[str, Any]]:
    messages = [{"text": f"{n:05}" * 60, "tokens": [n, {"n": n}]} for n in range(count)]
    return [{"n": n, "messages": messages[: n + 1]} for n in range(count)]


def packs_read(store: rk.Store, load: Callable[[], object]) -> int:
    """How many packs are read by this."""
    seen: list[str] = []
    store.db.set_trace_callback(seen.append)
    try:
        load()
    finally:
        store.db.set_trace_callback(None)
    return sum(sql.startswith("SELECT data FROM packs") for sql in seen)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(STATE, min_size=1, max_size=14), st.lists(st.integers(0, 13), max_size=20), st.booleans())
def test_states_come_back_in_whatever_order_they_are_asked_for(
    steps: list[dict[str, Any]], asked: list[int], grow: bool
) -> None:
    if grow:
        for before, after in pairwise(steps):
            after["messages"] = before["messages"] + after["messages"]
    with TemporaryDirectory() as home, packs_of(4), rk.Store.open(Path(home, "s.db"), redact=False) as store:
        written(store, "r", steps)

        for at in asked:
            expected = steps[min(at, len(steps) - 1)]
            assert encode(store.state_at("r", at)) == encode(expected)
            assert store.state_json("r", at) == encode(expected)


def test_what_was_loaded_belongs_to_who_loaded_it(store: rk.Store) -> None:
    states = growing(100)
    written(store, "r", states)

    for _ in range(4):
        mine = store.state_at("r", 90)
        assert mine == states[90]
        mine["messages"][3]["tokens"][1]["n"] = "changed"
        mine["messages"][80].clear()
        mine["messages"].pop()
        mine.clear()


def test_a_load_near_another_reads_no_pack(store: rk.Store) -> None:
    written(store, "r", growing(300))

    assert packs_read(store, lambda: store.state_at("r", 250)) == 4
    assert packs_read(store, lambda: store.state_at("r", 199)) == 0
    assert packs_read(store, lambda: store.state_at("r", 255)) == 0
    assert packs_read(store, lambda: store.state_json("r")) == 1


def test_a_load_near_another_begins_at_the_state_before_its_pack(
    store: rk.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store._remembered.packs, "_most_bytes", 0)
    written(store, "r", growing(300))

    assert packs_read(store, lambda: store.state_at("r", 250)) == 4
    assert packs_read(store, lambda: store.state_at("r", 200)) == 1
    assert packs_read(store, lambda: store.state_at("r", 290)) == 2
    assert packs_read(store, lambda: store.state_at("r", 290)) == 1


def test_a_store_that_is_opened_anew_remembers_nothing(tmp_path: Path) -> None:
    for _ in range(2):
        with rk.Store.open(tmp_path / "s.db") as store:
            if not store.headers():
                written(store, "r", growing(130))
            assert packs_read(store, lambda store=store: store.state_at("r")) == 3  # type: ignore[misc]


def test_a_run_that_goes_on_is_read_to_its_end(tmp_path: Path) -> None:
    states, fold = growing(200), StateFold()
    with rk.Store.open(tmp_path / "s.db") as store, rk.Store.open(tmp_path / "s.db", read_only=True) as reader:
        log = store.begin(RunHeader(id="r"))
        for seq, state in enumerate(states):
            whole, change = fold.advance(state)
            log.append(State(seq=seq, state_json=whole, change=change))
            if seq % 7 == 0 or seq % 64 in (62, 63, 0):
                assert reader.state_at("r") == store.state_at("r") == state
                assert reader.state_at("r", seq // 2) == states[seq // 2]


def test_a_run_in_the_place_of_another_is_not_taken_for_it(tmp_path: Path) -> None:
    old, new = growing(100), [{"n": -n, "messages": ["new"] * (n + 1)} for n in range(100)]
    with rk.Store.open(tmp_path / "s.db") as store, rk.Store.open(tmp_path / "s.db") as other:
        written(other, "r", old)
        written(other, "spare", new)
        assert store.state_at("r", 90) == store.state_at("r", 90) == old[90]

        other.replace([TraceRun(id="r", events=other.load("spare").events)])
        assert store.state_at("r", 90) == new[90]
        other.delete(["r"])
        with pytest.raises(RunNotFound):
            store.state_at("r", 90)


def test_what_was_never_committed_is_not_remembered(store: rk.Store) -> None:
    states = growing(100)
    with pytest.raises(KeyboardInterrupt), store.exclusive():
        written(store, "r", states)
        number = store.number_of("r")
        assert store.state_at("r", 90) == store.state_at("r", 90) == states[90]
        raise KeyboardInterrupt

    other = [{"n": -1, "messages": state["messages"]} for state in states]
    written(store, "other", other)

    assert store.number_of("other") == number
    assert store.state_at("other", 90) == other[90]


def test_a_state_that_was_not_kept_is_not_the_one_before_it(store: rk.Store) -> None:
    fold, log = StateFold(), store.begin(RunHeader(id="r"))
    for seq, state in enumerate(growing(150)):
        whole, change = fold.advance(state) if seq % 3 == 0 else NOT_KEPT
        log.append(State(seq=seq, state_json=whole, change=change))

    for _ in range(2):
        assert store.state_at("r", 129)["n"] == 129
        assert store.state_at("r", 147)["n"] == 147
        for seq in (128, 130, 149):
            with pytest.raises(StateNotKept, match=f"the state at event {seq} was not stored"):
                store.state_at("r", seq)


def test_a_fork_has_its_parents_state_until_it_has_its_own(store: rk.Store) -> None:
    states = growing(100)
    written(store, "parent", states)
    fork = store.begin(RunHeader(id="fork"))
    for seq in range(80):
        fork.append(Shared(seq=seq, run="parent", of=seq))

    assert store.state_at("fork", 70) == store.state_at("fork", 70) == states[70]
    assert store.state_at("fork") == states[79]
    fork.append(State(seq=80, state_json=Raw(b'{"own":1}')))
    assert store.state_at("fork") == {"own": 1}
    assert store.state_at("fork", 79) == states[79]


def test_states_are_found_behind_many_other_events(store: rk.Store) -> None:
    log = store.begin(RunHeader(id="r"))
    log.append(State(seq=0, state_json=Raw(b'{"a":[1]}')))
    log.append(State(seq=1, change=Change(add={"a": Raw(b"[2]")})))
    for seq in range(2, 300):
        log.append(Note(seq=seq))

    assert packs_read(store, lambda: store.state_at("r")) == 4
    assert packs_read(store, lambda: store.state_at("r")) == 0
    assert store.state_at("r") == {"a": [1, 2]}
    assert store.state_at("r", 0) == {"a": [1]}
    with pytest.raises(StoreError, match="holds no checkpoint at or before event -1"):
        store.state_at("r", -1)


LONG = b'{"a":{"k":"' + b"x" * 2000 + b'"}}'


@pytest.mark.parametrize(
    "events",
    [
        [State(seq=0, change=Change(put={"a": Raw(b"1")}))],
        [State(seq=0, state_json=Raw(LONG)), State(seq=1, change=Change(add={"a": Raw(b"[1]")}))],
        [State(seq=0, state_json=Raw(LONG)), State(seq=1, change=Change(drop=("b",)))],
        [State(seq=0, state_json=Raw(b"[1]")), State(seq=1, change=Change(put={"a": Raw(b"1")}))],
    ],
    ids=["no-state-before", "growth-of-no-list", "a-key-that-is-not-there", "a-change-of-no-object"],
)
def test_changes_that_do_not_add_up_are_a_named_error(tmp_path: Path, events: list[AnyEvent]) -> None:
    with packs_of(1), rk.Store.open(tmp_path / "s.db", redact=False) as store:
        store.add(TraceRun(id="r", events=tuple(events)))

        for _ in range(3):
            with pytest.raises(CorruptStore, match="the state cannot be reconstructed") as caught:
                store.state_at("r")
            assert caught.value.where == f"run r, checkpoint {events[-1].seq}"


def test_tagged_values_are_themselves_however_often_they_are_loaded(store: rk.Store) -> None:
    days = [(n, dt.date(2024, 3, 1)) for n in range(100)]
    states = [{"days": days, "messages": [*days, *("plain" * 80 for _ in range(n))], "seen": {n}} for n in range(140)]
    written(store, "r", states)

    for at in (139, 130, 135, 64, 139):
        assert store.state_at("r", at) == states[at]


def test_many_threads_load_from_one_store(store: rk.Store) -> None:
    states = growing(200)
    written(store, "r", states)
    wrong: list[object] = []

    def load(seed: int) -> None:
        for at in random.Random(seed).choices(range(200), k=40):
            try:
                found = store.state_at("r", at)
                wrong.extend([at] if found != states[at] or store.state_json("r", at) != encode(states[at]) else [])
                found["messages"].clear()
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=load, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


def test_what_is_remembered_has_a_bound() -> None:
    recent = Recent[str](100)
    for key in range(10):
        recent.put(key, f"value {key}", 30)
    recent.get(7)
    recent.put(10, "one more", 30)
    recent.put(11, "too large", 101)
    recent.put(10, "again", 40)

    assert {key: recent.get(key) for key in range(12) if recent.get(key)} == {7: "value 7", 9: "value 9", 10: "again"}


def test_a_state_that_is_larger_than_the_bound_is_read_again(store: rk.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store._remembered.folds, "_most_bytes", 50_000)
    monkeypatch.setattr(store._remembered.packs, "_most_bytes", 0)
    states = growing(150)
    written(store, "r", states)

    for _ in range(2):
        assert packs_read(store, lambda: store.state_at("r", 149)) == 3
        assert store.state_at("r", 149) == states[149]


def test_a_store_that_is_closed_lets_go_of_what_it_remembered(tmp_path: Path) -> None:
    with rk.Store.open(tmp_path / "s.db") as store:
        written(store, "r", growing(100))
        store.state_at("r", 90)
        held = store._remembered
    assert store._remembered is not held
