"""AWS event streams: binary frames with a prelude, headers, a payload and two checksums.

    4 bytes  length of all            4 bytes  length of the headers      4 bytes  CRC-32 of these eight
    headers: 1 byte length, name, 1 byte type, value (type 7: 2 bytes length, text)
    payload                           4 bytes  CRC-32 of everything before

The frames of a model's stream carry its events as base64 in `{"bytes": …}`; an exception is a frame of its own.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib

from replaykit.wire.frames import Frame
from replaykit.wire.json_fields import dump, load_object, text_at

_PRELUDE = struct.Struct(">III")
_CRC = struct.Struct(">I")
_OVERHEAD = _PRELUDE.size + _CRC.size
_MAX = 24 * 1024 * 1024  # the format's own limit
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
_TEXT = 7
_SIZED = (6, _TEXT)


class EventStreamSplitter:
    """Splits an AWS event stream; a frame with a wrong checksum ends the splitting, since nothing can follow it."""

    def __init__(self) -> None:
        self.problem: str | None = None
        self._waiting = bytearray()

    def feed(self, chunk: bytes) -> list[Frame]:
        if self.problem:
            return []
        self._waiting += chunk
        frames: list[Frame] = []
        while len(self._waiting) >= _PRELUDE.size and not self.problem:
            size, headers, crc = _PRELUDE.unpack_from(self._waiting)
            if not _OVERHEAD <= size <= _MAX or headers > size - _OVERHEAD or crc != zlib.crc32(self._waiting[:8]):
                self.problem = "a damaged frame in an AWS event stream"
            elif len(self._waiting) < size:
                break
            else:
                frames += self._frame(bytes(self._waiting[:size]), headers)
                del self._waiting[:size]
        return frames

    def close(self) -> list[Frame]:
        rest = bytes(self._waiting)
        self._waiting.clear()
        if rest and not self.problem:
            return [Frame(rest, whole=False)]
        return []

    def _frame(self, message: bytes, headers_size: int) -> list[Frame]:
        (crc,) = _CRC.unpack_from(message, len(message) - _CRC.size)
        body = message[_PRELUDE.size : -_CRC.size]
        headers = _headers(body[:headers_size])
        if crc != zlib.crc32(message[: -_CRC.size]) or headers is None:
            self.problem = "a damaged frame in an AWS event stream"
            return []
        return _unwrap(headers, body[headers_size:])


def encode_frames(frames: list[Frame]) -> list[bytes]:
    """Encode events as the frames that `EventStreamSplitter` reads."""
    headers = b"".join(
        _header(name, value)
        for name, value in ((":event-type", "chunk"), (":content-type", "application/json"), (":message-type", "event"))
    )
    return [_encode(headers, dump({"bytes": base64.b64encode(frame.data).decode()})) for frame in frames]


def _unwrap(headers: dict[str, str], payload: bytes) -> list[Frame]:
    """Return the event inside a frame; an exception becomes the error event of its API's streams."""
    body = load_object(payload) or {}
    kind = headers.get(":message-type", "event")
    if kind != "event":
        code = headers.get(":exception-type") or headers.get(":error-code") or kind
        message = text_at(body, "message") or headers.get(":error-message", "")
        return [Frame(dump({"type": "error", "error": {"type": code, "message": message}}), "error")]
    encoded = body.get("bytes")
    if type(encoded) is not str:
        return [Frame(payload, headers.get(":event-type", ""))]
    try:
        return [Frame(base64.b64decode(encoded, validate=True))]
    except (binascii.Error, ValueError):
        return [Frame(payload)]


def _headers(data: bytes) -> dict[str, str] | None:
    """Return the headers with text values; None if they are damaged."""
    headers = {}
    at = 0
    try:
        while at < len(data):
            name, at = data[at + 1 : at + 1 + data[at]], at + 1 + data[at]
            kind, at = data[at], at + 1
            size, at = (int.from_bytes(data[at : at + 2]), at + 2) if kind in _SIZED else (_SIZES[kind], at)
            if at + size > len(data):
                return None
            if kind == _TEXT:
                headers[name.decode()] = data[at : at + size].decode()
            at += size
    except (IndexError, KeyError, UnicodeDecodeError):
        return None
    return headers


def _header(name: str, value: str) -> bytes:
    return bytes([len(name)]) + name.encode() + bytes([_TEXT]) + struct.pack(">H", len(value)) + value.encode()


def _encode(headers: bytes, payload: bytes) -> bytes:
    sizes = struct.pack(">II", _OVERHEAD + len(headers) + len(payload), len(headers))
    message = sizes + _CRC.pack(zlib.crc32(sizes)) + headers + payload
    return message + _CRC.pack(zlib.crc32(message))
