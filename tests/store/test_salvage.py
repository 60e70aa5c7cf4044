"""Damage at random places: whatever is whole is saved, nothing wrong is, and the original is only read."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.matrix import sampled
from tests.store.damaged import PAGE, copied, full_store, pages_of_rows, spoil_logged_event, store_files, thread

import replaykit as rk
from replaykit.errors import ReplayKitError, StateNotKept, StoreError, UsageError
from replaykit.model.changes import StateFold
from replaykit.model.events import AnyEvent, Message, State
from replaykit.model.run import RunHeader, TraceRun
from replaykit.model.values import raw
from replaykit.store.repair.salvage import Salvaged, salvage
from replaykit.testing import sample_call

TRIALS = int(os.environ.get("DAMAGE_TRIALS", "5"))
NOT_KEPT = "counts as not kept"


class Whole(NamedTuple):
    """A store as it was, and where its rows lie."""

    path: Path
    numbers: dict[str, int]
    headers: dict[str, RunHeader]
    events: dict[str, list[AnyEvent]]
    pages: dict[tuple[str, int], set[int]]


@pytest.fixture(scope="module")
def with_log(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """A store whose writers were killed: most of it is in the log."""
    path = tmp_path_factory.mktemp("damage") / "store.db"
    with full_store(path) as store:
        killed = copied(path, path.with_name("killed.db"))
        return told(store, killed)


@pytest.fixture(scope="module")
def settled(with_log: Whole) -> Whole:
    """The same with everything in its file."""
    path = copied(with_log.path, with_log.path.with_name("settled.db"))
    with rk.Store.open(path) as store:
        store.query("PRAGMA wal_checkpoint(TRUNCATE)")
    with rk.Store.open(path, read_only=True) as store:
        return told(store, path)._replace(pages=pages_of_rows(path))


def told(store: rk.Store, path: Path) -> Whole:
    headers = {header.id: header for header in store.headers()}
    numbers = {run: store.number_of(run) for run in headers}
    return Whole(path, numbers, headers, {run: list(store.events(run)) for run in headers}, {})


Damage = Callable[[bytearray, random.Random], set[int]]


def flip_bytes(data: bytearray, rng: random.Random) -> set[int]:
    places = [rng.randrange(len(data)) for _ in range(rng.choice([1, 3, 20]))]
    for place in places:
        data[place] ^= 1 << rng.randrange(8)
    return {place // PAGE + 1 for place in places}


def zero_pages(data: bytearray, rng: random.Random) -> set[int]:
    pages = {rng.randrange(len(data) // PAGE) for _ in range(rng.choice([1, 5, 30]))}
    for page in pages:
        data[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
    return {page + 1 for page in pages}


def scribble(data: bytearray, rng: random.Random) -> set[int]:
    start = rng.randrange(len(data) - 3 * PAGE)
    size = rng.randrange(1, 3 * PAGE)
    data[start : start + size] = rng.randbytes(size)
    return set(range(start // PAGE + 1, (start + size - 1) // PAGE + 2))


def truncate(data: bytearray, rng: random.Random) -> set[int]:
    pages, size = len(data) // PAGE, rng.randrange(1, len(data))
    del data[size:]
    return set(range(size // PAGE + 1, pages + 1))


def spoil_the_head(data: bytearray, rng: random.Random) -> set[int]:
    for place in range(rng.randrange(40), 100):
        data[place] = rng.randrange(256)
    return {1}


def spoil_the_roots(data: bytearray, rng: random.Random) -> set[int]:
    data[: 14 * PAGE] = rng.randbytes(14 * PAGE)
    return set(range(1, 15))


def damaged(whole: Whole, target: Path, damage: Damage, seed: int, suffix: str = "") -> set[int]:
    """A copy with damage; gives the pages that were touched."""
    copied(whole.path, target)
    file = target.with_name(target.name + suffix)
    data = bytearray(file.read_bytes())
    touched = damage(data, random.Random(seed))
    file.write_bytes(data)
    return touched


def salvaged(source: Path) -> Salvaged:
    before = digests(source)
    result = salvage(source, source.with_name("salvaged.db"))
    assert digests(source) == before
    return result


def digests(store: Path) -> dict[Path, str]:
    return {file: digest(file) for file in store_files(store)}


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def check_nothing_wrong(whole: Whole, result: Salvaged, *, log_is_damaged: bool = False) -> dict[str, set[int]]:
    """Everything in the new store is as it was; gives the places of each run's events that are in it."""
    saved: dict[str, set[int]] = {}
    with rk.Store.open(result.store, read_only=True) as store:
        assert list(store.verify()) == []
        for header in store.headers():
            run = of_number(whole, header.id)
            if run.startswith("gone-") and log_is_damaged:
                continue  # that it was deleted stood in the log
            original = whole.headers[run]
            place_of = {event.seq: place for place, event in enumerate(whole.events[run])}
            losses = [loss for loss in result.lost if loss.run == header.id]
            assert (header.input, header.origin) == (original.input, original.origin) or has_lost_header(losses)
            saved[run] = set()
            for event in store.events(header.id):
                if isinstance(event, Message) and event.role == "salvaged":
                    continue
                saved[run].add(place_of[event.seq])
                expected = whole.events[run][place_of[event.seq]]
                if isinstance(event, State) and event != expected:
                    assert not event.is_kept
                    assert any(NOT_KEPT in loss.what and loss.first == place_of[event.seq] for loss in losses)
                else:
                    assert event == expected
    return saved


def of_number(whole: Whole, run_id: str) -> str:
    """The run that one in a new store is; runs whose ids are lost bear their numbers."""
    names = {f"salvaged-{number}": run for run, number in whole.numbers.items()}
    return names.get(run_id, run_id)


def has_lost_header(losses: list[object]) -> bool:
    return any("the header is" in str(loss) for loss in losses)


def check_nothing_missing(whole: Whole, result: Salvaged, saved: dict[str, set[int]], touched: set[int]) -> None:
    """An event is lost only if a page of it was touched, or of something that it builds on."""
    blobs_touched = any(pages & touched for (table, _), pages in whole.pages.items() if table == "blobs")
    for run, number in whole.numbers.items():
        ids = (run, f"salvaged-{number}")
        told = {
            place
            for loss in result.lost
            if loss.run in ids and loss.first is not None and NOT_KEPT not in loss.what
            for place in range(loss.first, loss.last + 1)
        }
        length_is_known = whole.headers[run].event_count is not None and not has_lost_header(
            [loss for loss in result.lost if loss.run in ids]
        )
        intact = places_on(whole, number, len(whole.events[run]), touched)
        missing = set(range(len(whole.events[run]))) - saved.get(run, set())
        if length_is_known:
            assert missing == told, f"{run}: what is lost is not what is told"
        for place in missing & intact:
            why = next(
                loss.what
                for loss in result.lost
                if loss.run in ids and loss.first is not None and loss.first <= place <= loss.last
            )
            builds_on = place > min(missing) or run == "fork" or ("blob" in why and blobs_touched)
            assert builds_on, f"{run}: event {place} is whole, and lost: {why}"
            assert why != "damaged"


def places_on(whole: Whole, number: int, count: int, touched: set[int]) -> set[int]:
    """The places of a run's events that no damage touched."""
    starts = sorted(key & 0xFFFFFFFF for table, key in whole.pages if table == "packs" and key >> 32 == number)
    tail = {key & 0xFFFFFFFF for table, key in whole.pages if table == "events" and key >> 32 == number}
    found = set()
    for place in range(count):
        if place not in tail and not starts:
            found.add(place)  # in the run's log, which lies on no page
            continue
        table, start = ("events", place) if place in tail else ("packs", max(s for s in starts if s <= place))
        if not whole.pages[table, number << 32 | start] & touched:
            found.add(place)
    return found


KINDS = [flip_bytes, zero_pages, scribble, truncate, spoil_the_head, spoil_the_roots]


@sampled("damage", KINDS, count=3, start=1)
def test_whatever_is_whole_in_a_damaged_file_is_saved_and_nothing_else(
    settled: Whole, tmp_path: Path, damage: Damage
) -> None:
    for seed in range(TRIALS):
        directory = tmp_path / str(seed)
        directory.mkdir()
        touched = damaged(settled, directory / "store.db", damage, seed)
        result = salvaged(directory / "store.db")
        saved = check_nothing_wrong(settled, result)
        check_nothing_missing(settled, result, saved, touched)


@sampled("damage", [flip_bytes, zero_pages, scribble, truncate], count=2)
def test_what_sqlite_still_reads_of_a_damaged_log_is_saved_and_more(
    with_log: Whole, tmp_path: Path, damage: Damage
) -> None:
    for seed in range(max(3, TRIALS // 4)):
        directory = tmp_path / str(seed)
        directory.mkdir()
        damaged(with_log, directory / "store.db", damage, seed, "-wal")
        saved = check_nothing_wrong(with_log, salvaged(directory / "store.db"), log_is_damaged=True)
        copy = copied(directory / "store.db", directory / "sqlite.db")
        for run, count in readable(copy).items():
            assert run.startswith("gone-") or len(saved.get(of_number(with_log, run), ())) >= count


def readable(path: Path) -> dict[str, int]:
    """How many events of each run SQLite gives."""
    try:
        with rk.Store.open(path) as store:
            return {header.id: len(list(store.events(header.id))) for header in store.headers()}
    except ReplayKitError:
        return {}


def test_one_bad_frame_of_the_log_does_not_take_those_after_it(with_log: Whole, tmp_path: Path) -> None:
    def spoil(data: bytearray, rng: random.Random) -> set[int]:
        data[32 + 24 + 2000] ^= 1
        return set()

    damaged(with_log, tmp_path / "store.db", spoil, 0, "-wal")
    result = salvaged(tmp_path / "store.db")
    lost_to_sqlite = readable(copied(tmp_path / "store.db", tmp_path / "sqlite.db"))

    assert result.events == sum(map(len, with_log.events.values()))
    assert sum(lost_to_sqlite.values()) < result.events


def test_arguments_that_build_on_a_lost_call_are_lost_and_never_put_together_from_an_older_one(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with rk.Store.open(path) as store:
        writer = store.begin(RunHeader(id="run"))
        for seq in range(6):
            writer.append(sample_call(seq, said="x" * 3000, x=f"{seq // 3:03}", y=f"{seq:03}"))
        spoil_logged_event(store, "run", 3)

    result = salvaged(path)

    with rk.Store.open(result.store) as store:
        kept = [(call.seq, call.arguments["x"]) for call in store.load("run").calls]
        assert store.header("run").tags == ("salvaged",)
    assert kept == [(0, "000"), (1, "000"), (2, "000")]
    assert [str(loss) for loss in result.lost] == [
        "run run, event 3: damaged",
        "run run, events 4 to 5: arguments like those of a call that is not there",
    ]


def test_a_state_that_builds_on_a_lost_one_is_not_kept_until_the_next_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    states = [*({"n": number, "text": "x" * 200} for number in range(4)), [4], [5]]
    with rk.Store.open(path) as store:
        writer, fold = store.begin(RunHeader(id="run")), StateFold()
        for seq, state in enumerate(states):
            whole, change = fold.advance(state)
            writer.append(State(seq=seq, state_json=whole, change=change))
        spoil_logged_event(store, "run", 1)
        result = salvaged(path)

    with rk.Store.open(result.store) as store:
        assert store.state_at("run", 0)["n"] == 0
        for lost in (2, 3):
            with pytest.raises(StateNotKept):
                store.state_at("run", lost)
        assert store.state_at("run") == [5]
    assert [loss.first for loss in result.lost] == [1, 2, 3]


def test_a_run_whose_header_is_lost_has_its_events_and_its_name(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with rk.Store.open(path) as store:
        store.add(TraceRun(id="run", name="billing", events=(sample_call(0),)))
        store.query("UPDATE runs SET header = substr(header, 1, 12)")

    result = salvaged(path)

    with rk.Store.open(result.store) as store:
        assert (store.header("run").name, len(store.load("run").events)) == ("billing", 1)
    assert [loss.what for loss in result.lost] == ["the header is lost: input, output, status and tags"]


def test_a_thread_that_lost_checkpoints_can_be_written_on(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with rk.Store.open(path) as store:
        thread(store, "thread")
        spoil_logged_event(store, "thread", 79)
    result = salvaged(path)

    with rk.Store.open(result.store) as store:
        shared = store.share("thread")
        with shared.turn():
            shared.append(State(seq=shared.next_seq, state_json=raw({"messages": []}), about_json=raw({"id": "new"})))
        events = list(store.events("thread"))
        assert [event.seq for event in events] == list(range(91))
        assert not any(isinstance(event, State) for event in events[80:90])
        assert len(store.state_at("thread", 79)["messages"]) == 80
        assert list(store.verify()) == []


def test_a_new_store_takes_the_place_of_none(tmp_path: Path) -> None:
    store_path, taken = tmp_path / "store.db", tmp_path / "salvaged.db"
    rk.Store.open(store_path).close()
    taken.write_text("precious")
    with pytest.raises(UsageError, match="already exists"):
        salvage(store_path, taken)
    with pytest.raises(StoreError, match="there is no store at"):
        salvage(tmp_path / "nothing.db", tmp_path / "new.db")
    assert taken.read_text() == "precious"
