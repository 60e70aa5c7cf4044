"""A recorded response, to be given out as it came."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from replaykit.errors import Unreplayable
from replaykit.model.events import ErrorInfo, WireInfo
from replaykit.model.values import decode
from replaykit.seam.http.cleaning import Headers, first_header
from replaykit.seam.rebuild import rebuild_error
from replaykit.seam.scope import CallAnswer, PendingCall

TOO_LARGE = "TooLarge"
"""The error of a response that was passed on and not kept."""
CANCELLED = "CancelledError"
"""The error of a response that somebody waited for until they were cancelled."""
LEFT = "the program left before the response had ended"
"""The message of the error that the proxy records when a program gives up on a request."""


class Served(Struct, frozen=True, kw_only=True):
    """A recorded response: what came, and how it ended."""

    name: str
    """Of the call it answers."""
    status: int = 0
    """0 when no response came: then `error` is what the request failed with."""
    reason: str = ""
    version: str = "HTTP/1.1"
    headers: Headers = ()
    chunks: tuple[bytes, ...] = ()
    pauses_ms: tuple[float, ...] = ()
    """The recorded wait before each chunk."""
    waits_s: tuple[float, ...] = ()
    """The waits of this replay, before the head and before each chunk; empty if everything is there at once."""
    complete: bool = True
    """False when it broke off after the last chunk."""
    error: ErrorInfo | None = None
    """The error that it broke off with; without one, the caller had left it."""

    def header(self, name: str) -> str:
        """Return the first value of a header, by its name in small letters."""
        return first_header(self.headers, name)

    def wait(self) -> None:
        """Wait for the head as long as it takes."""
        if self.waits_s:
            time.sleep(self.waits_s[0])

    @property
    def is_chunked(self) -> bool:
        """True when HTTP/1.1 frames its body chunk by chunk."""
        return "chunked" in self.header("transfer-encoding").lower()

    @property
    def was_cut_off(self) -> bool:
        """True when whoever waited for it was cancelled: there was, and is, nothing to do but wait."""
        return self.error is not None and self.error.type == CANCELLED

    @property
    def was_sent(self) -> bool:
        """True when the request is known to have been sent."""
        return bool(self.status or self.pauses_ms)

    @property
    def was_abandoned(self) -> bool:
        """True when whoever waited for it gave up: there is no more of it, and nobody knows how it would have ended."""
        if self.complete:
            return False
        if self.error is None or self.was_cut_off:
            return True
        return self.error.message == LEFT or "Timeout" in self.error.type

    def failure(self, namespace: Mapping[str, Any]) -> BaseException | None:
        """Return what it ends with, as an exception that `namespace` knows; None when it ends well."""
        if self.complete:
            return None
        if self.error is not None and not self.was_cut_off:
            return rebuild_error(self.error, namespace)
        if not self.status:
            return Unreplayable(f"`{self.name}` was interrupted when it was recorded; there is no answer to give")
        count = len(self.chunks)
        return Unreplayable(
            f"`{self.name}` was left after {count} chunks when it was recorded; there is no chunk {count + 1}"
        )


def at_pace(response: Served, took_s: float, speed: float) -> Served:
    """The response, to be given as slowly as it came, when the whole of it took that long."""
    pauses = [pause / 1000 for pause in response.pauses_ms][: len(response.chunks)]
    waits = [max(0.0, took_s - sum(pauses)), *pauses, *[0.0] * (len(response.chunks) - len(pauses))]
    return replace(response, waits_s=tuple(wait / speed for wait in waits))


def later_by(response: Served, seconds: float) -> Served:
    """The response, of which all is to be waited for that long."""
    return replace(response, waits_s=(seconds, *[0.0] * len(response.chunks)))


def served(call: PendingCall, answer: CallAnswer, method: str) -> Served:
    """The response that a recorded call holds; `Unreplayable` when it holds none."""
    wire = answer.wire
    if wire is None:
        if answer.error is None:
            raise Unreplayable(f"`{call.name}` was recorded without what came over the wire; there is nothing to give")
        return Served(name=call.name, complete=False, error=answer.error)
    if answer.error is not None and answer.error.type == TOO_LARGE:
        raise Unreplayable(f"`{call.name}` was not kept when it was recorded: {answer.error.message}")
    chunks = tuple(_as_bytes(decode(item)) for item in answer.items_json or ())
    response = Served(
        name=call.name,
        status=wire.status,
        reason=wire.reason,
        version=wire.version,
        headers=wire.headers,
        chunks=chunks,
        pauses_ms=wire.pauses_ms,
    )
    if not wire.status or not answer.complete:
        return replace(response, complete=False, error=answer.error)
    if method == "HEAD":
        return response
    return replace(response, headers=_headers(wire, chunks))


def http1_head(response: Served) -> bytes:
    """The first lines of the response, as HTTP/1.1 writes them."""
    version = "HTTP/1.1"
    if response.version == "HTTP/1.0":
        version = response.version
    lines = [f"{version} {response.status} {response.reason}"]
    lines += [f"{name}: {value}" for name, value in response.headers]
    return b"".join(_one_line(line) + b"\r\n" for line in lines) + b"\r\n"


def in_time(response: Served) -> Iterator[bytes]:
    """The chunks of the response, each after the time it takes."""
    for number, chunk in enumerate(response.chunks, 1):
        if response.waits_s:
            time.sleep(response.waits_s[number])
        yield chunk


def http1_body(response: Served, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The chunks of the response, framed as its headers say; a whole one ends with its last frame."""
    if not response.is_chunked:
        yield from chunks
        return
    end = b"0\r\n\r\n" if response.complete else b""
    for number, chunk in enumerate(chunks, 1):
        yield b"%x\r\n%b\r\n%b" % (len(chunk), chunk, end if number == len(response.chunks) else b"")
    if end and not response.chunks:
        yield end


def header_pairs(raw: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Headers from bytes: each character is one byte, so that none is lost."""
    return tuple([(name.decode("latin-1"), value.decode("latin-1")) for name, value in raw])


def header_bytes(text: str) -> bytes:
    """The bytes of a header's name or value."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:  # nothing a server could have sent: somebody has written it into a fixture
        return text.encode("utf-8", "replace")


def _one_line(text: str) -> bytes:
    return header_bytes(text.replace("\r", " ").replace("\n", " "))


def _headers(wire: WireInfo, chunks: tuple[bytes, ...]) -> Headers:
    """The headers, with the length that the body has: it may have been edited by hand."""
    if wire.status in (204, 304):
        return wire.headers
    size = str(sum(map(len, chunks)))
    return tuple((name, size if name.lower() == "content-length" else value) for name, value in wire.headers)


def _as_bytes(item: Any) -> bytes:
    if isinstance(item, str):
        return item.encode()
    if isinstance(item, bytes):
        return item
    return msgspec.json.encode(item)  # somebody has written JSON into a fixture instead of its text
