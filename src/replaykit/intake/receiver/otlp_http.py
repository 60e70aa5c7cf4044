"""OTLP over HTTP as values: requests and replies. No sockets."""

from __future__ import annotations

import zlib
from enum import StrEnum
from http import HTTPStatus

import msgspec
from msgspec import Struct

from replaykit.formats.core.json_text import decode_lenient
from replaykit.formats.otel import protobuf
from replaykit.formats.otel.otlp_json import read_document
from replaykit.formats.spans.span import BadPayload, SpanReading
from replaykit.model.value_count import has_more_values

MAX_BODY = 16 * 1024 * 1024
"""The largest request, in bytes."""
MAX_INFLATED = 64 * 1024 * 1024
"""The largest request after decompression, in bytes."""
MAX_VALUES = 2_000_000
"""The most JSON values, names and separators in a request: a value of two bytes can take a hundred in memory."""
RETRY_AFTER_S = 2
PROTOBUF, JSON = "application/x-protobuf", "application/json"
_GZIP = 31  # zlib's `wbits` for a gzip header and the largest window


class Signal(StrEnum):
    """The kind of telemetry in an export."""

    TRACES = "traces"
    LOGS = "logs"


class ExportRequest(Struct, frozen=True, kw_only=True):
    """One export."""

    signal: Signal
    body: bytes
    content_type: str = PROTOBUF
    encoding: str = ""


class ExportReply(Struct, frozen=True, kw_only=True):
    """The answer to an export."""

    status: int
    body: bytes
    content_type: str
    retry_after_s: int | None = None


class ExportRefused(Exception):
    """The request is refused, with a status and a reason."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


def read(request: ExportRequest) -> SpanReading:
    """Read the spans of a request; raise `ExportRefused` if that is impossible."""
    body = _inflated(request)
    try:
        if request.content_type == JSON:
            return read_document(_parsed(body))
        if request.content_type == PROTOBUF:
            if request.signal is Signal.TRACES:
                return protobuf.read_traces(body)
            return protobuf.read_logs(body)
    except BadPayload as error:
        raise ExportRefused(HTTPStatus.BAD_REQUEST, str(error)) from None
    except protobuf.MissingExtra as error:
        raise ExportRefused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, str(error)) from None
    problem = f"content type {request.content_type[:60]!r}; OTLP over HTTP is {PROTOBUF} or {JSON}"
    raise ExportRefused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, problem)


def _parsed(body: bytes) -> object:
    if has_more_values(body, MAX_VALUES):
        problem = f"a request of more than {MAX_VALUES:,} values; send smaller batches"
        raise ExportRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, problem)
    try:
        return decode_lenient(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadPayload(f"not JSON: {error}") from None


def _inflated(request: ExportRequest) -> bytes:
    if len(request.body) > MAX_BODY:
        raise too_large()
    if request.encoding in ("", "identity"):
        return request.body
    if request.encoding != "gzip":
        problem = f"content encoding {request.encoding[:40]!r} is not supported; use gzip, or none"
        raise ExportRefused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, problem)
    unzip = zlib.decompressobj(_GZIP)
    try:
        body = unzip.decompress(request.body, MAX_INFLATED)
    except zlib.error as error:
        raise ExportRefused(HTTPStatus.BAD_REQUEST, f"not gzip: {error}") from None
    if unzip.unconsumed_tail:
        raise too_large(inflated=True)
    if not unzip.eof:
        raise ExportRefused(HTTPStatus.BAD_REQUEST, "not gzip: it ends early")
    return body


def too_large(*, inflated: bool = False) -> ExportRefused:
    """Return the refusal of a request that exceeds the limits."""
    limit = f"{MAX_INFLATED:,} bytes, unpacked" if inflated else f"{MAX_BODY:,} bytes"
    return ExportRefused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a request of more than {limit}; send smaller batches")


def accepted(request: ExportRequest, rejected: int = 0, problem: str = "") -> ExportReply:
    """Return the reply to a request that was accepted, wholly or in part."""
    body = b""
    if request.content_type == JSON:
        answer: dict[str, object] = {}
        if rejected:
            name = "rejectedSpans" if request.signal is Signal.TRACES else "rejectedLogRecords"
            answer = {"partialSuccess": {name: str(rejected), "errorMessage": problem}}
        return ExportReply(status=HTTPStatus.OK, body=msgspec.json.encode(answer), content_type=JSON)
    if rejected:
        body = _field(1, _number(1, rejected) + _field(2, problem.encode()))
    return ExportReply(status=HTTPStatus.OK, body=body, content_type=PROTOBUF)


def refused(content_type: str, status: HTTPStatus, message: str) -> ExportReply:
    """Return the reply to a refused request: a google.rpc.Status, in the encoding of the request."""
    code = _CODES.get(status, 3)
    if content_type == PROTOBUF:
        body = _number(1, code) + _field(2, message.encode())
    else:
        content_type, body = JSON, msgspec.json.encode({"code": code, "message": message})
    retry_after_s = None
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        retry_after_s = RETRY_AFTER_S
    return ExportReply(status=status, body=body, content_type=content_type, retry_after_s=retry_after_s)


# Codes of google.rpc: resource exhausted, unavailable, unimplemented, permission denied; default: invalid argument.
_CODES = {
    HTTPStatus.TOO_MANY_REQUESTS: 8,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: 8,
    HTTPStatus.SERVICE_UNAVAILABLE: 14,
    HTTPStatus.NOT_FOUND: 12,
    HTTPStatus.FORBIDDEN: 7,
}


def _number(field: int, value: int) -> bytes:
    return _tag(field, 0) + _varint(value)


def _field(field: int, data: bytes) -> bytes:
    return _tag(field, 2) + _varint(len(data)) + data


def _tag(field: int, kind: int) -> bytes:
    return _varint(field << 3 | kind)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
