"""What is made of a request is bounded: a small one that holds millions of values costs little, and stops nobody."""

from __future__ import annotations

import asyncio
import gzip
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.formats.otel.spans import document, story
from tests.intake.receiver.test_server import Full, post, served
from tests.matrix import sampled

from replaykit.intake.receiver import otlp_http
from replaykit.intake.receiver.otlp_http import JSON, MAX_INFLATED, PROTOBUF, ExportRefused, ExportRequest, Signal

MEASURED = """
import gzip, resource, sys, time
from replaykit.intake.receiver import otlp_http
body = open("body.gz", "rb").read()
asked = otlp_http.ExportRequest(signal=otlp_http.Signal.TRACES, body=body, content_type=sys.argv[1], encoding="gzip")
before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
try:
    status = 200 if not otlp_http.read(asked).rejected else 400
except otlp_http.ExportRefused as error:
    status = int(error.status)
print(status, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, time.process_time() - begun)
"""


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def message(field: int, body: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(body)) + body


BOMBS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "objects": (JSON, lambda: b"[" + b"{}," * 21_000_000 + b"{}]"),
    "members": (JSON, lambda: b"[" + b'{"a":0},' * 4_000_000 + b"{}]"),
    "texts": (JSON, lambda: b"[" + b'"ab",' * 6_000_000 + b"0]"),
    "attributes": (PROTOBUF, lambda: message(1, message(2, message(2, b"\x4a\x00" * 15_000_000)))),
    "values": (PROTOBUF, lambda: in_a_value(b"\x0a\x00" * 15_000_000)),
}


def in_a_value(items: bytes) -> bytes:
    """A request with one span, whose one attribute holds these items."""
    return message(1, message(2, message(2, message(9, message(2, message(5, items))))))


@sampled("kind", BOMBS, count=1)
def test_a_small_request_that_makes_millions_of_values_is_refused_with_little_memory(kind: str) -> None:
    content_type, make = BOMBS[kind]
    body = make()
    assert len(body) <= MAX_INFLATED
    Path("body.gz").write_bytes(gzip.compress(body, 1))

    done = subprocess.run([sys.executable, "-c", MEASURED, content_type], capture_output=True, text=True, timeout=60)

    assert done.stdout, done.stderr[-500:]
    status, peak_kib, cpu_s = done.stdout.split()
    assert int(status) in (400, 413)
    assert int(peak_kib) < 220_000, "it is the unpacked text, and little more"
    assert float(cpu_s) < 5


def test_texts_that_hold_brackets_and_commas_are_no_values() -> None:
    spans = story()
    text = json.dumps({"a": [1, 2, {"b": "c, d"}]} | {str(n): [] for n in range(50)})
    spans[0]["attributes"] += [{"key": f"k{n}", "value": {"stringValue": text * 50}} for n in range(60)]
    body = json.dumps(document(*spans)).encode()
    assert body.count(b",") + body.count(b"[") > 300_000

    assert len(otlp_http.read(ExportRequest(signal=Signal.TRACES, body=body, content_type=JSON)).spans) == len(spans)


def test_the_refusal_says_what_to_do() -> None:
    body = gzip.compress(b"[" + b"{}," * 3_000_000 + b"{}]", 1)

    with pytest.raises(ExportRefused, match="send smaller batches") as caught:
        otlp_http.read(ExportRequest(signal=Signal.TRACES, body=body, content_type=JSON, encoding="gzip"))

    assert caught.value.status == 413


def test_a_request_that_takes_long_to_read_keeps_no_other_from_being_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Full(tmp_path)
    reading, go_on = threading.Event(), threading.Event()
    read = otlp_http.read

    def slowly(request: ExportRequest) -> Any:
        if request.encoding == "gzip":
            reading.set()
            assert go_on.wait(20)
        return read(request)

    monkeypatch.setattr(otlp_http, "read", slowly)
    text = json.dumps(document(*story())).encode()

    async def client(url: str) -> None:
        slow = asyncio.create_task(post(url, "/v1/traces", gzip.compress(text), Content_Encoding="gzip"))
        await asyncio.to_thread(reading.wait, 20)
        assert (await asyncio.wait_for(post(url, "/v1/traces", text), 10))[0] == 200
        assert not slow.done()
        go_on.set()
        assert (await slow)[0] == 200

    try:
        served(full.desk, client)
    finally:
        full.spool.close()
        full.store.close()
