"""Requests over HTTP keep their order and their limits as well."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import replaykit as rk

httpx = pytest.importorskip("httpx")


class SlowHandler(BaseHTTPRequestHandler):
    """Answers with its path, after as many milliseconds as the path says."""

    def do_GET(self) -> None:
        time.sleep(int(self.path.removeprefix("/")) / 1000)
        body = self.path.encode()
        with suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def base() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), SlowHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def in_tasks(base: str) -> list[str]:
    async def agent() -> list[str]:
        async with httpx.AsyncClient() as client:
            tasks = [asyncio.ensure_future(client.get(f"{base}/{ms}")) for ms in (300, 50, 170)]
            return [(await task).text for task in asyncio.as_completed(tasks)]

    return asyncio.run(agent())


def in_threads(base: str) -> list[str]:
    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(httpx.get, f"{base}/{ms}") for ms in (300, 50, 170)]
        return [future.result().text for future in as_completed(futures)]


def with_a_limit(base: str) -> str:
    async def agent() -> str:
        async with httpx.AsyncClient() as client:
            try:
                return (await asyncio.wait_for(client.get(f"{base}/400"), 0.1)).text
            except TimeoutError:
                return "late"

    return asyncio.run(agent())


@pytest.mark.parametrize("agent", [in_tasks, in_threads, with_a_limit])
def test_requests_end_as_they_ended(agent: Callable[[str], Any], base: str, tmp_path: Any) -> None:
    with rk.Store.open(tmp_path / "http.db", redact=False) as store:
        with rk.record("http", store=store) as run:
            found = agent(base)
        trace = store.load(run.id)

    for _ in range(3):
        with rk.replaying(rk.Tape.of(trace)) as replayer:
            assert agent(base) == found
        assert [d for d in replayer.all_deviations() if d.kind not in ("undecided", "unordered")] == []
