"""Requests as nobody means them to be, byte by byte. A seed makes each, and makes it again."""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from tests.formats.mixed_files import cut, damaged, flipped
from tests.formats.otel.protobufs import as_protobuf
from tests.formats.otel.spans import document, logs, record, story

from replaykit.intake.receiver.otlp_http import JSON, MAX_BODY, MAX_INFLATED, PROTOBUF

_TYPES = (
    *(b"", b"text/plain", b"application/grpc", b"application/json; charset=no-such", b"application/json;;;=", b"/"),
    *(b"multipart/form-data; boundary=", b"application/x-protobuf, application/json", b"\xff\xfe", b"x" * 4000),
)
_ENCODINGS = (b"gzip", b"GZIP ", b"deflate", b"br", b"zstd", b"gzip, gzip", b"\xff", b"identity", b"")
_METHODS = (b"GET", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"TRACE", b"BREW", b"post", b"PRI", b"M-SEARCH")
_PATHS = (
    *(b"/", b"*", b"/v1/traces/", b"//v1/traces", b"/v1/%74races", b"/v1/traces%00", b"/v1/traces?a=b&%ff", b"/v1/%"),
    *(b"http://127.0.0.1:99999/v1/traces", b"http://[::1/v1/traces", b"/v1/../healthz", b"/\xff\xfe", b"/v1/metrics"),
)
_NAMES = (b"X\x00", b"Content-Type", b"", b" ", b"X Y", b"\xff", b"Expect", b"Upgrade", b"Host", b"Content-Encoding")
_VALUES = (b"100-continue", b"h2c", b"\xff", b"\x00", b"x\ry", b"no", b"v" * 8000)
_LENGTHS = (
    *(str(MAX_BODY + 1).encode(), b"99999999999", b"9" * 40, b"-1", b"+5", b"0x10", b"", b"1e3", b"5, 6"),
    *(b"5\r\nContent-Length: 6", b"5\r\nTransfer-Encoding: chunked"),
)
_CHUNKS = (b"zz\r\n", b"-1\r\n", b"f" * 20 + b"\r\n", b"5;a=b\r\n{}\r\n0\r\n\r\n", b"\r\n\r\n", b"2\r\n{}xx0\r\n\r\n")
_NOISE = (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\x00" * 300, b"HTTP/1.1 200 OK", b"GET /", b"POST")


class Asked(NamedTuple):
    """What is sent over one connection, and how many answers it must have before the client hangs up."""

    data: bytes
    answers: int = 1


def requests(seed: int, count: int) -> list[tuple[str, Asked]]:
    """As many as are asked for, some of every kind, each with the name of its kind."""
    random = Random(seed)
    kinds = [KINDS[number % len(KINDS)] for number in range(count)]
    random.shuffle(kinds)
    return [(kind.__name__, kind(random)) for kind in kinds]


def post(body: bytes, *headers: bytes, kind: str = JSON, path: bytes = b"/v1/traces") -> bytes:
    """A request as it should be."""
    named = (b"Content-Type: " + kind.encode(), b"Content-Length: %d" % len(body))
    return _head(b"POST", path, *named, *headers) + body


def _head(method: bytes, path: bytes, *headers: bytes) -> bytes:
    return b"\r\n".join((method + b" " + path + b" HTTP/1.1", b"Host: localhost", *headers, b"", b""))


def _spans(random: Random) -> dict[str, Any]:
    trace = random.randbytes(16).hex()
    return document(*(span | {"traceId": trace} for span in story()))


def _text(random: Random) -> bytes:
    told = logs(record(2, "gen_ai.choice", {"message": {}}))
    return json.dumps(told if random.random() < 0.2 else _spans(random)).encode()


def _broken(random: Random, body: bytes) -> bytes:
    return random.choice((cut, flipped))(random, body, b"")


def damaged_json(random: Random) -> Asked:
    body = random.choice((damaged, damaged, flipped, cut))(random, _text(random), b"")
    return Asked(post(body, path=random.choice((b"/v1/traces", b"/v1/traces", b"/v1/logs"))))


def deep_json(random: Random) -> Asked:
    depth = random.choice((10, 90, 150, 400, 900, 1100, 20_000))
    value = b'{"arrayValue":{"values":[' * depth + b'{"intValue":"1"}' + b"]}}" * depth
    held = json.dumps(_spans(random)).encode().replace(b'{"stringValue": "support"}', value)
    return Asked(post(random.choice((held, b"[" * depth + b"]" * depth, b'{"resourceSpans":' * depth))))


def damaged_protobuf(random: Random) -> Asked:
    body = _broken(random, as_protobuf(_spans(random)))
    return Asked(post(body, kind=PROTOBUF, path=random.choice((b"/v1/traces", b"/v1/logs"))))


def boastful_protobuf(random: Random) -> Asked:
    """It says that more comes than there is, or goes deeper than anybody reads."""
    sizes = (b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\xff" * 9 + b"\x01", b"\xff" * 11, b"\x80" * 30)
    nested = b""
    for _ in range(random.choice((5, 50, 200))):
        nested = b"\x0a" + bytes([len(nested) & 0x7F]) + nested
    return Asked(post(random.choice((b"\x0a" + random.choice(sizes), nested, random.randbytes(200))), kind=PROTOBUF))


def zipped(random: Random) -> Asked:
    body = gzip.compress(damaged(random, _text(random), b""), 1)
    body = body if random.random() < 0.4 else _broken(random, body)
    return Asked(post(body, b"Content-Encoding: " + random.choice(_ENCODINGS)))


@functools.cache
def _bomb() -> bytes:
    return gzip.compress(bytes(MAX_INFLATED + 1), 1)


def bomb_or_empty(random: Random) -> Asked:
    body = _bomb() if random.random() < 0.3 else random.choice((b"", gzip.compress(b""), gzip.compress(b"{}") * 2))
    return Asked(post(body, b"Content-Encoding: gzip"))


def wrong_type(random: Random) -> Asked:
    head = _head(b"POST", b"/v1/traces", b"Content-Type: " + random.choice(_TYPES), b"Content-Length: 2")
    return Asked(head + b"{}")


def wrong_line(random: Random) -> Asked:
    method, path = random.choice((b"POST", *_METHODS)), random.choice((b"/v1/traces", *_PATHS))
    return Asked(_head(method, path, b"Content-Length: 2", b"Connection: close") + b"{}")


def huge_or_wrong_length(random: Random) -> Asked:
    return Asked(_head(b"POST", b"/v1/traces", b"Content-Length: " + random.choice(_LENGTHS)) + b"{}")


def short_length(random: Random) -> Asked:
    """More comes than was said: what is left is no request."""
    body = _text(random)
    said = b"Content-Length: %d" % random.randrange(len(body))
    return Asked(_head(b"POST", b"/v1/traces", b"Content-Type: application/json", said) + body + b"\r\n\r\n")


def chunked(random: Random) -> Asked:
    body = _text(random)
    pieces = (body[at : at + 700] for at in range(0, len(body), 700))
    whole = b"".join(b"%x;x=y\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\nTrailer: x\r\n\r\n"
    sent = whole if random.random() < 0.5 else random.choice(_CHUNKS)
    return Asked(_head(b"POST", b"/v1/traces", b"Content-Type: application/json", b"Transfer-Encoding: chunked") + sent)


def many_headers(random: Random) -> Asked:
    count, size = random.choice(((10, 8000), (100, 10), (1000, 5), (3000, 30), (1, 60_000), (30, 0)))
    return Asked(post(b"{}", *(b"X-%d: " % number + b"v" * size for number in range(count))))


def strange_header(random: Random) -> Asked:
    return Asked(post(b"{}", random.choice(_NAMES) + b": " + random.choice(_VALUES)))


def pipelined(random: Random) -> Asked:
    """All at once, each of them whole."""
    count = random.randint(2, 6)
    return Asked(b"".join(post(damaged(random, _text(random), b"")) for _ in range(count)), count)


def pipelined_noise(random: Random) -> Asked:
    """Requests, and then none: one answer is for all of them, and the connection ends."""
    return Asked(pipelined(random).data + random.randbytes(100) + b"\r\n\r\n")


def noise(random: Random) -> Asked:
    return Asked(random.choice((*_NOISE, random.randbytes(500))) + b"\r\n\r\n")


def half(random: Random) -> Asked:
    return Asked(cut(random, post(as_protobuf(_spans(random)), kind=PROTOBUF), b""), 0)


def scrambled(random: Random) -> Asked:
    """Any byte is another one: it may be whole or not."""
    return Asked(flipped(random, post(b"{}", b"Accept: */*", b"User-Agent: tests"), b""), 0)


KINDS: tuple[Callable[[Random], Asked], ...] = (
    *(damaged_json, deep_json, damaged_protobuf, boastful_protobuf, zipped, bomb_or_empty, wrong_type, wrong_line),
    *(huge_or_wrong_length, short_length, chunked, many_headers, strange_header, pipelined, pipelined_noise, noise),
    *(half, scrambled),
)
