"""Parts of a run: each process writes its own, and together they are one run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.errors import Divergence, StoreError
from replaykit.handlers.replay.world import World
from replaykit.model.events import Call, Note, State, ToolCall
from replaykit.model.matching import MatchMode, MatchRules, ToolMode
from replaykit.model.run import Origin, RunHeader, TraceRun
from replaykit.model.values import Raw, canonical, raw
from replaykit.programs.merge import all_deviations, load_process_logs, merge_in_store, merge_runs
from replaykit.programs.plan import Mode, ProgramPlan, read_plan, write_plan
from replaykit.programs.process_log import (
    MAIN,
    ProcessLog,
    calls_of_process,
    numbered_names,
    path_segment,
    process_log_id,
    python_names,
)
from replaykit.seam.scope import Outcome, pending_call
from replaykit.store.sqlite import SQLiteStore


@pytest.fixture
def plan(tmp_path: Path) -> ProgramPlan:
    return ProgramPlan(mode=Mode.RECORD, run_id="r1", store=str(tmp_path / "store.db"))


def replaying(plan: ProgramPlan) -> ProgramPlan:
    return msgspec.structs.replace(plan, mode=Mode.REPLAY)


def call(part: ProcessLog, name: str, result: object, **arguments: object) -> None:
    """A call that the process of this part makes."""
    scope = part.session.root
    pending = pending_call("tool_call", name, canonical(arguments), scope, part.session.root.number("at"))
    if part.session.handler.serve(pending) is None:
        part.session.handler.settle(pending, Outcome(result_json=raw(result)), 0.0)


def recorded(seq: int, name: str, path: str = "", **arguments: object) -> ToolCall:
    return ToolCall(
        seq=seq, name=name, path=path, arguments_json=Raw(canonical(arguments)), result_json=raw(f"{name} {seq}")
    )


def ended(plan: ProgramPlan, *parts: ProcessLog) -> tuple[list[TraceRun], TraceRun]:
    for part in parts:
        part.end()
    with SQLiteStore.open(plan.store) as store:
        found = load_process_logs(store, "r1")
    return found, merge_runs(RunHeader(id="r1"), found)


def test_the_first_python_process_is_the_program_itself_and_others_are_numbered(plan: ProgramPlan) -> None:
    parts = [ProcessLog.open(plan, None, python_names("worker.py")) for _ in range(3)]

    assert [part.name for part in parts] == ["main", "worker.py#0", "worker.py#1"]
    assert [path_segment(part.name) for part in parts] == ["", "/!worker.py#0", "/!worker.py#1"]
    for part in parts:
        part.end()


def test_parts_make_one_run_in_the_order_of_their_time(plan: ProgramPlan) -> None:
    first, second = ProcessLog.open(plan, None, iter([MAIN])), ProcessLog.open(plan, None, iter(["child#0"]))
    for number in range(4):
        call(first if number % 2 == 0 else second, f"tool_{number}", number)

    parts, run = ended(plan, first, second)

    assert len(parts) == 2
    assert [event.seq for event in run.events] == [0, 1, 2, 3]
    assert {(event.name, event.path) for event in run.calls} == {
        ("tool_0", ""),
        ("tool_2", ""),
        ("tool_1", "/!child#0"),
        ("tool_3", "/!child#0"),
    }


events = st.lists(
    st.tuples(st.integers(0, 2), st.floats(0, 9), st.booleans()), max_size=12
)  # (which part, when, made inside of the one before)


@given(events)
def test_nothing_is_lost_or_doubled_and_parents_stay_parents(drawn: list[tuple[int, float, bool]]) -> None:
    made: dict[int, list[ToolCall]] = {0: [], 1: [], 2: []}
    for part, at, inside in drawn:
        own = made[part]
        parent = len(own) - 1 if inside and own else None
        own.append(ToolCall(seq=len(own), name=f"{part}.{len(own)}", at=at, parent=parent))
    parts = [TraceRun(id=f"p{n}", name=MAIN if n == 0 else f"x#{n}", events=tuple(own)) for n, own in made.items()]

    run = merge_runs(RunHeader(id="r1"), parts)

    by_name = {event.name: event for event in run.calls}
    assert [event.seq for event in run.events] == list(range(len(drawn)))
    assert [event.at for event in run.events] == sorted(event.at for event in run.events)
    assert run.event_count == len(drawn) == len(by_name)
    for n, own in made.items():
        for event in own:
            parent = by_name[event.name].parent
            told = None if parent is None else next(e.name for e in run.calls if e.seq == parent)
            assert told == (None if event.parent is None else f"{n}.{event.parent}")


def test_putting_together_leaves_the_run_and_no_parts(plan: ProgramPlan) -> None:
    part = ProcessLog.open(plan, None, iter([MAIN]))
    call(part, "search", "found", query="x")
    part.end()
    with SQLiteStore.open(plan.store) as store:
        store.begin(RunHeader(id="r1"))

        run = merge_in_store(store, RunHeader(id="r1", name="whole"))

        assert [header.id for header in store.headers()] == ["r1"]
        assert store.load("r1") == run
        assert list(store.verify()) == []


def test_an_id_that_begins_like_a_run_is_not_ambiguous_while_it_is_recorded(plan: ProgramPlan) -> None:
    part = ProcessLog.open(plan, None, iter([MAIN]))
    with SQLiteStore.open(plan.store) as store:
        store.begin(RunHeader(id="r1"))

        assert store.header("r").id == "r1"
        assert process_log_id("r1", MAIN).startswith("part/r1/")
    part.end()


def test_a_process_that_outlives_its_recording_goes_on_as_if_nobody_recorded(plan: ProgramPlan) -> None:
    part = ProcessLog.open(plan, None, iter([MAIN]))
    call(part, "before", 1)
    with SQLiteStore.open(plan.store) as store:
        store.begin(RunHeader(id="r1"))
        run = merge_in_store(store, RunHeader(id="r1"))

    call(part, "after", 2)
    part.end()

    assert [event.name for event in run.calls] == ["before"]
    with SQLiteStore.open(plan.store) as store:
        assert store.load("r1") == run


def test_a_store_that_fails_is_not_taken_for_the_end_of_a_recording(
    plan: ProgramPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = ProcessLog.open(plan, None, iter([MAIN]))

    def full(*_: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr("replaykit.store.writer.SQLiteWriter.append", full)

    with pytest.raises(StoreError, match="the disk is full"):
        call(part, "search", "found")
    monkeypatch.undo()
    part.end()


def test_each_process_is_served_its_own_calls(plan: ProgramPlan) -> None:
    calls = (recorded(0, "ask"), recorded(1, "ask", "/!child#0"), recorded(2, "ask", "/!child#0/~job#1"))
    world = World(case_id="c1", calls=calls)

    assert [(c.seq, c.path) for c in calls_of_process(world, MAIN)] == [(0, "")]
    assert [(c.seq, c.path) for c in calls_of_process(world, "child#0")] == [(1, ""), (2, "/~job#1")]
    assert calls_of_process(world, "child#01") == []


def test_a_replay_writes_down_what_was_done_as_it_is_done(plan: ProgramPlan) -> None:
    world = World(case_id="c1", calls=(recorded(0, "ask", query="x"),))
    part = ProcessLog.open(replaying(plan), world, iter([MAIN]))

    call(part, "ask", None, query="x")

    with SQLiteStore.open(plan.store) as store:
        assert [event.result for event in store.load(process_log_id("r1", MAIN)).events if isinstance(event, Call)] == [
            "ask 0"
        ]
    part.end()


def test_where_a_process_left_its_tape_is_known_though_it_was_killed(plan: ProgramPlan) -> None:
    world = World(case_id="c1", calls=(recorded(0, "ask", query="x"),))
    part = ProcessLog.open(replaying(plan), world, iter([MAIN]))
    with pytest.raises(Divergence):
        call(part, "ask", None, query="y")
    part.add_deviation("a live connection to h:1 was stopped")

    with SQLiteStore.open(plan.store) as store:  # the part has not ended
        parts = load_process_logs(store, "r1")
    run = merge_runs(RunHeader(id="r1"), parts)

    told = all_deviations(parts, run, world)
    assert [deviation.kind for deviation in told] == ["missing", "network", "unused"]
    assert "'x' → 'y'" in told[0].text
    assert not any(isinstance(event, Note) for event in run.events), "the notes are no events of the run"
    part.end()


def test_calls_of_a_process_that_was_never_started_are_unused(plan: ProgramPlan) -> None:
    world = World(case_id="c1", calls=(recorded(0, "ask"), recorded(1, "tell", "/!child#0")))
    part = ProcessLog.open(replaying(plan), world, iter([MAIN]))
    call(part, "ask", None)

    parts, run = ended(plan, part)

    assert [(d.kind, d.name) for d in all_deviations(parts, run, world)] == [("unused", "tell")]


@pytest.mark.parametrize(
    ("changed", "unused"),
    [
        ({}, ["ask", "ask"]),
        ({"tools": {"ask": ToolMode.LIVE}}, []),
        ({"tools": {"*": ToolMode.BLOCKED}}, []),
        ({"rules": MatchRules(ignore=("$.query",))}, ["ask"]),
        ({"rules": MatchRules(mode=MatchMode.SEQUENCE)}, ["ask"]),
    ],
)
def test_what_is_unused_goes_by_the_rules_of_the_case(changed: dict[str, object], unused: list[str]) -> None:
    calls = (recorded(0, "ask", query="x"), recorded(1, "ask", query="y"))
    run = TraceRun(id="r1", events=(recorded(0, "ask", query="z"),))

    told = all_deviations([], run, World(case_id="c1", calls=calls, **changed))  # type: ignore[arg-type]

    assert [deviation.name for deviation in told] == unused


def test_states_of_several_processes_fold_in_the_whole_run(plan: ProgramPlan) -> None:
    first, second = ProcessLog.open(plan, None, iter([MAIN])), ProcessLog.open(plan, None, iter(["child#0"]))
    for number in range(3):
        first.session.checkpoint({"who": "first", "number": number, "long": "x" * 50})
        second.session.checkpoint({"who": "second", "number": number, "long": "y" * 50})
    first.end()
    second.end()

    with SQLiteStore.open(plan.store) as store:
        store.begin(RunHeader(id="r1"))
        run = merge_in_store(store, RunHeader(id="r1"))
        states = [store.state_at("r1", event.seq) for event in run.events if isinstance(event, State)]

    assert [(state["who"], state["number"]) for state in states] == [
        (who, number) for number in range(3) for who in ("first", "second")
    ]


def test_a_name_that_is_taken_and_has_no_other_beside_it_is_an_error(plan: ProgramPlan) -> None:
    part = ProcessLog.open(plan, None, iter(["proxy"]))

    with pytest.raises(StoreError, match="has such a part already"):
        ProcessLog.open(plan, None, iter(["proxy"]))
    part.end()


def test_names_never_run_out(plan: ProgramPlan) -> None:
    names: Iterator[str] = numbered_names("x")

    assert [next(names) for _ in range(3)] == ["x#0", "x#1", "x#2"]


@pytest.mark.parametrize("damage", [b"", b"{", b'{"mode": "dance", "run_id": "r", "store": "s"}', b"[]"])
def test_a_plan_that_cannot_be_read_is_an_error_that_names_it(tmp_path: Path, plan: ProgramPlan, damage: bytes) -> None:
    write_plan(tmp_path, plan)
    (tmp_path / "plan.json").write_bytes(damage)

    with pytest.raises(StoreError, match="cannot be read") as caught:
        read_plan(tmp_path)

    assert str(tmp_path) in str(caught.value)


def test_a_plan_is_read_as_it_was_written(tmp_path: Path, plan: ProgramPlan) -> None:
    world = World(case_id="c1", calls=(recorded(0, "ask"),), run_id="r0")

    write_plan(tmp_path, replaying(plan), world)

    assert read_plan(tmp_path) == (replaying(plan), world)


def test_the_origin_of_a_part_is_its_run(plan: ProgramPlan) -> None:
    part = ProcessLog.open(plan, None, iter([MAIN]))
    part.end()

    with SQLiteStore.open(plan.store) as store:
        assert store.header(process_log_id("r1", MAIN)).origin == Origin(kind="part", run="r1")
