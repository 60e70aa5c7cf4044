"""A server on loopback that answers as a service does which keeps traces, and can be told to misbehave."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.parse import parse_qs, urlsplit


class Seen(NamedTuple):
    """A request as it came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any

    @property
    def route(self) -> str:
        return urlsplit(self.path).path

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.path).query)

    def asks(self, name: str) -> str | None:
        """The parameter of that name."""
        return self.query.get(name, [None])[0]  # type: ignore[list-item]


class Said(NamedTuple):
    """An answer; bytes are sent as they are, an iterator of them piece by piece, anything else as JSON."""

    status: int
    body: Any
    headers: dict[str, str] = {}


class Answering(Protocol):
    """What a server holds."""

    url: str

    def answer(self, seen: Seen) -> Said: ...


class Fake:
    """What every fake has: what it was asked, and an answer in the place of the usual ones."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.said: Callable[[Seen], Said | None] = lambda _seen: None
        """An answer in place of the usual one."""
        self.url = ""

    def answer(self, seen: Seen) -> Said:
        self.seen.append(seen)
        return self.said(seen) or self.usual(seen)

    def usual(self, seen: Seen) -> Said:
        raise NotImplementedError

    @property
    def routes(self) -> list[str]:
        return [seen.route for seen in self.seen]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    fake: Answering

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        self._answer(json.loads(self.rfile.read(int(self.headers["content-length"]))))

    def _answer(self, body: Any) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        said = self.fake.answer(Seen(self.command, self.path, headers, body))
        if isinstance(said.body, Iterator):
            self._drip(said)
            return
        data = said.body if isinstance(said.body, bytes) else json.dumps(said.body).encode()
        self.send_response(said.status)
        usual = {"content-type": "application/json", "content-length": str(len(data))}
        for name, value in {**usual, **said.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _drip(self, said: Said) -> None:
        self.close_connection = True
        self.send_response(said.status)
        for name, value in said.headers.items():
            self.send_header(name, value)
        self.end_headers()
        with suppress(OSError):  # whoever asked has gone
            for piece in said.body:
                self.wfile.write(piece)
                self.wfile.flush()

    def log_message(self, *_: Any) -> None:
        pass


F = TypeVar("F", bound=Answering)


@contextmanager
def serving(fake: F) -> Iterator[F]:
    """The fake behind an address, for as long as the block runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"fake": fake}))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    fake.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
