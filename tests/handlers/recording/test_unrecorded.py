"""`rk.record` names what a run did past its recording."""

from __future__ import annotations

import asyncio
import gc
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import replaykit as rk
from replaykit.model.run import RunHeader, TraceRun
from replaykit.model.unrecorded import all_unrecorded
from replaykit.seam.scope import RunSession
from replaykit.store.sqlite import SQLiteStore


@pytest.fixture
def port() -> Iterator[int]:
    """Where something listens that is no HTTP server."""
    with socket.create_server(("127.0.0.1", 0), backlog=200) as listening:
        yield listening.getsockname()[1]


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPLAYKIT_STORE", str(tmp_path / "store.db"))
    return tmp_path / "store.db"


@contextmanager
def warned() -> Iterator[list[warnings.WarningMessage]]:
    """The warnings of the block."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        yield seen


def connect(port: int) -> None:
    socket.create_connection(("127.0.0.1", port)).close()


@rk.tool
def query(port: int) -> str:
    connect(port)
    return "1 row"


def events_of(run: rk.Run) -> list[object]:
    with SQLiteStore.open("store.db") as opened:
        return list(opened.load(run.id).events)


def test_a_connection_is_warned_of_when_the_run_ends_and_noted_where_it_was_made(port: int) -> None:
    with warned() as seen, rk.record("billing") as run, run.step("look up"):
        for _ in range(3):
            connect(port)

    (warning,) = seen
    assert str(warning.message).startswith(f"not recorded: a connection to 127.0.0.1:{port} (")
    line = connect.__code__.co_firstlineno + 1
    assert str(warning.message).endswith(f"test_unrecorded.py:{line}, 3 times); the replay will stop there")
    assert warning.filename == __file__
    first, rest = events_of(run)
    assert (first.step, first.content["place"]) == ("look up", f"127.0.0.1:{port}")
    assert rest.content["count"] == 2
    (found,) = all_unrecorded([first, rest])
    assert found.count == 3


def test_what_a_tool_connects_to_is_not_warned_of(port: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with rk.record("billing") as run:
            query(port)

    assert len(events_of(run)) == 1


def test_what_is_made_outside_of_a_run_is_left_alone(port: int) -> None:
    gc.collect()  # the guard of an application that another test has left goes with it
    connect_before = socket.socket.connect
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with rk.record("billing") as run:
            pass
        connect(port)

    assert events_of(run) == []
    assert socket.socket.connect is connect_before
    assert "connect" not in vars(socket.socket)


def test_a_thread_that_is_older_than_the_run_is_seen(port: int) -> None:
    with ThreadPoolExecutor(1) as pool:
        go = threading.Event()
        waiting = pool.submit(lambda: (go.wait(20), connect(port)))
        with warned() as seen, rk.record("billing"):
            go.set()
            waiting.result(20)

    assert f"127.0.0.1:{port}" in str(seen[0].message)


@pytest.mark.parametrize("is_awaited", [False, True])
def test_a_port_of_this_machine_where_nobody_listens_is_not_warned_of(is_awaited: bool) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # and does not listen
        port = held.getsockname()[1]
        with warned() as seen, rk.record("billing"), pytest.raises(ConnectionRefusedError):
            if is_awaited:
                asyncio.run(asyncio.open_connection("127.0.0.1", port))
            connect(port)

    assert seen == []


def test_a_warning_that_is_an_error_does_not_reach_the_agent(port: int, capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with rk.record("billing"):
            connect(port)

    assert f"replaykit: not recorded: a connection to 127.0.0.1:{port}" in capsys.readouterr().err


def test_a_request_that_is_recorded_is_not_warned_of(port: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with rk.record("billing") as run, pytest.raises(httpx.HTTPError):
            httpx.get(f"http://127.0.0.1:{port}/", timeout=0.2)

    assert len(events_of(run)) == 1


def test_a_call_that_runs_unrecorded_beside_another_run_is_warned_of(port: int) -> None:
    go = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: (go.wait(20), query(port)))
        with warned() as seen, rk.record("billing") as run:
            other = RunSession(run.session.handler)
            with other.active():
                go.set()
                waiting.result(20)

    assert "not recorded: a call of `query` (thread " in str(seen[0].message)


def test_places_beyond_a_hundred_are_counted(port: int) -> None:
    with warned() as seen, rk.record("crawler") as run, socket.socket(type=socket.SOCK_DGRAM) as metrics:
        for number in range(130):
            metrics.sendto(b"x", (f"127.0.0.{number + 1}", port))

    assert len(seen) == 21
    assert str(seen[-1].message) == "and 110 more"
    assert len(events_of(run)) == 101


class _CountingStore(SQLiteStore):
    """Counts the headers that it reads out."""

    headers_read = 0

    def headers(self, **conditions: Any) -> list[RunHeader]:
        found = super().headers(**conditions)
        self.headers_read += len(found)
        return found


def test_a_run_with_processes_does_not_read_the_headers_of_all_others(store: Path) -> None:
    with _CountingStore(store) as counting:
        for number in range(5):
            counting.add(TraceRun.of(RunHeader(id=f"old-{number}"), ()))
        with rk.record("processes", store=counting):
            subprocess.run([sys.executable, "-c", "pass"], check=True)

        assert counting.headers_read < 5
