"""A viewer's server for tests: in a thread, on loopback, with a client that speaks plain HTTP."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from replaykit.store.sqlite import SQLiteStore
from replaykit.viewer.documents import Documents
from replaykit.viewer.evidence import EvidenceReader
from replaykit.viewer.forks import PageForks
from replaykit.viewer.server import ViewerServer
from replaykit.viewer.suites import SuiteReader


class Answer(Struct, frozen=True):
    """What the server answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client(Struct, frozen=True):
    """A client of one server."""

    url: str

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, timeout=60)

    def ask(self, path: str, *, method: str = "GET", body: bytes | None = None, **headers: str) -> Answer:
        """Send a request for a path below the host, with these headers."""
        connection = self.connection()
        try:
            connection.request(method, path, body=body, headers=headers)
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def get(self, path: str) -> Answer:
        """Ask for a path below the address of the page."""
        return self.ask(urlsplit(self.url).path + path)

    def rows(self, run: str) -> list[Any]:
        """Return the lines of a run's rows."""
        return [json.loads(line) for line in self.get(f"api/run/{run}/rows").body.splitlines()]


@contextmanager
def served(documents: Documents, *, forks: PageForks | None = None) -> Iterator[Client]:
    """Serve these documents during the block."""
    ready = threading.Event()
    urls: list[str] = []
    servers: list[ViewerServer] = []
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        server = ViewerServer(documents, forks)
        servers.append(server)
        loops.append(asyncio.get_running_loop())

        def on_ready(url: str) -> None:
            urls.append(url)
            ready.set()

        await server.serve(0, on_ready)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(20)
        yield Client(urls[0])
    finally:
        loops[0].call_soon_threadsafe(servers[0].end)
        thread.join(20)
        assert not thread.is_alive()


def documents_of(store: SQLiteStore | None, *, evidence: Path = Path("runs"), cases: Path = Path("cases")) -> Documents:
    """Return the documents of a store, and of the evidence and the cases in the working directory."""
    return Documents(store, EvidenceReader(evidence, [cases]), project="shop")


def suites_of(documents: Documents) -> SuiteReader:
    """Return the results of `ci` in the working directory."""
    return SuiteReader(Path("ci"), Path("history"), documents.evidence)
