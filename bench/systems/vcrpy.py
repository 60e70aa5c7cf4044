"""vcrpy: HTTP requests in a YAML cassette; the unit it replays is a request, not a tool call."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import measurements
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
