"""Servers that an agent starts itself: it reaches them in a replay, at every level, and no others."""

from __future__ import annotations

import importlib
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.matrix import matrix, sampled

import replaykit as rk
from replaykit.candidates.python import PythonCandidate
from replaykit.cases.case import load_case
from replaykit.model.events import Note
from replaykit.model.result import ReplayResult, Verdict
from replaykit.programs.isolation_level import ISOLATION
from replaykit.report.replays import isolation_text
from replaykit.store.sqlite import SQLiteStore

AGENT = """
import asyncio, http.server, os, socket, subprocess, sys, threading, time, urllib.request
import replaykit as rk

@rk.tool
def lookup(user: str) -> dict:
    return {"plan": "free"}

def serve_one(server):
    with server:
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"hello")

"""
WAYS = {
    "socket": """
server = socket.create_server(("127.0.0.1", 0))
serving = threading.Thread(target=serve_one, args=(server,))
serving.start()
with socket.create_connection(server.getsockname()) as client:
    said = client.recv(5).decode()
serving.join()
""",
    "localhost": """
server = socket.create_server(("127.0.0.1", 0))
serving = threading.Thread(target=serve_one, args=(server,))
serving.start()
with socket.create_connection(("localhost", server.getsockname()[1])) as client:
    said = client.recv(5).decode()
serving.join()
""",
    "asyncio": """
async def main():
    async def handle(reader, writer):
        await asyncio.sleep(0.05)
        writer.write(lookup(user="inside")["plan"].encode())
        writer.close()
    async with await asyncio.start_server(handle, "localhost", 0) as server:
        reader, writer = await asyncio.open_connection("localhost", server.sockets[0].getsockname()[1])
        answer = await asyncio.wait_for(reader.read(5), 20)
        writer.close()
        return answer.decode()
said = asyncio.run(main())
""",
    "http.server": """
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello")
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
serving = threading.Thread(target=server.serve_forever)
serving.start()
with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/") as response:
    said = response.read().decode()
server.shutdown()
serving.join()
server.server_close()
""",
    "aiohttp": """
import aiohttp, aiohttp.web
async def main():
    async def handle(request):
        return aiohttp.web.Response(text="hello")
    app = aiohttp.web.Application()
    app.router.add_get("/", handle)
    runner = aiohttp.web.AppRunner(app)
    await runner.setup()
    site = aiohttp.web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/") as response:
        answer = await response.text()
    await runner.cleanup()
    return answer
said = asyncio.run(main())
""",
}
CHILD = """
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
child = subprocess.Popen([sys.executable, "-E", "-c",
    f"import socket; socket.create_server(('127.0.0.1', {port})).accept()[0].sendall(b'hello')"])
while True:
    try:
        client = socket.create_connection(("127.0.0.1", port))
        break
    except ConnectionRefusedError:
        time.sleep(0.05)
said = client.recv(5).decode()
client.close()
child.wait()
"""
LEVELS = ("full", "landlock", "process")


@pytest.fixture
def replayed(
    own_directory: Path, make_case: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., ReplayResult]]:
    """Record an agent that does this and fails with what it heard, then replay it unchanged, or with other code."""
    monkeypatch.syspath_prepend(str(own_directory))

    def write(code: str) -> None:
        body = "".join(f"    {line}\n" for line in code.strip().splitlines())
        Path("agent_serving.py").write_text(
            f"{AGENT}def agent(question):\n{body}    lookup(user=said)\n    raise ValueError(said)\n"
        )

    def replay(code: str, level: str, *, later: str = "") -> ReplayResult:
        write(code)
        module = importlib.import_module("agent_serving")
        with pytest.raises(ValueError, match=r"hello|free"), rk.record("agent", input="q") as run:
            module.agent("q")
        with SQLiteStore.open(own_directory / ".replaykit" / "store.db") as store:
            recorded = store.load(run.id)
        assert not [event for event in recorded.events if isinstance(event, Note)]
        if later:
            write(later)
        monkeypatch.setenv(ISOLATION, level)
        case = load_case(make_case(calls=recorded.calls))
        result = rk.replay(case, PythonCandidate("agent_serving:agent"))
        if sys.platform == "linux":
            assert level in isolation_text(result.isolation)
        return result

    yield replay
    sys.modules.pop("agent_serving", None)


@matrix(way=WAYS, level=LEVELS)
def test_an_unchanged_agent_with_a_server_in_its_process_is_reproduced(
    way: str, level: str, replayed: Callable[..., ReplayResult]
) -> None:
    result = replayed(WAYS[way], level)

    assert result.verdict is Verdict.REPRODUCED, result.reason
    assert result.deviations == ()


@sampled("level", LEVELS, count=1, start=1)
def test_a_server_of_somebody_else_stays_shut(level: str, replayed: Callable[..., ReplayResult]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        visit = f"{WAYS['socket']}socket.create_connection(('127.0.0.1', {port})).close()\n"

        result = replayed(WAYS["socket"], level, later=visit)

        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.accept()
    assert result.verdict is Verdict.DIVERGED
    assert f"127.0.0.1:{port}" in result.reason


def test_another_server_on_the_same_port_of_another_address_stays_shut(replayed: Callable[..., ReplayResult]) -> None:
    with socket.create_server(("127.0.0.2", 0)) as other:
        port = other.getsockname()[1]
        own = f"""
server = socket.create_server(("127.0.0.1", {port}))
threading.Thread(target=serve_one, args=(server,), daemon=True).start()
try:
    socket.create_connection(("127.0.0.2", {port})).close()
except ConnectionRefusedError:
    said = "hello"
"""
        replayed(WAYS["socket"], "process", later=own)

        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.accept()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux offers sandboxes")
@sampled("level", ["full", "landlock"], count=1)
def test_a_server_in_a_child_process_is_waited_for_and_reached(
    level: str, replayed: Callable[..., ReplayResult]
) -> None:
    result = replayed(WAYS["socket"], level, later=CHILD)

    assert result.verdict is Verdict.REPRODUCED, result.reason
    assert result.isolation.stopped == ()


def test_requests_to_an_own_server_that_are_on_the_tape_are_served(
    own_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server was somebody else's when it was recorded, on a port that is the agent's own now."""
    from http.server import BaseHTTPRequestHandler, HTTPServer
    from threading import Thread
    from urllib.request import urlopen

    class Handler(BaseHTTPRequestHandler):
        answer = b"recorded"

        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(self.answer)))
            self.end_headers()
            self.wfile.write(self.answer)

        def log_message(self, *_: object) -> None:
            pass

    def ask(port: int) -> str:
        with urlopen(f"http://127.0.0.1:{port}/") as response:
            return str(response.read().decode())

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        port = server.server_port
        Thread(target=server.serve_forever, daemon=True).start()
        with rk.record("agent", input="q") as run:
            run.output = ask(port)
        server.shutdown()
    with SQLiteStore.open(own_directory / ".replaykit" / "store.db") as store:
        recorded = store.load(run.id)

    def agent(_: object) -> str:
        with HTTPServer(("127.0.0.1", port), Handler) as own:
            Thread(target=own.serve_forever, daemon=True).start()
            Handler.answer = b"live"
            answer = ask(port)
            own.shutdown()
        return answer

    result = rk.replay(recorded, agent)

    assert result.run is not None
    assert result.run.output == "recorded", result.reason
