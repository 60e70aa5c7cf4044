"""A recorded response, to be served as it came."""

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
"""The error of a response that was passed on but too large to store."""
CANCELLED = "CancelledError"
"""The error of a response whose reader was cancelled while waiting."""
LEFT = "the program left before the response had ended"
"""The message of the error that the proxy records if a program gives up on a request."""


class Served(Struct, frozen=True, kw_only=True):
    """A recorded response, and how it ended."""

    name: str
    """The name of the call it answers."""
    status: int = 0
    """0 if no response came: then `error` is the failure of the request."""
    reason: str = ""
    version: str = "HTTP/1.1"
    headers: Headers = ()
    chunks: tuple[bytes, ...] = ()
    pauses_ms: tuple[float, ...] = ()
    """The recorded wait before each chunk."""
    waits_s: tuple[float, ...] = ()
    """The waits of this replay, before the head and before each chunk; empty to serve everything at once."""
    complete: bool = True
    """False if it broke off after the last chunk."""
    error: ErrorInfo | None = None
    """The error that it broke off with; None if the caller left it."""

    def header(self, name: str) -> str:
        """Return the first value of a header, given its name in lower case."""
        return first_header(self.headers, name)

    def wait(self) -> None:
        """Wait as long as the head takes."""
        if self.waits_s:
            time.sleep(self.waits_s[0])

    @property
    def is_chunked(self) -> bool:
        """True if HTTP/1.1 frames its body chunk by chunk."""
        return "chunked" in self.header("transfer-encoding").lower()

    @property
    def was_cut_off(self) -> bool:
        """True if its reader was cancelled: there was, and is, nothing to do but wait."""
        return self.error is not None and self.error.type == CANCELLED

    @property
    def was_sent(self) -> bool:
        """True if the request is known to have been sent."""
        return bool(self.status or self.pauses_ms)

    @property
    def was_abandoned(self) -> bool:
        """True if its reader gave up: the rest is missing, and its end is unknown."""
        if self.complete:
            return False
        if self.error is None or self.was_cut_off:
            return True
        return self.error.message == LEFT or "Timeout" in self.error.type

    def failure(self, namespace: Mapping[str, Any]) -> BaseException | None:
        """Return the error that it ends with, as an exception that `namespace` knows; None if it ends well."""
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
    """Return the response at its recorded pace, given how long the whole took."""
    pauses = [pause / 1000 for pause in response.pauses_ms][: len(response.chunks)]
    waits = [max(0.0, took_s - sum(pauses)), *pauses, *[0.0] * (len(response.chunks) - len(pauses))]
    return replace(response, waits_s=tuple(wait / speed for wait in waits))


def later_by(response: Served, seconds: float) -> Served:
    """Return the response with a delay before all of it."""
    return replace(response, waits_s=(seconds, *[0.0] * len(response.chunks)))


def served(call: PendingCall, answer: CallAnswer, method: str) -> Served:
    """Return the response in a recorded call; raise `Unreplayable` if it has none."""
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
    """Return the head of the response in HTTP/1.1."""
    version = "HTTP/1.1"
    if response.version == "HTTP/1.0":
        version = response.version
    lines = [f"{version} {response.status} {response.reason}"]
    lines += [f"{name}: {value}" for name, value in response.headers]
    return b"".join(_one_line(line) + b"\r\n" for line in lines) + b"\r\n"


def in_time(response: Served) -> Iterator[bytes]:
    """Yield the chunks of the response, each after its wait."""
    for number, chunk in enumerate(response.chunks, 1):
        if response.waits_s:
            time.sleep(response.waits_s[number])
        yield chunk


def http1_body(response: Served, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the chunks of the response, framed as its headers say; a complete one ends with its last frame."""
    if not response.is_chunked:
        yield from chunks
        return
    end = b"0\r\n\r\n" if response.complete else b""
    for number, chunk in enumerate(chunks, 1):
        yield b"%x\r\n%b\r\n%b" % (len(chunk), chunk, end if number == len(response.chunks) else b"")
    if end and not response.chunks:
        yield end


def header_pairs(raw: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Decode headers: each byte becomes one character, so that none is lost."""
    return tuple([(name.decode("latin-1"), value.decode("latin-1")) for name, value in raw])


def header_bytes(text: str) -> bytes:
    """Return the bytes of a header's name or value."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:  # written into a fixture by hand: no server could have sent it
        return text.encode("utf-8", "replace")


def _one_line(text: str) -> bytes:
    return header_bytes(text.replace("\r", " ").replace("\n", " "))


def _headers(wire: WireInfo, chunks: tuple[bytes, ...]) -> Headers:
    """Return the headers with the actual length of the body, which may have been edited by hand."""
    if wire.status in (204, 304):
        return wire.headers
    size = str(sum(map(len, chunks)))
    return tuple((name, size if name.lower() == "content-length" else value) for name, value in wire.headers)


def _as_bytes(item: Any) -> bytes:
    if isinstance(item, str):
        return item.encode()
    if isinstance(item, bytes):
        return item
    return msgspec.json.encode(item)  # JSON written into a fixture by hand, instead of its text
