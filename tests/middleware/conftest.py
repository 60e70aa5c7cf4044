"""A small ASGI server on loopback, so that the middleware is met as it is in production: over a socket."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest


class Server:
    """Serves one ASGI application; as much of HTTP as tests speak."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.url = ""
        self._ready = threading.Event()
        self._open: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)
        self._thread.start()
        assert self._ready.wait(10)

    async def _main(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        await self._over.wait()
        server.close()
        for writer in self._open:
            writer.transport.abort()
        for _ in range(3):  # a transport is closed by the loop, a turn later
            await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ")
        path, _, query = target.partition("?")
        pairs = [line.split(": ", 1) for line in head[1:] if line]
        headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in pairs]
        size = int(dict(headers).get(b"content-length", b"0"))
        body = await reader.readexactly(size) if size else b""

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                lines = [f"HTTP/1.1 {message['status']} X".encode(), b"connection: close"]
                lines += [b": ".join(pair) for pair in message["headers"]]
                writer.write(b"\r\n".join([*lines, b"", b""]))
            else:
                writer.write(message.get("body", b""))

        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": headers,
            "client": writer.get_extra_info("peername"),
        }
        try:
            await self.app(scope, receive, send)
        except Exception:
            writer.write(b"HTTP/1.1 500 X\r\nconnection: close\r\n\r\nit broke")
        await writer.drain()
        writer.close()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(10)


@contextmanager
def serving(app: Any) -> Iterator[str]:
    server = Server(app)
    try:
        yield server.url
    finally:
        server.close()


@pytest.fixture
def served() -> Iterator[Callable[[Any], str]]:
    """Serve an ASGI application; gives its address."""
    servers: list[Server] = []

    def serve(app: Any) -> str:
        servers.append(Server(app))
        return servers[-1].url

    yield serve
    for server in servers:
        server.close()
