"""What a program does past its recording is named when it is recorded: a replay cannot serve it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.commands import run_here
from tests.matrix import sampled
from tests.programs.agents import STRANGER, write
from tests.programs.conftest import Upstream, completion, whole
from tests.programs.test_programs import own_environment, recorded, replayed

from replaykit.cases.lint import lint_case
from replaykit.cases.scaffold import scaffold
from replaykit.formats.core.replayability import replayability
from replaykit.model.run import TraceRun
from replaykit.model.unrecorded import Unrecorded, all_unrecorded, unrecorded_lines
from replaykit.report.recordings import not_recorded_text
from replaykit.report.runs import run_text
from replaykit.seam.sockets import can_tell

__all__ = ["own_environment"]  # in effect here too

needs_proc = pytest.mark.skipif(not can_tell(), reason="this system does not say who is connected")

TWICE = """
    import socket, sys
    for _ in range(2):
        with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20) as database:
            database.sendall(b"select 1\\n")
            print(database.recv(100))
"""
LASTING = """
    import ctypes, socket, struct, sys, time
    libc = ctypes.CDLL(None, use_errno=True)

    def connect(port):
        '''As a database driver in C does: Python's sockets know nothing of it.'''
        fd = libc.socket(socket.AF_INET, socket.SOCK_STREAM, 0)
        address = struct.pack("=HH4s8x", socket.AF_INET, socket.htons(port), socket.inet_aton("127.0.0.1"))
        assert libc.connect(fd, address, len(address)) == 0
        time.sleep(1)
        libc.close(fd)
"""
TOOL = """
    import replaykit as rk, socket, subprocess, sys

    @rk.tool
    def query(port: int) -> str:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as database:
            database.sendall(b"select 1\\n")
            return database.recv(100).decode()
"""


class Database:
    """A server outside of the program that answers every line, over TCP or a socket in the file system."""

    def __init__(self, path: str = "") -> None:
        if path:
            self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._listening.bind(path)
            self._listening.listen()
        else:
            self._listening = socket.create_server(("127.0.0.1", 0))
            self.port = str(self._listening.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            while connection.recv(1000):
                connection.sendall(b"1 row\n")

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()


@pytest.fixture
def database() -> Iterator[Database]:
    server = Database()
    yield server
    server.close()


def lines(run: TraceRun) -> list[str]:
    return unrecorded_lines(all_unrecorded(run.events))


def test_a_raw_connection_is_named_with_its_line_and_how_often(database: Database) -> None:
    live = recorded(sys.executable, write(TWICE), "127.0.0.1", database.port)

    assert lines(live.run) == [
        f"not recorded: a connection to 127.0.0.1:{database.port} (agent.py:4, 2 times); the replay will stop there"
    ]


def test_the_host_is_named_as_the_program_names_it(database: Database) -> None:
    live = recorded(sys.executable, write(TWICE), "localhost", database.port)

    assert [one.place for one in all_unrecorded(live.run.events)] == [f"localhost:{database.port}"]


def test_show_scaffold_lint_and_the_manifest_say_that_the_replay_will_stop(database: Database) -> None:
    run = recorded(sys.executable, write(TWICE), "127.0.0.1", database.port).run
    said = f"a connection to 127.0.0.1:{database.port}"

    case = scaffold(run, "cases/raw")

    assert said in run_text(run)
    assert said in Path("cases/raw/notes.md").read_text()
    assert [problem.code for problem in lint_case(case.directory) if said in problem.message] == ["not-recorded"]
    assert replayability(run).unrecorded == tuple(lines(run))
    assert "not everything it did was recorded" in replayability(run).summary


def test_the_replay_does_stop_there(database: Database) -> None:
    agent = [sys.executable, write(TWICE), "127.0.0.1", database.port]

    result = replayed(recorded(*agent).run, *agent)

    assert any(f"127.0.0.1:{database.port}" in deviation.text for deviation in result.deviations)


def test_a_connection_that_a_tool_makes_is_not_named(database: Database) -> None:
    live = recorded(sys.executable, write(TOOL + f"    print(query({database.port}))\n"))

    assert [call.name for call in live.run.calls] == ["query"]
    assert lines(live.run) == []


def test_a_connection_of_a_thread_that_a_tool_started_is_not_named(database: Database) -> None:
    body = f"""
    import threading

    @rk.tool
    def in_a_thread(port: int) -> None:
        thread = threading.Thread(target=lambda: socket.create_connection(("127.0.0.1", port)).close())
        thread.start()
        thread.join()

    in_a_thread({database.port})
"""
    assert lines(recorded(sys.executable, write(TOOL + body)).run) == []


@sampled("child", ["python", "bash"], count=1)
def test_a_connection_of_a_process_that_a_tool_started_is_not_named(child: str, database: Database) -> None:
    if child == "bash" and not shutil.which("bash"):
        pytest.skip("no bash")
    command = {
        "python": [sys.executable, "-c", f"import socket; socket.create_connection(('127.0.0.1', {database.port}))"],
        "bash": ["bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{database.port}; sleep 0.5"],
    }
    body = f"""
    @rk.tool
    def in_a_process(command: list[str]) -> int:
        return subprocess.run(command).returncode

    assert in_a_process({command[child]!r}) == 0
"""
    assert lines(recorded(sys.executable, write(TOOL + body)).run) == []


@sampled("library", ["httpx", "urllib.request", "requests", "aiohttp", "http.client"], count=1)
def test_requests_of_the_http_libraries_are_not_named(library: str, upstream: Upstream) -> None:
    pytest.importorskip(library)
    ask = {
        "httpx": "httpx.get(url, timeout=20)",
        "requests": "requests.get(url, timeout=20)",
        "urllib.request": "urllib.request.urlopen(url, timeout=20).read()",
        "aiohttp": "asyncio.run(get(url))",
        "http.client": "early(url)",
    }
    body = f"""
    import asyncio, sys, {library}
    from urllib.parse import urlsplit

    async def get(url):
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return await response.read()

    def early(url):
        connection = http.client.HTTPConnection(urlsplit(url).hostname, urlsplit(url).port)
        connection.connect()
        connection.request("GET", "/orders")
        connection.getresponse().read()

    url = sys.argv[1]
    {ask[library]}
    import time; time.sleep(0.3)
"""
    live = recorded(sys.executable, write(body), f"{upstream.url}/orders")

    assert len(list(live.run.calls)) == 1
    assert lines(live.run) == []


def test_the_programs_own_servers_are_not_named() -> None:
    body = """
    import asyncio, multiprocessing.managers, socket, tempfile, threading, time

    def poll(place, family):
        for _ in range(200):
            with socket.socket(family) as client:
                if client.connect_ex(place) == 0:
                    return client.recv(5)
            time.sleep(0.01)

    def serve(listening):
        time.sleep(0.1)
        listening.listen()
        for _ in range(2):
            connection, _ = listening.accept()
            connection.sendall(b"hello")
            time.sleep(0.3)
            connection.close()

    async def poll_awaited(port):
        try:
            await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            pass

    over_tcp, path = socket.socket(), tempfile.mkdtemp() + "/own"
    over_tcp.bind(("127.0.0.1", 0))
    port = over_tcp.getsockname()[1]
    asyncio.run(poll_awaited(port))
    in_file = socket.socket(socket.AF_UNIX)
    in_file.bind(path)
    for listening in (over_tcp, in_file):
        threading.Thread(target=serve, args=[listening], daemon=True).start()
    assert poll(("127.0.0.1", port), socket.AF_INET) == b"hello"
    assert poll(path, socket.AF_UNIX) == b"hello"
    with multiprocessing.managers.SyncManager() as manager:
        assert list(manager.list([1])) == [1]
    asyncio.run(poll_awaited(port))
"""
    live = recorded(sys.executable, write(body))

    assert live.exit_code == 0, Path("printed.txt").read_text()
    assert lines(live.run) == []


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no such sockets")
def test_a_socket_in_the_file_system_is_named(tmp_path: Path) -> None:
    server = Database(f"{tmp_path}/db")
    body = """
    import socket, sys
    with socket.socket(socket.AF_UNIX) as database:
        database.connect(sys.argv[1])
        database.sendall(b"select 1\\n")
        print(database.recv(100))
"""
    live = recorded(sys.executable, write(body), f"{tmp_path}/db")
    server.close()

    assert lines(live.run) == [f"not recorded: a connection to {tmp_path}/db (agent.py:4); a replay will not serve it"]


def test_datagrams_are_named() -> None:
    body = """
    import socket, sys
    with socket.socket(type=socket.SOCK_DGRAM) as metrics:
        metrics.sendto(b"hits:1|c", ("127.0.0.1", int(sys.argv[1])))
"""
    with socket.socket(type=socket.SOCK_DGRAM) as statsd:
        statsd.bind(("127.0.0.1", 0))
        port = statsd.getsockname()[1]
        live = recorded(sys.executable, write(body), str(port))

    assert lines(live.run) == [f"not recorded: a datagram to 127.0.0.1:{port} (agent.py:4); the replay will stop there"]


@needs_proc
def test_a_connection_of_a_c_library_is_named(database: Database) -> None:
    live = recorded(sys.executable, write(LASTING + f"    connect({database.port})\n"))

    assert lines(live.run) == [
        f"not recorded: a connection to 127.0.0.1:{database.port} (python, in a C library); a replay will not serve it"
    ]


@needs_proc
def test_a_connection_that_a_c_library_makes_in_a_tool_is_not_named(database: Database) -> None:
    body = f"""
    import replaykit as rk, time
    query = rk.tool(connect)
    time.sleep(0.3)
    query({database.port})
"""
    live = recorded(sys.executable, write(LASTING + body))

    assert len(list(live.run.calls)) == 1
    assert lines(live.run) == []


@needs_proc
def test_a_program_in_another_language_that_connects_past_the_proxy_is_named(
    database: Database, upstream: Upstream
) -> None:
    upstream.script = lambda asked: [whole(completion("hello"))]
    body = """
    import http.client, os, socket, sys, time
    from urllib.parse import urlsplit
    base = urlsplit(os.environ["OPENAI_BASE_URL"])
    proxied = http.client.HTTPConnection(base.hostname, base.port)
    proxied.request("POST", base.path + "/chat/completions", '{"model": "small", "messages": []}')
    proxied.getresponse().read()
    direct = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    time.sleep(1)
"""
    live = recorded(*STRANGER, write(body), database.port)

    program = os.path.basename(sys.executable)
    assert len(list(live.run.calls)) == 1
    assert lines(live.run) == [
        f"not recorded: a connection to 127.0.0.1:{database.port} ({program}); a replay will not serve it"
    ]


@needs_proc
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_a_shell_that_connects_is_named_and_what_comes_in_is_not(database: Database) -> None:
    script = f"for n in 1 2; do exec 3<>/dev/tcp/127.0.0.1/{database.port}; sleep 1.5; exec 3>&-; done"

    live = recorded("bash", "-c", script)

    assert lines(live.run) == [
        f"not recorded: a connection to 127.0.0.1:{database.port} (bash, 2 times); a replay will not serve it"
    ]


@needs_proc
@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
def test_a_node_program_that_connects_is_named_and_its_own_server_is_not(database: Database) -> None:
    Path("agent.mjs").write_text(
        """
        import net from "node:net"
        const own = net.createServer((socket) => socket.end("hello")).listen(0, "127.0.0.1", () => {
            const inside = net.connect(own.address().port, "127.0.0.1").resume()
            const outside = net.connect(Number(process.argv[2]), "127.0.0.1")
            setTimeout(() => { inside.destroy(); outside.destroy(); own.close() }, 1000)
        })
        """
    )

    live = recorded("node", "agent.mjs", database.port)

    assert live.exit_code == 0
    assert lines(live.run) == [
        f"not recorded: a connection to 127.0.0.1:{database.port} (node); the replay will stop there"
    ]


def test_a_websocket_at_the_proxy_is_named(upstream: Upstream) -> None:
    body = """
    import http.client, os
    from urllib.parse import urlsplit
    base = urlsplit(os.environ["OPENAI_BASE_URL"])
    client = http.client.HTTPConnection(base.hostname, base.port)
    client.request("GET", base.path + "/realtime", headers={
        "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "User-Agent": "voice/1.0"})
    print(client.getresponse().status)
"""
    live = recorded(*STRANGER, write(body))

    assert Path("printed.txt").read_text() == "403\n"
    (found,) = all_unrecorded(live.run.events)
    assert (found.kind, found.place) == ("websocket", f"127.0.0.1:{upstream.port}")
    assert found.text.endswith("; the proxy refused it")


def test_tls_that_the_proxy_refuses_is_named() -> None:
    body = """
    import http.client, os
    from urllib.parse import urlsplit
    from base64 import b64encode
    proxy = urlsplit(os.environ["REPLAYKIT_PROXY"])
    client = http.client.HTTPConnection(proxy.hostname, proxy.port)
    user = b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
    client.request("CONNECT", "api.example.com:443", headers={"Proxy-Authorization": f"Basic {user}"})
    print(client.getresponse().status)
"""
    live = recorded(*STRANGER, write(body))

    assert Path("printed.txt").read_text() == "403\n"
    assert [one.place for one in all_unrecorded(live.run.events)] == ["api.example.com:443"]


def test_a_websocket_in_a_python_process_is_named(upstream: Upstream) -> None:
    pytest.importorskip("aiohttp")
    body = """
    import aiohttp, asyncio, sys

    async def speak():
        async with aiohttp.ClientSession() as session:
            async with session.get(sys.argv[1] + "/plain") as response:
                await response.read()
            try:
                await session.ws_connect(sys.argv[1] + "/realtime")
            except aiohttp.WSServerHandshakeError:
                pass

    asyncio.run(speak())
"""
    live = recorded(sys.executable, write(body), upstream.url)

    assert lines(live.run) == [
        f"not recorded: a websocket to 127.0.0.1:{upstream.port} (agent.py:9); the replay will stop there"
    ]


def test_forked_children_are_counted_together(database: Database) -> None:
    body = """
    import os, socket, sys

    def visit():
        socket.create_connection(("127.0.0.1", int(sys.argv[1]))).close()

    visit()
    if not (child := os.fork()):
        visit()
        sys.exit()
    os.waitpid(child, 0)
"""
    live = recorded(sys.executable, write(body), database.port)

    assert [(one.place, one.count) for one in all_unrecorded(live.run.events)] == [(f"127.0.0.1:{database.port}", 2)]


def test_the_command_names_it_on_standard_error_and_in_json(database: Database) -> None:
    told = run_here("record", "--json", "--", sys.executable, write(TWICE), "127.0.0.1", database.port)

    assert told.returncode == 0
    line = f"not recorded: a connection to 127.0.0.1:{database.port} (agent.py:4, 2 times); the replay will stop there"
    document: dict[str, Any] = json.loads(told.stdout)
    assert f"replaykit: {line}" in told.stderr.splitlines()
    assert document["not_recorded"] == [
        {
            "run": document["runs"][0]["id"],
            "kind": "connection",
            "place": f"127.0.0.1:{database.port}",
            "program": "python",
            "where": "agent.py:4",
            "count": 2,
            "effect": "stops",
            "text": line,
        }
    ]


def test_secrets_in_a_path_are_redacted(tmp_path_factory: pytest.TempPathFactory) -> None:
    secret = "ghp_" + ("a1B2c3D4e5F6g7H8i9J0" * 2)[:36]
    path = str(tmp_path_factory.mktemp("s") / secret)  # the path of a socket has at most 107 bytes
    server = Database(path)
    body = """
    import socket, sys
    with socket.socket(socket.AF_UNIX) as database:
        database.connect(sys.argv[1])
"""
    live = recorded(sys.executable, write(body), path)
    server.close()

    assert "not recorded: a connection to" in not_recorded_text(live.run)
    assert secret not in not_recorded_text(live.run)


def test_no_more_than_twenty_lines_are_shown() -> None:
    found = [Unrecorded(kind="connection", place=f"10.0.0.{number}:1") for number in range(25)]  # type: ignore[arg-type]

    shown = unrecorded_lines(found)

    assert len(shown) == 21
    assert shown[-1] == "and 5 more"
