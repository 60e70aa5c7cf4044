"""vcrpy: HTTP requests in a YAML cassette; the unit it replays is a request, not a tool call."""

from __future__ import annotations

import json
import statistics
import time
import urllib.request
from pathlib import Path

import measurements
import streams
import workloads
from clock import Stopwatch
from measurements import Numbers

NAME = "vcrpy"
DISTRIBUTION = "vcrpy"

_HOST = "http://tools.invalid"  # never resolved: a miss cannot reach anything


def replay_requests(work: Path, count: int) -> Numbers:
    """Replay `count` GET requests with answers of 1 KB, each to its own address, through urllib.

    The cassette is written with vcrpy's own serializer. The figure includes urllib's work on a request.
    """
    import vcr

    cassette = work / "cassette.yaml"
    bodies = [json.dumps(result).encode() for result in workloads.results(256)]
    _write_cassette(cassette, [bodies[index % 256] for index in range(count)])
    with Stopwatch() as session, vcr.use_cassette(cassette, record_mode="none"), Stopwatch() as loop:
        for index in range(count):
            with urllib.request.urlopen(f"{_HOST}/item/{index}") as answer:
                body = answer.read()
            if body != bodies[index % 256]:
                raise AssertionError(f"request {index} replayed another answer than was recorded")
    return {
        "replay_us": loop.cpu_s / count * 1e6,
        "replay_session_us": session.cpu_s / count * 1e6,
        "bytes": cassette.stat().st_size,
    }


def proxied(work: Path, count: int) -> Numbers:
    """Streamed requests of urllib, recorded and replayed in this process: vcrpy has no proxy.

    The body counts when a request is matched, as it must for a model's API. The figures include urllib's work. The
    first byte is given out when the last has come.
    """
    import vcr

    cassette, rules = (
        work / "cassette.yaml",
        {"match_on": ["method", "scheme", "host", "port", "path", "query", "body"]},
    )
    with streams.upstream() as port:
        address = f"http://127.0.0.1:{port}/v1/chat/completions"
        with Stopwatch() as recording, vcr.use_cassette(cassette, record_mode="all", **rules):
            for number in range(count):
                _ask(address, number)
            slow = [_ask(address, streams.SLOW_FROM + number) for number in range(10)]
        direct = [_ask(address, streams.SLOW_FROM + number) for number in range(10)]
    with Stopwatch() as replaying, vcr.use_cassette(cassette, record_mode="none", **rules):
        for number in range(count):
            _ask(address, number)
    return {
        "record_us": recording.cpu_s / count * 1e6,
        "replay_us": replaying.cpu_s / count * 1e6,
        "replay_wall_us": replaying.wall_s / count * 1e6,
        "first_byte_ms": (statistics.median(slow) - statistics.median(direct)) * 1e3,
    }


def _ask(address: str, number: int) -> float:
    """Seconds until the first byte of one answer."""
    headers = {"Content-Type": "application/json", "Authorization": "Bearer k"}
    began = time.perf_counter()
    with urllib.request.urlopen(urllib.request.Request(address, streams.question(number), headers)) as answer:
        told = answer.read(1)
        first = time.perf_counter() - began
        told += answer.read()
    if told != b"".join(streams.stream(number)):
        raise AssertionError(f"request {number} was answered with {told[:200]!r}")
    return first


def _write_cassette(path: Path, bodies: list[bytes]) -> None:
    from vcr.persisters.filesystem import FilesystemPersister
    from vcr.request import Request
    from vcr.serializers import yamlserializer

    headers = {"Host": ["tools.invalid"], "User-Agent": ["bench"], "Connection": ["close"]}
    requests = [Request("GET", f"{_HOST}/item/{index}", None, headers) for index in range(len(bodies))]
    responses = [
        {
            "status": {"code": 200, "message": "OK"},
            "headers": {"Content-Type": ["application/json"], "Content-Length": [str(len(body))]},
            "body": {"string": body},
        }
        for body in bodies
    ]
    FilesystemPersister.save_cassette(path, {"requests": requests, "responses": responses}, yamlserializer)


def import_time(work: Path) -> Numbers:
    return measurements.start_up("import vcr", work)
