"""What the tests of whole programs share: an upstream that does as it is told, and a proxy in front of it."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from replaykit.handlers.replay.world import World
from replaykit.model.matching import MatchRules
from replaykit.model.result import Deviation
from replaykit.model.run import RunHeader, TraceRun
from replaykit.programs.merge import all_deviations, load_process_logs, merge_runs
from replaykit.programs.plan import Mode, ProgramPlan
from replaykit.programs.proxy import address_of, open_port, running_proxy
from replaykit.store.sqlite import SQLiteStore

RESET, CLOSE = object(), object()
"""What a script may do instead of sending bytes."""
JSON = {"content-type": "application/json", "authorization": "Bearer sk-very-secret"}


class Asked(NamedTuple):
    """A request, as the upstream saw it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Script = Callable[[Asked], Iterable[Any]]


class Upstream:
    """A server that answers each request with what its script yields: bytes, RESET, CLOSE, or an event to wait for."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.port = self._listening.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.asked: list[Asked] = []
        self.connections = 0
        self.script: Script = lambda asked: [whole(b"{}")]
        self._open: list[socket.socket] = []
        self._tls: ssl.SSLContext | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def secure(self, context: ssl.SSLContext) -> None:
        """Speak TLS from here on."""
        self._tls = context

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            with connection, connection.makefile("rb") as lines:
                while asked := read_request(lines):
                    self.asked.append(asked)
                    for act in self.script(asked):
                        if act is RESET:
                            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                        if act is RESET or act is CLOSE:
                            return
                        if isinstance(act, threading.Event):
                            assert act.wait(20)
                        else:
                            connection.sendall(act)
        except OSError:
            pass

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # wakes whoever waits for a connection
        self._listening.close()
        for connection in self._open:
            connection.close()


def read_request(lines: Any) -> Asked | None:
    first = lines.readline()
    if not first:
        return None
    method, path, _ = first.decode().split(" ", 2)
    headers: dict[str, str] = {}
    while (line := lines.readline().strip()) != b"":
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.lower()] = value.strip()
    if headers.get("transfer-encoding") == "chunked":
        body = b""
        while size := int(lines.readline(), 16):
            body += lines.read(size)
            lines.readline()
        lines.readline()
    else:
        body = lines.read(int(headers.get("content-length", "0")))
    return Asked(method, path, headers, body)


def whole(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    """A response with a length."""
    lines = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    told = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status}\r\n{told}\r\n".encode("latin-1") + body


STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(text: str) -> bytes:
    """One event of an OpenAI stream."""
    delta = {"choices": [{"index": 0, "delta": {"content": text}}]}
    return b"data: " + json.dumps(delta, ensure_ascii=False).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def completion(text: str) -> bytes:
    message = {"role": "assistant", "content": text}
    return json.dumps({"id": "c1", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()


def question(text: str = "hello", **more: Any) -> bytes:
    return json.dumps({"model": "small", "messages": [{"role": "user", "content": text}], **more}).encode()


def post(path: str, body: bytes, *, version: str = "1.1", connection: str = "close") -> bytes:
    """A request, as it goes over the wire."""
    head = f"POST {path} HTTP/{version}\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(body)}\r\nconnection: {connection}\r\n\r\n".encode() + body


def read_until(connection: socket.socket, wanted: bytes | None = None) -> bytes:
    """What comes over a connection, up to its end or to these bytes."""
    data = b""
    while wanted is None or wanted not in data:
        more = connection.recv(65536)
        if not more:
            assert wanted is None, f"it ended after {data!r}"
            break
        data += more
    return data


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait for what another thread or process does; the time limit is for the case that it does not."""
    for _ in range(2000):
        if condition():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not happen")


class Response(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class ProxyClient:
    """The proxy at work, in this process."""

    def __init__(self, plan: ProgramPlan) -> None:
        self.plan = plan
        self.port = int(plan.proxy.rpartition(":")[2])

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Response:
        """One request over a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            sent = {**(JSON if body is not None else {}), **{k.replace("_", "-"): v for k, v in headers.items()}}
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return Response(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def chat(self, text: str = "hello", **more: Any) -> Response:
        return self.ask("POST", "/openai/chat/completions", question(text, **more))

    @contextmanager
    def raw(self, request: bytes) -> Iterator[socket.socket]:
        """A connection on which these bytes were sent."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as connection:
            connection.sendall(request)
            yield connection

    @property
    def parts(self) -> list[TraceRun]:
        with SQLiteStore.open(self.plan.store, read_only=True) as store:
            return load_process_logs(store, "r1")

    @property
    def run(self) -> TraceRun:
        """What was written so far."""
        return merge_runs(RunHeader(id="r1"), self.parts)

    def deviations(self, run: TraceRun | World) -> list[Deviation]:
        """Where the program left the tape of a run."""
        world = run if isinstance(run, World) else World(case_id="c1", calls=run.events)
        return all_deviations(self.parts, self.run, world)


class Proxies:
    """Makes proxies that record, and proxies that replay what was recorded."""

    def __init__(self, directory: Path, upstream: Upstream) -> None:
        self._directory = directory
        self._numbers = itertools.count()
        self.upstreams = {"openai": f"{upstream.url}/v1", "anthropic": upstream.url}

    @contextmanager
    def record(self) -> Iterator[ProxyClient]:
        with self._client(Mode.RECORD, None) as client:
            yield client

    @contextmanager
    def replay(self, run: TraceRun | World, rules: MatchRules | None = None, **changed: Any) -> Iterator[ProxyClient]:
        world = run if isinstance(run, World) else World(case_id="c1", calls=run.events, rules=rules or MatchRules())
        with self._client(Mode.REPLAY, world, **changed) as client:
            yield client

    @contextmanager
    def _client(self, mode: Mode, world: World | None, **changed: Any) -> Iterator[ProxyClient]:
        file = self._directory / f"parts-{next(self._numbers)}.db"
        port = open_port()
        plan = ProgramPlan(
            mode=mode,
            run_id="r1",
            store=str(file),
            proxy=address_of(port),
            upstreams=changed.get("upstreams", self.upstreams),
            speed=changed.get("speed", 0.0),
        )
        with running_proxy(port, plan, world):
            yield ProxyClient(plan)


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    server = Upstream()
    yield server
    server.close()


@pytest.fixture
def proxies(tmp_path: Path, upstream: Upstream) -> Proxies:
    return Proxies(tmp_path, upstream)
