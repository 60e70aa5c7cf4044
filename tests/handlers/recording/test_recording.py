"""`record`: a run from its first event to its last."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import replaykit as rk
from replaykit.errors import StoreError, UsageError
from replaykit.model.run import RunStatus


@rk.tool
def double(x: int) -> int:
    return 2 * x


def test_a_run_keeps_input_output_calls_and_times(store: rk.Store) -> None:
    with rk.record(
        "math", input={"x": 1}, agent="calc", agent_version="2", tags=["t"], metadata={"k": 1}, store=store
    ) as run:
        run.output = double(1)

    found = store.load(run.id)
    assert (found.name, found.agent, found.agent_version, found.tags) == ("math", "calc", "2", ("t",))
    assert (found.input, found.output, found.metadata, found.status) == ({"x": 1}, 2, {"k": 1}, RunStatus.SUCCESS)
    assert found.event_count == len(found.events) == 1
    assert found.ended_at is not None
    assert found.ended_at >= found.started_at > 0


def test_an_exception_is_the_runs_error_and_is_raised_on(store: rk.Store) -> None:
    with pytest.raises(ZeroDivisionError), rk.record("math", store=store) as run:
        double(1)
        1 / 0  # noqa: B018

    found = store.load(run.id)
    assert found.status is RunStatus.ERROR
    assert found.error is not None
    assert found.error.type == "ZeroDivisionError"
    assert "1 / 0" in (found.error.traceback or "")
    assert len(found.events) == 1


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (TimeoutError(), RunStatus.TIMEOUT),
        (asyncio.CancelledError(), RunStatus.CANCELLED),
        (KeyboardInterrupt(), RunStatus.CANCELLED),
        (SystemExit(1), RunStatus.ERROR),
    ],
)
def test_the_status_says_how_it_ended(store: rk.Store, error: BaseException, status: RunStatus) -> None:
    with pytest.raises(type(error)), rk.record("r", store=store) as run:
        raise error

    assert store.load(run.id).status is status


def test_as_a_decorator_each_call_is_a_run_with_its_arguments_as_the_input(store: rk.Store) -> None:
    @rk.record("adder", store=store)
    def add(a: int, b: int = 2) -> int:
        return double(a) + b

    @rk.record(store=store)
    async def one(question: str) -> str:
        return question.upper()

    assert add(1) == 4
    assert asyncio.run(one("why")) == "WHY"

    newest, oldest = store.headers()
    assert (oldest.name, oldest.input, oldest.output) == ("adder", 1, 4)
    assert (newest.name, newest.input, newest.output) == ("one", "why", "WHY")


def test_as_a_bare_decorator_it_uses_the_projects_own_store(own_directory: Path) -> None:
    @rk.record
    def agent(question: str) -> str:
        return question

    assert agent("q") == "q"

    with rk.Store.open(own_directory / ".replaykit" / "store.db") as store:
        assert [header.name for header in store.headers()] == ["agent"]
    assert (own_directory / ".replaykit" / ".gitignore").read_text() == "*\n"


def test_messages_decisions_notes_errors_and_steps_are_kept(store: rk.Store) -> None:
    with rk.record("r", store=store) as run:
        run.message("user", "hello")
        with run.step("plan") as step:
            step.decide("double")
            double(1)
            state = step.done({"count": 1})
        with run.step() as step:
            step.done({**state, "count": 2})
        run.note("weather", {"sky": "blue"})
        run.error(ValueError("caught"))

    events = store.load(run.id).events
    assert [(type(e).__name__, e.step) for e in events] == [
        ("Message", None),
        ("Decision", "plan"),
        ("ToolCall", "plan"),
        ("State", "plan"),
        ("State", "step_1"),
        ("Note", None),
        ("ErrorEvent", None),
    ]
    assert store.state_at(run.id, 3) == {"count": 1}
    assert store.state_at(run.id) == {"count": 2}


def test_a_recorded_function_inside_a_run_is_a_part_of_that_run(store: rk.Store) -> None:
    @rk.record("inner", store=store)
    def inner() -> int:
        return double(2)

    with rk.record("outer", store=store) as run:
        inner()

    assert [header.name for header in store.headers()] == ["outer"]
    assert len(store.load(run.id).events) == 1


def test_a_recorded_function_inside_a_replay_is_served(store: rk.Store) -> None:
    live = []

    @rk.tool
    def touch() -> int:
        live.append(1)
        return 5

    @rk.record("agent", store=store)
    def agent() -> int:
        return touch()

    agent()
    with rk.replaying(rk.Tape.of(store.load("agent"))):
        assert agent() == 5

    assert len(live) == 1
    assert len(store.headers()) == 1


def test_one_recording_is_for_one_run(store: rk.Store) -> None:
    recording = rk.record("r", store=store)
    with recording, pytest.raises(UsageError, match="in use"):
        recording.__enter__()


def test_what_a_forked_child_does_is_part_of_its_parents_run(store: rk.Store) -> None:
    with rk.record("r", store=store):
        pid = os.fork()
        if pid == 0:
            double(1)
            os._exit(0)
        os.waitpid(pid, 0)
        double(2)

    assert [(call.path, call.arguments) for call in store.load("r").calls] == [
        ("/!~fork#0", {"x": 1}),
        ("", {"x": 2}),
    ]


def test_a_forked_child_may_record_a_run_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with rk.record("parent", store=path):
        double(1)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                with rk.record("child", store=path):
                    double(2)
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(pid, 0)[1] == 0
        double(3)

    with rk.Store.open(path) as store:
        assert len(store.load("parent").events) == 2
        assert [call.arguments for call in store.load("child").calls] == [{"x": 2}]


def test_what_a_run_has_left_behind_goes_on_as_if_nobody_recorded(store: rk.Store) -> None:
    async def agent() -> tuple[int, int]:
        async def later() -> int:
            await over.wait()
            return double(3)

        over = asyncio.Event()
        with rk.record("r", store=store) as run:
            task = asyncio.create_task(later())
            await asyncio.sleep(0)
            first = double(1)
        over.set()
        with pytest.raises(StoreError, match="has ended"):
            run.note("too late")
        return first, await task

    assert asyncio.run(agent()) == (2, 6)
    assert len(store.load("r").events) == 1


def test_a_run_may_be_ended_by_another_task_than_began_it(store: rk.Store) -> None:
    async def answers(name: str) -> AsyncIterator[int]:
        with rk.record(name, store=store) as run:
            yield double(1)
            yield double(2)
            run.output = "done"

    async def rest(of: AsyncIterator[int]) -> list[int]:
        return [item async for item in of]

    async def server() -> None:
        streamed = answers("streamed")
        assert await anext(streamed) == 2
        assert await asyncio.create_task(rest(streamed)) == [4]
        assert double(3) == 6  # of no run
        with rk.record("next", store=store):
            double(4)

    asyncio.run(server())

    assert store.load("streamed").output == "done"
    assert [len(store.load(name).events) for name in ("streamed", "next")] == [2, 1]


def test_a_run_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be made"), rk.record("r", store=tmp_path / "file" / "store.db"):
        pass
