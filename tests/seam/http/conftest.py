"""A real server on loopback that answers as it is told, and every library as one kind of client."""

from __future__ import annotations

import asyncio
import http.client
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import httpx
import httpx2
import pytest
import requests
import urllib3

import replaykit as rk

PATIENCE_S = 10.0  # until a test that would hang fails instead


@dataclass
class Answer:
    """What the server says to a request."""

    chunks: list[bytes] = field(default_factory=list)
    status: int = 200
    reason: str | None = None
    headers: list[tuple[str, str]] = field(default_factory=list)
    framing: str = "chunked"  # chunked, length, or close
    breaks: bool = False  # after the last chunk, without an end
    announced: int | None = None  # as its length, whatever it is
    gate: threading.Event | None = None  # waited for after the first chunk
    version: str = "HTTP/1.1"
    nonsense: bytes = b""  # sent in place of all that


@dataclass
class Request:
    """What the server was sent."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Server:
    """Answers each path with what is scripted for it: one answer again and again, or a list one after the other."""

    def __init__(self) -> None:
        self.url = ""
        self.answers: dict[str, Answer | list[Answer]] = {}
        self.requests: list[Request] = []
        self.came = threading.Condition()

    def says(self, path: str, *answers: dict[str, Any], **one: Any) -> str:
        """Script a path; gives the URL to ask for."""
        self.answers[path] = [Answer(**answer) for answer in answers] if answers else Answer(**one)
        return self.url + path

    def hears(self, count: int) -> None:
        """Wait for so many requests: one that is given up soon may be heard late."""
        with self.came:
            self.came.wait_for(lambda: len(self.requests) >= count, PATIENCE_S)

    def answer(self, request: Request) -> Answer:
        with self.came:
            self.requests.append(request)
            self.came.notify_all()
            scripted = self.answers[request.path.partition("?")[0]]
            return scripted.pop(0) if isinstance(scripted, list) else scripted


def _handler(server: Server) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def log_message(self, *_: Any) -> None:
            pass

        def _body(self) -> bytes:
            if "chunked" not in self.headers.get("transfer-encoding", ""):
                return self.rfile.read(int(self.headers.get("content-length", 0)))
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body

        def _any(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = server.answer(Request(self.command, self.path, headers, self._body()))
            if answer.nonsense:
                self.close_connection = True
                self.wfile.write(answer.nonsense)
                return
            self.protocol_version = answer.version
            self.send_response_only(answer.status, answer.reason)
            for name, value in answer.headers:
                self.send_header(name, value)
            if answer.framing == "length":
                size = sum(map(len, answer.chunks)) if answer.announced is None else answer.announced
                self.send_header("Content-Length", str(size))
            elif answer.framing == "chunked":
                self.send_header("Transfer-Encoding", "chunked")
            else:
                self.close_connection = True
            self.end_headers()
            self.wfile.flush()
            if self.command != "HEAD":
                self._send(answer)

        def _send(self, answer: Answer) -> None:
            for number, chunk in enumerate(answer.chunks):
                if number == 1 and answer.gate is not None and not answer.gate.wait(PATIENCE_S):
                    answer.breaks = True
                    break
                framed = b"%x\r\n%b\r\n" % (len(chunk), chunk) if answer.framing == "chunked" else chunk
                self.wfile.write(framed)
                self.wfile.flush()
            if answer.breaks:
                self.close_connection = True
            elif answer.framing == "chunked":
                self.wfile.write(b"0\r\n\r\n")

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = _any

    return Handler


@pytest.fixture
def server() -> Iterator[Server]:
    scripted = Server()
    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _handler(scripted))
    listening.handle_error = lambda *_: None  # type: ignore[method-assign] (clients leave when they like)
    scripted.url = f"http://127.0.0.1:{listening.server_port}"
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield scripted
    listening.shutdown()
    listening.server_close()
    thread.join()


@dataclass(frozen=True)
class Seen:
    """Everything a client can see of a response."""

    status: int = 0
    reason: str | None = None
    version: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    chunks: tuple[bytes, ...] = ()
    error: tuple[type, str] | None = None

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)


Fetch = Callable[..., Seen]


def _httpx(module: Any) -> Fetch:  # unverified, since reading the machine's certificates takes longer than a test
    def fetch(url: str, method: str = "GET", *, stop_after: int | None = None, **options: Any) -> Seen:
        head, chunks, error = (0, None, "", ()), [], None
        try:
            with (
                module.Client(timeout=PATIENCE_S, verify=False) as client,
                client.stream(method, url, **options) as response,
            ):
                told = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers.raw]
                head = (response.status_code, response.reason_phrase, response.http_version, tuple(told))
                for chunk in response.iter_raw():
                    chunks.append(chunk)
                    if len(chunks) == stop_after:
                        break
        except module.HTTPError as failure:
            error = (type(failure), str(failure))
        return Seen(*head, tuple(chunks), error)

    return fetch


def _async_httpx(module: Any) -> Fetch:
    async def fetch(url: str, method: str = "GET", *, stop_after: int | None = None, **options: Any) -> Seen:
        head, chunks, error = (0, None, "", ()), [], None
        try:
            async with module.AsyncClient(timeout=PATIENCE_S, verify=False) as client:
                async with client.stream(method, url, **options) as response:
                    told = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers.raw]
                    head = (response.status_code, response.reason_phrase, response.http_version, tuple(told))
                    async for chunk in response.aiter_raw():
                        chunks.append(chunk)
                        if len(chunks) == stop_after:
                            break
        except module.HTTPError as failure:
            error = (type(failure), str(failure))
        return Seen(*head, tuple(chunks), error)

    return lambda url, method="GET", **options: asyncio.run(fetch(url, method, **options))


def _requests(url: str, method: str = "GET", *, stop_after: int | None = None, **options: Any) -> Seen:
    if "content" in options:
        options["data"] = options.pop("content")
    head, chunks, error = (0, None, "", ()), [], None
    try:
        with requests.Session() as session:
            with session.request(
                method, url, stream=True, allow_redirects=False, timeout=PATIENCE_S, **options
            ) as response:
                version = f"HTTP/{response.raw.version / 10}"
                head = (response.status_code, response.reason, version, tuple(response.raw.headers.items()))
                for chunk in response.raw.stream(None, decode_content=False):
                    chunks.append(chunk)
                    if len(chunks) == stop_after:
                        break
    except (requests.RequestException, urllib3.exceptions.HTTPError) as failure:
        error = (type(failure), str(failure))
    return Seen(*head, tuple(chunks), error)


def _urllib3(url: str, method: str = "GET", *, stop_after: int | None = None, **options: Any) -> Seen:
    if "content" in options:
        options["body"] = options.pop("content")
    head, chunks, error = (0, None, "", ()), [], None
    try:
        with urllib3.PoolManager(timeout=PATIENCE_S, retries=False) as pool:
            response = pool.request(method, url, preload_content=False, decode_content=False, **options)
            head = (response.status, response.reason, f"HTTP/{response.version / 10}", tuple(response.headers.items()))
            for chunk in response.stream(None):
                chunks.append(chunk)
                if len(chunks) == stop_after:
                    response.close()
                    break
    except urllib3.exceptions.HTTPError as failure:
        error = (type(failure), str(failure))
    return Seen(*head, tuple(chunks), error)


def _aiohttp(url: str, method: str = "GET", *, stop_after: int | None = None, **options: Any) -> Seen:
    if "content" in options:
        options["data"] = options.pop("content")

    async def fetch() -> Seen:
        head, chunks, error = (0, None, "", ()), [], None
        timeout = aiohttp.ClientTimeout(total=PATIENCE_S)
        try:
            async with aiohttp.ClientSession(timeout=timeout, auto_decompress=False) as session:
                async with session.request(method, url, allow_redirects=False, **options) as response:
                    told = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.raw_headers]
                    version = f"HTTP/{response.version.major}.{response.version.minor}"
                    head = (response.status, response.reason, version, tuple(told))
                    while not response.content.at_eof():  # iter_chunks() never ends on a second empty response
                        chunk, _ = await response.content.readchunk()
                        chunks += [chunk] if chunk else []
                        if len(chunks) == stop_after:
                            break
        except aiohttp.ClientError as failure:
            error = (type(failure), str(failure))
        return Seen(*head, tuple(chunks), error)

    return asyncio.run(fetch())


def _http_client(url: str, method: str = "GET", *, stop_after: int | None = None, **options: Any) -> Seen:
    place = urlsplit(url)
    body, headers = options.get("content"), dict(options.get("headers") or {})
    if "json" in options:
        body, headers = json.dumps(options["json"]), {**headers, "content-type": "application/json"}
    head, chunks, error = (0, None, "", ()), [], None
    connection = http.client.HTTPConnection(place.netloc, timeout=PATIENCE_S)
    try:
        connection.request(method, url.removeprefix(f"http://{place.netloc}") or "/", body, headers)
        with connection.getresponse() as response:
            version = f"HTTP/{response.version / 10}"
            head = (response.status, response.reason, version, tuple(response.getheaders()))
            while len(chunks) != stop_after and (chunk := response.read1()):
                chunks.append(chunk)
            if len(chunks) != stop_after and response.length:
                raise http.client.IncompleteRead(b"", response.length)  # which `read1` does not
    except (OSError, http.client.HTTPException) as failure:
        error = (type(failure), str(failure))
    finally:
        connection.close()
    return Seen(*head, tuple(chunks), error)


CLIENTS: dict[str, Fetch] = {
    "httpx": _httpx(httpx),
    "httpx-async": _async_httpx(httpx),
    "httpx2": _httpx(httpx2),
    "httpx2-async": _async_httpx(httpx2),
    "requests": _requests,
    "urllib3": _urllib3,
    "aiohttp": _aiohttp,
    "http.client": _http_client,
}


class Client:
    """One of the libraries: `fetch(url, method)` gives what it sees of a response, chunk by chunk."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_async = "async" in name or name == "aiohttp"

    def __call__(self, *args: Any, **options: Any) -> Seen:
        return CLIENTS[self.name](*args, **options)


@pytest.fixture(params=CLIENTS)
def fetch(request: pytest.FixtureRequest) -> Client:
    return Client(request.param)


class Tapes:
    """Records and replays what a function does; nothing of a replay may reach the server."""

    def __init__(self, store: rk.Store, server: Server) -> None:
        self._store = store
        self._server = server
        self.run: Any = None

    def record(self, does: Callable[[], Any]) -> Any:
        """What it gives when it is recorded."""
        with rk.record("http", store=self._store) as run:
            given = does()
        self.run = self._store.load(run.id)
        return given

    def replay(self, does: Callable[[], Any], **options: Any) -> Any:
        """What it gives when it is served."""
        before = len(self._server.requests)
        with rk.replaying(rk.Tape.of(self.run), **options) as self.replayer:
            given = does()
        assert len(self._server.requests) == before
        return given

    def both(self, does: Callable[[], Any]) -> tuple[Any, Any]:
        """What it gives when it is recorded, and when it is served; everything recorded has to be asked for."""
        given = self.record(does), self.replay(does)
        left = [one.text for one in self.replayer.all_deviations() if one.kind not in ("undecided", "unordered")]
        assert left == []
        return given

    @property
    def calls(self) -> list[Any]:
        return list(self.run.calls)


@pytest.fixture
def tapes(tmp_path: Path, server: Server) -> Iterator[Tapes]:
    """Of a store that keeps what it is given: what is redacted is no matter of the seam."""
    with rk.Store.open(tmp_path / "tapes.db", redact=False) as store:
        yield Tapes(store, server)
