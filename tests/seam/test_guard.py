"""The socket guard: a replay that goes to the network is stopped, and says who tried."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import replaykit as rk
from replaykit.errors import LiveConnection
from replaykit.handlers.replay.handler import Replayer
from replaykit.model.matching import MatchRules, OnMiss, ToolMode


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def connect(port: int) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        return "connected"


def test_a_connection_is_stopped_and_the_line_that_tried_is_named(port: int) -> None:
    with rk.replaying(rk.Tape([])) as replayer:
        with pytest.raises(LiveConnection) as caught:
            connect(port)

    assert (caught.value.host, caught.value.port) == ("127.0.0.1", port)
    assert "test_guard.py" in caught.value.who
    assert "in connect" in caught.value.who
    assert f"--allow-connect 127.0.0.1:{port} " in (caught.value.hint or "")
    assert [deviation.kind for deviation in replayer.all_deviations()] == ["network"]


def test_looking_up_a_name_is_stopped_with_the_name() -> None:
    with rk.replaying(rk.Tape([])), pytest.raises(LiveConnection, match=r"api\.example\.com:443"):
        socket.create_connection(("api.example.com", 443))


@pytest.mark.parametrize("look_up", [socket.gethostbyname, socket.gethostbyname_ex])
def test_every_way_to_look_up_a_name_is_stopped_but_for_the_machines_own(look_up: Any) -> None:
    with rk.replaying(rk.Tape([])) as replayer:
        with pytest.raises(LiveConnection, match=r"api\.example\.com was stopped"):
            getattr(socket, look_up.__name__)("api.example.com")
        assert getattr(socket, look_up.__name__)("127.0.0.1") == look_up("127.0.0.1")
        assert getattr(socket, look_up.__name__)("localhost") == look_up("localhost")

    assert len(replayer.all_deviations()) == 1


def test_a_name_that_asyncio_looks_up_is_stopped_where_it_is_asked_for() -> None:
    async def agent() -> None:
        await asyncio.open_connection("api.example.com", 443)

    with rk.replaying(rk.Tape([])), pytest.raises(LiveConnection, match=r"api\.example\.com:443") as caught:
        asyncio.run(agent())

    assert "test_guard.py" in caught.value.who
    assert "in agent" in caught.value.who


def test_datagrams_are_stopped(port: int) -> None:
    with (
        rk.replaying(rk.Tape([])),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
        pytest.raises(LiveConnection),
    ):
        sock.sendto(b"metric:1|c", ("127.0.0.1", port))
    with (
        rk.replaying(rk.Tape([])),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock,
        pytest.raises(LiveConnection),
    ):
        sock.sendmsg([b"metric:1|c"], [], 0, ("127.0.0.1", port))


def test_asyncio_is_stopped_and_its_loop_works(port: int) -> None:
    async def agent() -> str:
        await asyncio.sleep(0)
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        return "connected"

    with rk.replaying(rk.Tape([])), pytest.raises(LiveConnection):
        asyncio.run(agent())


def test_jobs_and_threads_of_the_agent_are_stopped(port: int) -> None:
    with rk.replaying(rk.Tape([])), ThreadPoolExecutor(1) as pool, pytest.raises(LiveConnection):
        pool.submit(connect, port).result()


def test_what_the_case_allows_is_let_through(port: int) -> None:
    for entry in (f"127.0.0.1:{port}", "127.0.0.1", f"*:{port}", "*"):
        with rk.replaying(rk.Tape([]), MatchRules(network=(entry,))) as replayer:
            assert connect(port) == "connected"
        assert replayer.all_deviations() == []


@pytest.mark.parametrize("entry", ["localhost", "localhost:{}", "LocalHost:{}"])
def test_a_name_that_is_allowed_is_reached_at_its_addresses(entry: str, port: int) -> None:
    async def awaited() -> None:
        _, writer = await asyncio.open_connection("localhost", port)
        writer.close()
        await writer.wait_closed()

    rules = MatchRules(network=(entry.format(port),))
    with rk.replaying(rk.Tape([]), rules) as replayer:
        socket.create_connection(("localhost", port), timeout=5).close()
        asyncio.run(awaited())
    with rk.replaying(rk.Tape([]), rules), socket.socket() as sock:
        sock.connect((socket.gethostbyname("localhost"), port))

    assert replayer.all_deviations() == []


def test_a_name_that_is_allowed_for_one_port_is_not_for_another(port: int) -> None:
    with rk.replaying(rk.Tape([]), MatchRules(network=("localhost:1",))):
        address = socket.gethostbyname("localhost")
        with pytest.raises(LiveConnection, match=f":{port} was stopped"), socket.socket() as sock:
            sock.connect((address, port))


def test_an_address_with_colons_is_let_through_as_it_is_named() -> None:
    with rk.replaying(rk.Tape([])), socket.socket(socket.AF_INET6) as sock:
        with pytest.raises(LiveConnection, match=r"\[::1\]:1 was stopped") as caught:
            sock.connect(("::1", 1))
    assert "--allow-connect [::1]:1 " in (caught.value.hint or "")

    for entry in ("[::1]:1", "::1:1", "::1"):
        with rk.replaying(rk.Tape([]), MatchRules(network=(entry,))), socket.socket(socket.AF_INET6) as sock:
            assert sock.connect_ex(("::1", 1)) != 0  # nobody is there, and nobody minds


def test_a_call_that_is_done_for_real_may_connect(port: int) -> None:
    @rk.tool
    def reach() -> str:
        return connect(port)

    with rk.replaying(rk.Tape([]), tools={"reach": ToolMode.LIVE}):
        assert reach() == "connected"
    with rk.replaying(rk.Tape([]), MatchRules(on_miss=OnMiss.LIVE, live=("reach",))):
        assert reach() == "connected"


def test_tasks_and_threads_of_a_call_that_is_done_for_real_may_connect(port: int) -> None:
    @rk.tool
    async def ask() -> list[str]:
        in_thread = asyncio.create_task(asyncio.to_thread(connect, port))
        reader = asyncio.create_task(asyncio.open_connection("127.0.0.1", port))
        (await reader)[1].close()
        return [await in_thread]

    replayer = Replayer(rk.Tape([]), MatchRules(on_miss=OnMiss.LIVE, live=("ask",)))
    with replayer.at_work():
        assert asyncio.run(ask()) == ["connected"]
    assert [deviation.kind for deviation in replayer.all_deviations()] == ["live"]


def test_other_threads_of_the_process_go_on(port: int) -> None:
    ready, go, said = threading.Event(), threading.Event(), []

    def other() -> None:
        ready.set()
        go.wait(5)
        said.append(connect(port))

    thread = threading.Thread(target=other)
    thread.start()
    ready.wait(5)
    with rk.replaying(rk.Tape([])):
        go.set()
        thread.join(5)

    assert said == ["connected"]


def test_in_a_process_of_its_own_no_thread_reaches_the_network(port: int) -> None:
    said: list[object] = []

    def other() -> None:
        go.wait(60)
        try:
            said.append(connect(port))
        except LiveConnection as error:
            said.append(error.hint)

    go = threading.Event()
    replayer = Replayer(rk.Tape([]))
    threads = [threading.Thread(target=other)]
    threads[0].start()
    with rk.replaying(rk.Tape([])):  # one that is over when it goes on
        threads.append(threading.Thread(target=other))
        threads[1].start()
    with replayer.at_work(alone=True):
        go.set()
        for thread in threads:
            thread.join(5)

    assert ["there before the run" in str(hint) for hint in said] == [True, True]
    assert [deviation.kind for deviation in replayer.deviations] == ["network"] * 2


def test_unix_sockets_and_pairs_are_left_alone(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        with rk.replaying(rk.Tape([])), socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "s"))


def test_a_recording_is_not_guarded(port: int, store: rk.Store) -> None:
    with rk.record("agent", store=store):
        assert connect(port) == "connected"


def test_nothing_is_left_behind(port: int) -> None:
    program = f"""
import socket
import replaykit as rk

connect, lookup = socket.socket.connect, socket.getaddrinfo
with rk.replaying(rk.Tape([])), rk.replaying(rk.Tape([])):
    assert socket.socket.connect is not connect
assert socket.socket.connect is connect
assert socket.getaddrinfo is lookup
assert "connect" not in vars(socket.socket)
socket.create_connection(("127.0.0.1", {port})).close()
"""
    # In a process of its own: here, an agent that was given up may still hold a guard.
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)

    assert done.stderr == ""
    assert done.returncode == 0


def test_a_candidate_that_goes_to_the_network_has_left_the_tape(port: int) -> None:
    run = rk.TraceRun(id="r", name="agent", status="success", output_json=b'"done"')  # type: ignore[arg-type]

    def agent(_: object) -> str:
        try:
            connect(port)
        except Exception:
            return "done"
        return "connected"

    result = rk.replay(run, agent)

    assert result.verdict.value == "diverged"
    assert any(deviation.kind == "network" for deviation in result.deviations)
