"""Whatever comes over the socket, `replaykit serve` answers it, stays small and goes on."""

from __future__ import annotations

import http.client
import os
import re
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from tests.formats.otel.protobufs import as_protobuf
from tests.formats.otel.spans import TRACE, document, story
from tests.intake.receiver.hostile import Asked, requests
from tests.intake.receiver.program import Serve, serve

import replaykit as rk

SEED = int(os.environ.get("FUZZ_SEED", "1"))
COUNT = int(os.environ.get("FUZZ_REQUESTS", "360"))
MAX_KB = 300 * 1024
"""Twice the largest body that is unpacked, and what it begins with, and some."""
SLOW_CALLBACK = "Executing <"
"""Begins what asyncio prints in Python's development mode on a busy machine, and only there."""


def test_whatever_comes_is_answered_and_the_receiver_goes_on_small_and_healthy() -> None:
    with serve("--idle", "0.1") as program, drained(program) as (out, err):
        with ExitStack() as held:
            for _ in range(8):
                held.enter_context(hanging(program.address))
            for number, (kind, asked) in enumerate(requests(SEED, COUNT)):
                got = answers(program.address, asked)
                what = f"request {number} of seed {SEED}, {kind}: {got} for {asked.data[:300]!r}"
                assert len(got) >= asked.answers, f"silence: {what}"
                assert all(200 <= status < 500 for status in got), what
                assert 429 not in got, f"it is alone: {what}"

        assert health(program.address) == (200, b'{"status": "ok"}')
        assert program.post(as_protobuf(document(*story()))) == 200
        assert peak_kb(program) < MAX_KB
        program.process.terminate()
        assert program.process.wait(timeout=8) == 0

    if sys.flags.dev_mode:
        err = [line for line in err if not line.startswith(SLOW_CALLBACK)]
    assert err == []
    assert [line for line in out if '"event":"problem"' in line] == [], "no run could be made of a trace"
    with rk.Store.open(program.first["store"]) as store:
        assert len(store.load(TRACE).tool_calls) == 3
        assert list(store.verify()) == []


@contextmanager
def drained(program: Serve) -> Iterator[tuple[list[str], list[str]]]:
    """All that the program prints, taken from it so that it never waits for a reader."""
    assert program.process.stdout is not None
    assert program.process.stderr is not None
    told: tuple[list[str], list[str]] = ([], [])
    threads = [
        threading.Thread(target=_take, args=pair)
        for pair in zip((program.process.stdout, program.process.stderr), told, strict=True)
    ]
    for thread in threads:
        thread.start()
    try:
        yield told
    finally:
        program.process.kill()
        for thread in threads:
            thread.join()


def _take(stream: IO[str], lines: list[str]) -> None:
    lines.extend(stream)


@contextmanager
def hanging(address: str) -> Iterator[None]:
    """A request whose body does not come, until the client hangs up."""
    with connected(address) as connection:
        connection.sendall(b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{")
        yield


def connected(address: str) -> socket.socket:
    host, port = address.split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def answers(address: str, asked: Asked) -> list[int]:
    """What one connection is answered, until all answers are there or the server hangs up."""
    data = b""
    with connected(address) as connection:
        try:
            connection.sendall(asked.data)
            if not asked.answers:
                connection.shutdown(socket.SHUT_WR)
            while not asked.answers or len(statuses(data)) < asked.answers:
                piece = connection.recv(65536)
                if not piece:
                    break
                data += piece
        except (ConnectionResetError, BrokenPipeError, TimeoutError):
            pass  # what came until then counts
    return statuses(data)


def statuses(data: bytes) -> list[int]:
    """Of all answers that have begun."""
    found: list[int] = []
    while b"\r\n\r\n" in data:
        head, _, rest = data.partition(b"\r\n\r\n")
        said = re.match(rb"HTTP/[01]\.[019] (\d{3}) ", head)
        assert said, head
        size = re.search(rb"(?i)\ncontent-length: (\d+)", head)
        if int(said[1]) >= 200:  # 100 says "go on"
            found.append(int(said[1]))
        data = rest[int(size[1]) if size else 0 :]
    return found


def health(address: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(address, timeout=20)
    try:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def peak_kb(program: Serve) -> int:
    """The most memory it ever had; 0 where the system does not tell."""
    told = Path(f"/proc/{program.process.pid}/status")
    found = re.search(r"VmHWM:\s+(\d+)", told.read_text()) if told.exists() else None
    return int(found[1]) if found else 0
