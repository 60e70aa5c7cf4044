"""Streamed requests through a proxy: the upstream, the client and the measurement, the same for every system.

`streams.py upstream` serves, and prints its port; `streams.py load PORT PATH COUNT CONNECTIONS FIRST` asks, checks the
answers, and prints what it took. Both are processes of their own, so that only the proxy's CPU is counted.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

Numbers = dict[str, float]

EVENTS = 8
WORDS = "some words of an answer that a model gives, "
GAP_S = 0.05
"""Between the first event of a slow stream and the others."""
SLOW_FROM = 10_000_000
"""Answers to questions from this number on are slow."""
_WARM_UP = 50
_SLOW = 20


@dataclass(frozen=True)
class Proxy:
    """A proxy at work."""

    port: int
    path: str
    """Where the upstream's chat completions are, behind it."""
    cpu_s: Callable[[], float]
    """What it has used so far."""


def event(number: int, part: int) -> bytes:
    delta = {"content": f"answer {number}.{part} {WORDS}"}
    choices = [{"index": 0, "delta": delta, "finish_reason": None}]
    told = {"id": f"c{number}", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices}
    return b"data: " + json.dumps(told).encode() + b"\n\n"


def stream(number: int) -> list[bytes]:
    """The chunks of one answer."""
    return [*(event(number, part) for part in range(EVENTS)), b"data: [DONE]\n\n"]


def question(number: int) -> bytes:
    messages = [{"role": "system", "content": WORDS * 20}, {"role": "user", "content": f"question {number}"}]
    return json.dumps({"model": "m", "stream": True, "messages": messages}).encode()


Opened = Callable[[str], AbstractContextManager[Proxy]]


def measured(record: Opened, replay: Opened, count: int) -> Numbers:
    """Record `count` streamed requests over 16 connections, then replay them with the upstream gone."""
    with upstream() as port:
        address = f"http://127.0.0.1:{port}"
        with record(address) as proxy:
            load(proxy, _WARM_UP, 4, 0)
            recorded_cpu, recorded_s = _costs(proxy, count)
            slow = load(proxy, _SLOW, 1, SLOW_FROM)
        direct = load(Proxy(port, "/v1/chat/completions", lambda: 0.0), _SLOW, 1, SLOW_FROM)
    with replay(address) as proxy:
        load(proxy, _WARM_UP, 4, 0)
        replayed_cpu, replayed_s = _costs(proxy, count)
    return {
        "record_us": recorded_cpu / count * 1e6,
        "record_wall_us": recorded_s / count * 1e6,
        "replay_us": replayed_cpu / count * 1e6,
        "replay_wall_us": replayed_s / count * 1e6,
        "first_byte_ms": max(0.0, slow["first_ms"] - direct["first_ms"]),
    }


def _costs(proxy: Proxy, count: int) -> tuple[float, float]:
    before = proxy.cpu_s()
    wall_s = load(proxy, count, 16, _WARM_UP)["wall_s"]
    return proxy.cpu_s() - before, wall_s


@contextmanager
def upstream() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, __file__, "upstream"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


def load(proxy: Proxy, count: int, connections: int, first: int) -> Numbers:
    command = [sys.executable, __file__, "load", *map(str, (proxy.port, proxy.path, count, connections, first))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise AssertionError(done.stderr[-800:])
    numbers: Numbers = json.loads(done.stdout)
    return numbers


def cpu_of(pid: int) -> float:
    """CPU seconds of another process so far, its threads included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _serve() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        try:
            while True:
                asked = await reader.readuntil(b"\r\n\r\n")
                size = re.search(rb"(?i)content-length: *(\d+)", asked)
                body = await reader.readexactly(int(size[1]) if size else 0)
                found = re.search(rb"question (\d+)", body)
                number = int(found[1]) if found else 0
                first, *rest = [b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in stream(number)]
                if number < SLOW_FROM:
                    writer.write(head + first + b"".join(rest) + b"0\r\n\r\n")
                else:
                    writer.write(head + first)
                    await asyncio.sleep(GAP_S)
                    writer.write(b"".join(rest) + b"0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def _load(port: int, path: str, count: int, connections: int, first: int) -> None:
    firsts: list[float] = []

    async def work(offset: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in range(first + offset, first + count, connections):
            body = question(number)
            head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\n"
            began = time.perf_counter()
            writer.write(f"{head}authorization: Bearer k\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
            told, first_at = await _body(reader)
            firsts.append(first_at - began)
            if told != b"".join(stream(number)):
                raise AssertionError(f"request {number} was answered with {told[:200]!r}")
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(work(offset) for offset in range(connections)))
    wall = time.perf_counter() - began
    print(json.dumps({"wall_s": wall, "first_ms": statistics.median(firsts) * 1e3}))


async def _body(reader: asyncio.StreamReader) -> tuple[bytes, float]:
    """The body of a response, and when its first byte came."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = re.search(rb"content-length: *(\d+)", head)
    if length:
        told, at = await reader.readexactly(1), time.perf_counter()
        return told + await reader.readexactly(int(length[1]) - 1), at
    told, at = b"", 0.0
    while size := int(await reader.readline(), 16):
        told += await reader.readexactly(size)
        at = at or time.perf_counter()
        await reader.readline()
    await reader.readline()
    return told, at


if __name__ == "__main__":
    if sys.argv[1] == "upstream":
        asyncio.run(_serve())
    else:
        port, path, *numbers = sys.argv[2:]
        asyncio.run(_load(int(port), path, *map(int, numbers)))
