"""The conformance suite that every store backend passes.

class TestMyStore(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path):
        with MyStore(tmp_path) as store:
            yield store

    def reopen(self, store):
        return MyStore(store.path)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import Any

from msgspec.structs import replace

from replaykit.errors import RunNotFound, StateNotKept, StoreError
from replaykit.model.changes import StateFold
from replaykit.model.events import AnyEvent, Message, Shared, State, ToolCall
from replaykit.model.run import Origin, RunHeader, RunStatus, TraceRun
from replaykit.model.sampling import Sampling, StateLog
from replaykit.model.values import ABSENT, Json, Raw, canonical, raw
from replaykit.store.protocol import RunWriter, Store


def sample_call(seq: int, result: Json = None, **arguments: Json) -> ToolCall:
    """Return a tool call to store."""
    return ToolCall(
        seq=seq,
        at=1.7e9 + seq,
        name="lookup",
        arguments_json=Raw(canonical(arguments)),
        result_json=raw(result),
        path=f"/~job#{seq % 3}",
    )


def sample_run(run_id: str, events: int, *, started_at: float = 1.7e9) -> TraceRun:
    """Return a finished run with this number of calls."""
    return TraceRun(
        id=run_id,
        name="sample",
        input_json=raw({"question": "why?"}),
        output_json=raw("because"),
        status=RunStatus.SUCCESS,
        started_at=started_at,
        ended_at=started_at + 1,
        origin=Origin(kind="imported", format="test"),
        events=tuple(sample_call(i, {"n": i, "text": "x" * 200}, i=i) for i in range(events)),
        event_count=events,
    )


class StoreConformance:
    """The conformance suite of stores. Subclass it in a test module and give it a `store` fixture and `reopen`."""

    def reopen(self, store: Any) -> Any:
        """Return another store object on the same data, as a second process would have it."""
        raise NotImplementedError

    def write(self, store: Store, run: TraceRun, *, finish: bool = True) -> None:
        """Append a run event by event."""
        started = RunHeader(id=run.id, name=run.name, started_at=run.started_at, input_json=run.input_json)
        writer = store.begin(started)
        for event in run.events:
            writer.append(event)
        if finish:
            writer.finish(run.header)

    def write_states(self, writer: RunWriter, states: Sequence[Json]) -> None:
        """Append a checkpoint for each state."""
        fold = StateFold()
        for seq, state in enumerate(states):
            whole, change = fold.advance(state)
            writer.append(State(seq=seq, state_json=whole, change=change))

    def share_with_one_call(self, store: Any) -> Any:
        """Return a writer of a shared run that has written one call."""
        writer = store.share("thread")
        with writer.turn():
            writer.write_header(RunHeader(id="thread"))
            writer.append(sample_call(0))
        return writer

    def check_is_whole(self, store: Store) -> None:
        """Assert that nothing in the store is damaged."""
        assert list(store.verify()) == []

    def test_a_run_comes_back_as_it_was_written(self, store: Any) -> None:
        for count in (0, 1, 63, 64, 65, 200):
            run = sample_run(f"run-{count}", count)
            self.write(store, run)
            assert store.load(run.id) == run

    def test_a_whole_run_can_be_added_at_once(self, store: Any) -> None:
        run = sample_run("whole", 150)
        store.add(run)
        assert store.load("whole") == run

    def test_events_written_so_far_are_seen_by_others_before_the_run_ends(self, store: Any) -> None:
        run = sample_run("open", 70)
        self.write(store, run, finish=False)
        with closing(self.reopen(store)) as other:
            found = other.load("open")
        assert found.events == run.events
        assert found.status is RunStatus.RUNNING

    def test_events_are_ordered_by_when_they_began_not_by_when_they_ended(self, store: Any) -> None:
        writer = store.begin(RunHeader(id="parallel"))
        for seq in (2, 0, 1):
            writer.append(sample_call(seq))
        assert _numbers(store.events("parallel")) == [2, 0, 1]
        assert _numbers(store.load("parallel").events) == [0, 1, 2]

    def test_large_values_come_back_and_are_kept_once(self, store: Any) -> None:
        large = {"body": "0123456789abcdef" * 20_000}
        for name in ("a", "b"):
            self.write(store, TraceRun(id=name, events=(sample_call(0, large), sample_call(1, large))))
        assert [call.result for call in store.load("b").calls] == [large, large]

    def test_growing_arguments_come_back(self, store: Any) -> None:
        conversation = [f"message {i} " * 20 for i in range(120)]
        calls = [sample_call(i, "ok", messages=conversation[: i + 1], model="m") for i in range(120)]
        self.write(store, TraceRun(id="appended", events=tuple(calls)))
        store.add(TraceRun(id="added", events=tuple(calls)))
        assert [*store.load("appended").events] == calls
        assert [*store.load("added").events] == calls

    def test_tags_are_given_and_taken_and_nothing_else_changes(self, store: Any) -> None:
        run = sample_run("tagged", 70)
        self.write(store, run)
        assert store.tag("tagged", add=["a", "b", "a"]).tags == ("a", "b")
        assert store.tag("tagged", add=["c"], remove=["a", "nobody"]).tags == ("b", "c")
        with closing(self.reopen(store)) as other:
            found = other.load("tagged")
        assert (found.tags, found.events, found.status) == (("b", "c"), run.events, run.status)
        _raises(RunNotFound, lambda: store.tag("nobody", add=["a"]))

    def test_streams_keep_their_items(self, store: Any) -> None:
        items = tuple(raw(i) for i in range(30_000))
        event = ToolCall(seq=0, name="stream", items_json=items, result_json=raw(None), complete=False)
        self.write(store, TraceRun(id="stream", events=(event,)))
        assert store.load("stream").events == (event,)

    def test_every_checkpoint_can_be_loaded(self, store: Any) -> None:
        states = [{"messages": ["message" * 15] * i, "i": i} for i in range(150)]
        self.write_states(store.begin(RunHeader(id="states")), states)
        for seq in (0, 1, 63, 64, 100, 149):
            assert store.state_at("states", seq) == states[seq]
        assert store.state_at("states") == states[-1]

    def test_a_state_that_was_not_kept_is_never_taken_for_the_one_before(self, store: Any) -> None:
        states = StateLog(Sampling(every=10))
        writer = store.begin(RunHeader(id="sampled", sampling=Sampling(every=10)))
        for seq in range(150):
            whole, change = states.next({"n": seq, "log": ["x" * 50] * seq}) or (ABSENT, None)
            writer.append(State(seq=seq, state_json=whole, change=change))
        for seq in (0, 10, 60, 70, 140):
            assert store.state_at("sampled", seq)["n"] == seq
        for unkept in (1, 9, 63, 64, 65, 149, None):
            _raises(StateNotKept, lambda unkept=unkept: store.state_at("sampled", unkept))
        assert [event.is_kept for event in store.load("sampled").events] == [seq % 10 == 0 for seq in range(150)]
        assert store.header("sampled").sampling == Sampling(every=10)
        self.check_is_whole(store)

    def test_a_run_without_checkpoints_has_no_state(self, store: Any) -> None:
        self.write(store, sample_run("stateless", 3))
        _raises(StoreError, lambda: store.state_at("stateless"))

    def test_runs_are_found_by_id_by_its_beginning_and_by_name(self, store: Any) -> None:
        store.add(sample_run("20240312-aaa", 1))
        store.add(sample_run("20240313-bbb", 2, started_at=1.8e9))
        assert store.header("20240312-aaa").id == "20240312-aaa"
        assert store.header("20240313").id == "20240313-bbb"
        assert store.header("sample").id == "20240313-bbb"
        _raises(RunNotFound, lambda: store.header("2024"))
        _raises(RunNotFound, lambda: store.header("nothing"))
        _raises(RunNotFound, lambda: store.header(""))

    def test_runs_are_listed_newest_first_and_by_status_and_name(self, store: Any) -> None:
        for number in range(5):
            store.add(sample_run(f"r{number}", 0, started_at=1.7e9 + number))
        store.begin(RunHeader(id="unfinished", name="other", started_at=1.0))
        assert _ids(store.headers(limit=2)) == ["r4", "r3"]
        assert _ids(store.headers(limit=2, before="r3")) == ["r2", "r1"]
        assert store.headers(before="nothing") == []
        assert _ids(store.headers(status="running")) == ["unfinished"]
        assert _ids(store.headers(name="other")) == ["unfinished"]

    def test_an_id_is_taken_once(self, store: Any) -> None:
        store.add(sample_run("same", 1))
        _raises(StoreError, lambda: store.add(sample_run("same", 2)))
        _raises(StoreError, lambda: store.begin(RunHeader(id="same")))
        assert len(store.load("same").events) == 1

    def test_a_finished_run_takes_no_more_events(self, store: Any) -> None:
        writer = store.begin(RunHeader(id="done"))
        writer.finish(RunHeader(id="done", status=RunStatus.SUCCESS))
        _raises(StoreError, lambda: writer.append(sample_call(0)))

    def test_many_threads_write_their_runs_at_once(self, store: Any) -> None:
        runs = [sample_run(f"t{number}", 100) for number in range(6)]
        _in_threads(lambda run: self.write(store, run), runs)
        assert [store.load(run.id) for run in runs] == runs

    def test_many_threads_write_into_one_run(self, store: Any) -> None:
        writer = store.begin(RunHeader(id="shared"))

        def write(start: int) -> None:
            for seq in range(start, start + 100):
                writer.append(sample_call(seq))

        _in_threads(write, range(0, 400, 100))
        assert _numbers(store.load("shared").events) == list(range(400))

    def test_a_shared_run_is_written_in_turns_and_each_sees_what_the_other_wrote(self, store: Any) -> None:
        other = self.reopen(store)
        one, two = store.share("thread"), other.share("thread")
        for seq in range(0, 300, 2):
            for writer, number in ((one, seq), (two, seq + 1)):
                with writer.turn() as news:
                    assert _numbers(news.events) == ([number - 1] if number else [])
                    if writer.header is None:
                        writer.write_header(RunHeader(id="thread", name="shared"))
                    assert writer.next_seq == number
                    writer.append(sample_call(number, i=number))
        assert _numbers(one.news().events) == [299]
        assert one.news().events == []
        assert store.load("thread").events == tuple(sample_call(seq, i=seq) for seq in range(300))
        self.check_is_whole(other)
        other.close()

    def test_a_shared_run_that_was_closed_goes_on_where_it_was(self, store: Any) -> None:
        writer = self.share_with_one_call(store)
        for seq in (1, 2):
            with writer.turn() as news:
                assert (news.fresh, news.events) == (False, [])
                writer.append(sample_call(seq))
            writer.close()
        assert writer.news().events == []
        assert _numbers(store.load("thread").events) == [0, 1, 2]
        self.check_is_whole(store)

    def test_a_shared_run_that_had_ended_goes_on_under_the_header_it_began_with(self, store: Any) -> None:
        other = self.reopen(store)
        one, two = store.share("thread"), other.share("thread")
        began = RunHeader(id="thread", name="shared")
        with one.turn():
            one.write_header(began)
            one.append(sample_call(0))
        with two.turn():
            two.append(sample_call(1))
        with one.turn():
            one.write_header(replace(began, event_count=2))
        with two.turn():
            two.write_header(began)
            two.append(sample_call(2))
        with one.turn() as news:
            assert _numbers(news.events) == [2]
            assert one.header == began
        other.close()

    def test_a_turn_that_fails_leaves_nothing(self, store: Any) -> None:
        _raises(RunNotFound, lambda: store.load("thread"))
        writer = self.share_with_one_call(store)

        def fail() -> None:
            with writer.turn():
                writer.append(sample_call(1))
                raise TimeoutError

        _raises(TimeoutError, fail)
        assert len(store.load("thread").events) == 1
        with writer.turn() as news:
            assert (news.fresh, len(news.events)) == (True, 1)
            writer.append(sample_call(1))
        assert len(store.load("thread").events) == 2

    def test_nothing_is_written_to_a_shared_run_outside_of_a_turn_or_out_of_order(self, store: Any) -> None:
        writer = store.share("thread")
        _raises(StoreError, lambda: writer.append(sample_call(0)))
        with writer.turn():
            _raises(StoreError, lambda: writer.append(sample_call(0)))  # the run does not exist yet
            writer.write_header(RunHeader(id="thread"))
            _raises(StoreError, lambda: writer.append(sample_call(7)))
        assert store.load("thread").events == ()

    def test_a_shared_run_that_was_removed_or_rewritten_is_seen_anew(self, store: Any) -> None:
        writer = self.share_with_one_call(store)
        with writer.turn():
            writer.append(sample_call(1))
        other = self.reopen(store)
        other.replace([TraceRun(id="thread", events=(sample_call(0, "kept"),))])
        news = writer.news()
        assert (news.fresh, news.events) == (True, [sample_call(0, "kept")])
        assert other.delete(["thread", "unheard-of"]) == 1
        assert (writer.news().fresh, writer.header) == (True, None)
        with writer.turn():
            writer.write_header(RunHeader(id="thread"))
            writer.append(sample_call(0))
        assert len(other.load("thread").events) == 1
        other.close()

    def test_a_deleted_run_takes_what_only_it_held(self, store: Any) -> None:
        big, common = "y" * 300_000, "z" * 300_000
        store.add(TraceRun(id="one", events=(sample_call(0, big), sample_call(1, common))))
        store.add(TraceRun(id="two", events=(sample_call(0, common),)))
        assert store.delete(["one"]) == 1
        _raises(RunNotFound, lambda: store.load("one"))
        assert store.load("two").events[0].result == common
        self.check_is_whole(store)
        store.add(TraceRun(id="one", events=(sample_call(0, big),)))
        assert store.load("one").events[0].result == big

    def test_a_fork_keeps_what_it_shares_with_a_deleted_run(self, store: Any) -> None:
        states = [{"i": i, "log": list(range(i))} for i in range(80)]
        parent = store.begin(RunHeader(id="parent"))
        self.write_states(parent, states)
        parent.finish(RunHeader(id="parent", status=RunStatus.SUCCESS))
        fork = store.begin(RunHeader(id="fork", origin=Origin(kind="forked", run="parent", step="s")))
        for seq in range(70):
            fork.append(Shared(seq=seq, run="parent", of=seq))
        fork.append(sample_call(70))
        fork.finish(RunHeader(id="fork", status=RunStatus.SUCCESS, origin=Origin(kind="forked", run="parent")))
        before = store.load("fork").events
        store.delete(["parent"])
        assert store.load("fork").events == before
        assert store.state_at("fork") == states[69]
        self.check_is_whole(store)

    def test_nothing_is_added_to_a_run_that_was_deleted_while_it_was_recorded(self, store: Any) -> None:
        writer = store.begin(RunHeader(id="gone"))
        writer.append(sample_call(0))
        store.delete(["gone"])
        _raises(StoreError, lambda: writer.append(sample_call(1)))
        _raises(StoreError, lambda: writer.finish(RunHeader(id="gone")))
        store.add(sample_run("next", 3))  # the old writer must not reach it, even if it reuses the number
        _raises(StoreError, lambda: writer.append(sample_call(1)))
        assert len(store.load("next").events) == 3
        self.check_is_whole(store)

    def test_a_whole_store_verifies(self, store: Any) -> None:
        self.write(store, sample_run("one", 130))
        self.write(store, sample_run("two", 10), finish=False)
        store.add(TraceRun(id="big", events=(sample_call(0, "y" * 300_000),)))
        self.check_is_whole(store)

    def test_odd_text_is_kept(self, store: Any) -> None:
        texts = ["", "\0", "\ud800", "日本語", "🦜" * 100, '"$blobs":{"result":"00"}', "\u2028"]
        events: tuple[AnyEvent, ...] = tuple(
            Message(seq=i, role="user", content_json=raw(text)) for i, text in enumerate(texts)
        )
        self.write(store, TraceRun(id="odd", name="名前", events=events))
        assert [event.content for event in store.load("odd").events] == texts

    def test_a_first_turn_that_fails_is_forgotten(self, store: Any) -> None:
        writer = store.share("thread")

        def fail() -> None:
            with writer.turn():
                writer.write_header(RunHeader(id="thread"))
                writer.append(sample_call(0))
                raise TimeoutError

        _raises(TimeoutError, fail)
        news = writer.news()
        assert (news.fresh, news.events, writer.header) == (True, [], None)

    def test_a_shared_run_that_has_ended_counts_what_comes_late(self, store: Any) -> None:
        writer = self.share_with_one_call(store)
        with writer.turn():
            writer.write_header(RunHeader(id="thread", status=RunStatus.SUCCESS, event_count=1))
        with writer.turn():
            writer.append(sample_call(1))
        assert store.header("thread").event_count == len(store.load("thread").events) == 2

    def test_runs_below_an_id_are_listed(self, store: Any) -> None:
        for run_id in ("a", "a/1", "a/2/3", "a0", "a-b", "b/a/1"):
            store.begin(RunHeader(id=run_id))
        assert {header.id for header in store.headers(below="a")} == {"a/1", "a/2/3"}
        assert store.headers(below="c") == []

    def test_a_snapshot_is_of_one_moment(self, store: Any) -> None:
        store.add(sample_run("old", 3))
        other = self.reopen(store)
        with store.snapshot():
            assert len(store.headers()) == 1
            other.add(sample_run("new", 3))
            other.delete(["old"])
            assert len(store.load("old").events) == 3
            assert _ids(store.headers()) == ["old"]
        assert _ids(store.headers()) == ["new"]
        other.close()

    def test_an_exclusive_block_is_kept_as_a_whole_or_not_at_all(self, store: Any) -> None:
        store.add(sample_run("old", 3))

        def fail() -> None:
            with store.exclusive():
                store.replace([sample_run("new", 1)])
                store.delete(["old"])
                raise TimeoutError

        _raises(TimeoutError, fail)
        assert _ids(store.headers()) == ["old"]
        with store.exclusive():
            store.replace([sample_run("new", 1)])
            store.delete(["old"])
        assert _ids(store.headers()) == ["new"]


def _numbers(events: Iterable[AnyEvent]) -> list[int]:
    return [event.seq for event in events]


def _ids(headers: Iterable[RunHeader]) -> list[str]:
    return [header.id for header in headers]


def _in_threads(work: Callable[[Any], None], pieces: Iterable[Any]) -> None:
    """Run work on several items in parallel, and wait for all of them."""
    threads = [threading.Thread(target=work, args=(piece,)) for piece in pieces]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _raises(kind: type[Exception], action: Any) -> None:
    try:
        action()
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")
