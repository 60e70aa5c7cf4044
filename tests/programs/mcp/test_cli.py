"""`replaykit mcp` as a client starts it: a process of its own, with pipes or a port."""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.commands import run_here
from tests.result_schemas import flaws

import replaykit as rk
from replaykit.model.run import RunStatus
from replaykit.programs.mcp.messages import MISS
from replaykit.programs.mcp.shim_session import server_name

SERVER = [sys.executable, "-I", str(Path(__file__).with_name("scripted_server.py"))]
SHIM = [sys.executable, "-m", "replaykit", "mcp"]


def tool(number: Any, name: str, **arguments: Any) -> Any:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def talk(*arguments: str, ask: Any = (), **environment: str) -> subprocess.CompletedProcess[str]:
    """What a shim says to a client that asks all at once, and leaves."""
    return subprocess.run(
        [*SHIM, *arguments],
        input="".join(json.dumps(message) + "\n" for message in ask),
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def answers_of(done: subprocess.CompletedProcess[str]) -> list[Any]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def only_run(**wanted: Any) -> rk.TraceRun:
    with rk.Store.open(Path(".replaykit/store.db"), read_only=True) as store:
        (header,) = [header for header in store.headers() if header.origin.kind == wanted.get("kind", "recorded")]
        return store.load(header.id)


def test_a_run_of_its_own_is_recorded_and_answered_from() -> None:
    first = talk("--record", "--name", "weather", "--", *SERVER, ask=[tool(1, "echo", n=1), tool(2, "echo", n=2)])
    run = only_run()
    second = talk("--replay", run.id, "--name", "weather", "--", "no-such-server", ask=[tool("b", "echo", n=2)])

    assert first.returncode == 0
    assert run.name == "MCP weather"
    assert [call.name for call in run.tool_calls] == ["weather.echo", "weather.echo"]
    assert f"replaykit show {run.id}" in first.stderr
    assert second.returncode == 0
    assert answers_of(second) == [{**answers_of(first)[1], "id": "b"}]
    again = only_run(kind="replayed")
    assert again.origin.run == run.id
    assert [told["kind"] for told in again.metadata["deviations"]] == ["unused"]


def test_a_replay_that_is_asked_something_else_fails() -> None:
    talk("--record", "--name", "weather", "--", *SERVER, ask=[tool(1, "echo", city="Bern")])

    done = talk("--replay", "MCP weather", "--name", "weather", ask=[tool(1, "echo", city="Rome")])

    assert done.returncode == 1
    assert answers_of(done)[0]["error"]["code"] == MISS
    assert "now       weather.echo(city='Rome')" in done.stderr


@pytest.mark.exhaustive
def test_a_server_that_ends_first_gives_its_exit_code() -> None:
    first = talk("--record", "--name", "w", "--", *SERVER, ask=[tool(1, "die")])
    second = talk("--replay", "MCP w", "--name", "w", ask=[tool(1, "die")])

    assert (first.returncode, second.returncode) == (3, 3)
    assert first.stdout == second.stdout.replace('":', '": ').replace(',"', ', "')
    assert only_run().status is RunStatus.ERROR


def test_a_shim_that_is_told_to_end_has_written_everything_down() -> None:
    process = subprocess.Popen(
        [*SHIM, "--record", "--name", "w", "--", *SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"".join(json.dumps(m).encode() + b"\n" for m in (tool(1, "hang"), tool(2, "echo"))))
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
    run = only_run()

    assert run.status is RunStatus.CANCELLED
    assert [(call.name, call.complete) for call in run.tool_calls] == [("w.hang", False), ("w.echo", True)]
    assert run.tool_calls[1].result == answer["result"]


def test_what_was_answered_is_there_after_a_kill() -> None:
    process = subprocess.Popen(
        [*SHIM, "--record", "--name", "w", "--", *SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(tool(1, "echo")).encode() + b"\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        process.kill()
    with rk.Store.open(Path(".replaykit/store.db"), read_only=True) as store:
        (header,) = store.headers()
        run = store.load(header.id)

    assert [call.result for call in run.tool_calls] == [answer["result"]]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "which server?"),
        (["--", "x"], 2, "Record a run of its own with --record, or answer from one with --replay RUN."),
        (["--record", "--replay", "r", "--", "x"], 2, "--record or --replay, not both"),
        (["--record", "--http", "http://h/m", "--", "x"], 2, "not both"),
        (["--record", "--port", "1", "--", "x"], 2, "--port and --json need --http"),
        (["--record", "--session", "s", "--", "x"], 2, "--session is for a recording or replay that is under way"),
        (["--store", "s.db", "--", "x"], 2, "--store needs --record or --replay"),
        (["--record", "--http", "not a url"], 2, "expected a URL such as"),
        (["--record", "--", "no-such-server"], 3, "'no-such-server': No such file or directory"),
        (["--replay", "r", "--", "x"], 3, "store.db"),
        (["--session", "nowhere", "--", "x"], 3, "the plan in nowhere cannot be read"),
    ],
)
def test_what_cannot_be_done_is_said_on_standard_error(arguments: list[str], code: int, said: str) -> None:
    done = run_here("mcp", *arguments)

    assert done.returncode == code
    assert said in done.stderr
    assert done.stdout == ""


def test_a_run_without_the_server_names_those_it_knows() -> None:
    talk("--record", "--name", "w", "--", *SERVER, ask=[{"id": 1, "method": "tools/list"}])

    done = talk("--replay", "MCP w", "--name", "other")

    assert done.returncode == 2
    assert "It knows: w. Choose with --name." in done.stderr


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["npx", "-y", "@scope/server-files", "/tmp"], "server-files"),
        (["python3.11", "-m", "weather_server"], "weather_server"),
        (["uv", "run", "server.py"], "server"),
        (["/opt/bin/weather", "--port", "1"], "weather"),
        (["C:\\bin\\weather.exe"], "weather"),
        (["node"], "node"),
    ],
)
def test_a_server_that_nobody_named_is_called_by_its_command(command: list[str], name: str) -> None:
    assert server_name(command) == name


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        result = {"content": [], "nonce": os.urandom(8).hex()}
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def serving() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def shim(*arguments: str) -> Iterator[str]:
    """The first line that a shim with a port says; it is told to end afterwards."""
    with subprocess.Popen([*SHIM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], 30)[0]
        yield process.stdout.readline().strip()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0, process.stderr and process.stderr.read()


def post(url: str, message: Any) -> Any:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    connection.request("POST", parts.path, json.dumps(message), headers)
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def test_a_server_behind_a_url_is_recorded_and_answered_for_when_it_is_gone() -> None:
    with serving() as url, shim("--record", "--name", "w", "--http", url) as address:
        first = post(address, tool(1, "echo"))
    with shim("--replay", "MCP w", "--name", "w", "--http", url, "--json") as said:
        told = json.loads(said)
        second = post(told["url"], tool("own", "echo"))

    assert address != url
    assert urlsplit(address).path == "/mcp"
    assert {"replaykit": 1, "name": "w"}.items() <= told.items()
    assert flaws("result.mcp", told) == []
    assert second == {**first, "id": "own"}


@pytest.mark.exhaustive
def test_a_port_that_is_taken_is_named() -> None:
    with serving() as url:
        done = talk("--record", "--http", url, "--port", str(urlsplit(url).port))

    assert done.returncode == 3
    assert "cannot listen on port" in done.stderr
