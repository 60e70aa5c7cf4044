"""Event loops that watch real sockets: what answers there does so in real time, and idle connections cost none."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator

import pytest

import replaykit as rk


@rk.tool
async def fetch(number: int) -> int:
    await asyncio.sleep(0.01)
    return number


class Echo:
    """Sends back what it is sent, from a thread that is no part of any run."""

    def __init__(self) -> None:
        self.near, self._far = socket.socketpair()
        self.delay_s = 0.0
        self._thread = threading.Thread(target=self._answer)
        self._thread.start()

    def _answer(self) -> None:
        while data := self._far.recv(100):
            threading.Event().wait(self.delay_s)
            self._far.sendall(data)

    def close(self) -> None:
        self._far.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._far.close()
        self.near.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def tape() -> rk.Tape:
    with rk.record("sockets", store="store.db") as run:
        asyncio.run(fetch(1))
    with rk.Store.open("store.db") as store:
        return rk.Tape.of(store.load(run.id))


async def exchange(echo: Echo, *, sleeps: int) -> list[bytes | int]:
    reader, writer = await asyncio.open_connection(sock=echo.near)
    seen: list[bytes | int] = []
    for text in (b"one", b"two"):
        writer.write(text)
        seen.append(await asyncio.wait_for(reader.read(100), timeout=30))
        for _ in range(sleeps):
            await asyncio.sleep(1)
    seen.append(await fetch(1))
    writer.close()
    await writer.wait_closed()
    return seen


def test_sleeps_beside_an_idle_connection_cost_next_to_nothing(echo: Echo, tape: rk.Tape) -> None:
    began = time.perf_counter()
    with rk.replaying(tape):
        seen = asyncio.run(exchange(echo, sleeps=40))
    took_s = time.perf_counter() - began

    assert seen == [b"one", b"two", 1]
    assert took_s < 5  # 80 s of sleeps


def test_a_timeout_waits_for_an_answer_that_is_on_its_way(echo: Echo, tape: rk.Tape) -> None:
    echo.delay_s = 0.5
    with rk.replaying(tape):
        seen = asyncio.run(exchange(echo, sleeps=2))

    assert seen == [b"one", b"two", 1]
