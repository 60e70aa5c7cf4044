"""One HTTP exchange at the seam.

here = listening(url)               None: no run is listening here, or another process records it
call = HttpCall(here, request)      raises errors that stop it, such as a Divergence
if call.served: …                   answer with that
with call.live(): …                 or do it, then report `answered`, each `chunk`, and the end
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import zstandard

from replaykit.model.events import Call, ErrorInfo, WireInfo
from replaykit.model.values import ABSENT, Raw, dumps, encode_read, raw, sayable
from replaykit.seam.failures import describe, is_cancellation, is_interruption
from replaykit.seam.foreign_threads import adopted, exports_telemetry
from replaykit.seam.http.cleaning import Headers, clean_chunks, clean_headers, clean_url, first_header, taken_apart
from replaykit.seam.http.request import HttpRequest, pending, text_or_bytes
from replaykit.seam.http.response import CANCELLED, TOO_LARGE, Served, at_pace, later_by, served
from replaykit.seam.scope import EXCHANGE, MODEL, CallAnswer, Outcome, Scope, current, enter, leave
from replaykit.seam.unrecorded import websocket_opened

__all__ = ["HttpCall", "HttpRequest", "Served", "listening"]

KEPT_BYTES = 256 * 1024 * 1024
"""Larger responses are passed on and not stored."""
PORTION = 16 * 1024
"""A body that is read in small portions is stored in pieces of this size."""
_SWITCHING = 101  # to another protocol, which is not recorded
UNPACKED_BYTES = 64 * 1024 * 1024
"""The limit for decompressing a model's answer."""


def listening(url: object = None) -> Scope | None:
    """Return the scope of a request made here; None if it concerns no run.

    `url` is text or converts to it. It is only examined if some requests are left to others, or stay within a program
    of several processes.
    """
    here = current()
    if (here is None or here.session.over) and not exports_telemetry():
        here = adopted(here, "an HTTP request" if url is None else clean_url(str(url)))
    if here is None or here.session.over or (here.call is not None and here.call.kind in (MODEL, EXCHANGE)):
        return None
    if url is not None and here.session.elsewhere:
        parts = taken_apart(str(url))
        if f"{parts.place}{parts.path}/".startswith(here.session.elsewhere):
            return None
    if url is not None and here.session.own is not None and here.session.own.takes(str(url)):
        return None
    return here


class Inside:
    """The inside of a call. A class, since a generator takes four times as long."""

    __slots__ = ("_on_failure", "_scope", "_token")

    def __init__(self, scope: Scope, on_failure: Callable[[BaseException], None] | None = None) -> None:
        self._scope = scope
        self._on_failure = on_failure

    def __enter__(self) -> None:
        self._token = enter(self._scope)

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        leave(self._token)
        if error is not None and self._on_failure is not None:
            self._on_failure(error)


class HttpCall:
    """An exchange from its request to the last byte of its response."""

    def __init__(self, scope: Scope, request: HttpRequest) -> None:
        self.request = request
        self._api = request.api
        self._call = pending(scope, request, self._api)
        self._call.request = request
        self._scope = scope
        self._number = scope.number(self._call.name)
        self._head: tuple[int, str, str, Headers] = (0, "", "HTTP/1.1", ())
        self._chunks: list[bytes | bytearray] = []
        self._pauses: list[float] = []
        self._size = 0
        self._interruption: BaseException | None = None
        self._is_sent = False
        self._process = os.getpid()
        self._began = self._last = time.perf_counter()
        answer = scope.session.handler.serve(self._call)
        self.recorded = answer if isinstance(answer, Call) and self._call.injected is None else None
        """The recorded call that answers it unchanged; None if the request is made, or if a fault answers."""
        self.served = None if answer is None else self._recorded(answer)
        """The recorded response; None if the request is to be made."""
        if answer is None:
            scope.session.unfinished[self._call.seq] = self

    def _recorded(self, answer: CallAnswer) -> Served:
        order, speed = self._scope.session.order, self._scope.session.speed
        if order is not None:
            order.begin(self._call, answer)
            speed = speed or order.pace
        response = served(self._call, answer, self.request.method.upper())
        if self.wait_s:
            return later_by(response, self.wait_s)
        return at_pace(response, answer.duration_s, speed) if speed and isinstance(answer, Call) else response

    @property
    def wait_s(self) -> float:
        """The real delay that a fault adds."""
        return 0.0 if self._call.injected is None else self._call.injected.wait_s

    def pause(self) -> None:
        """Wait in this thread for as long as a fault wants."""
        if self.wait_s:
            time.sleep(self.wait_s)

    @property
    def is_altered(self) -> bool:
        """True if a fault changes the live response: read the whole body first, and send `altered`."""
        return self._call.injected is not None and self._call.injected.alter is not None

    def altered(self, body: bytes) -> Served:
        """Record and return the response that a fault makes of the current one, with this whole body."""
        encoding = self._header("content-encoding").lower()
        status, reason, version, headers = self._head
        whole = b"".join(_decoded([body], encoding))
        if whole != body:
            headers = tuple(pair for pair in headers if pair[0].lower() != "content-encoding")
            self._head = (status, reason, version, headers)
        self.chunk(whole)
        answer: CallAnswer = self._outcome(None, complete=True)
        if self._call.injected is not None:
            answer = self._call.injected.applied(answer)
        session = self._scope.session
        if session.unfinished.pop(self._call.seq, None) is not None:
            session.handler.settle(self._call, answer, time.perf_counter() - self._began)  # type: ignore[arg-type]
        return served(self._call, answer, self.request.method.upper())

    def live(self) -> Inside:
        """Make the request inside this block: layers below stand aside, and failures are recorded."""
        return Inside(self._scope.inside(self._call, self._number), self.broke)

    def inside(self) -> Inside:
        """Do the same for callers who record failures themselves."""
        return Inside(self._scope.inside(self._call, self._number))

    def sent(self) -> None:
        """Note that the request was sent: failures from here on happen while waiting for the response."""
        self._is_sent = True
        self._last = time.perf_counter()

    def answered(
        self, status: int, headers: Sequence[tuple[str, str]], *, reason: str = "", version: str = "HTTP/1.1"
    ) -> None:
        """Note the head of the response."""
        self._head = (status, reason, version, tuple(headers))
        if status == _SWITCHING and self.request.header("upgrade").lower() == "websocket":
            websocket_opened(self._scope.session, self.request.url)
        if self._scope.session.own is not None:
            self._scope.session.own.takes(self.request.url)  # notices a server of the program that has just started
        self._last = time.perf_counter()

    def answered_in_http1(self, response: Any, headers: Headers) -> None:
        """Note the head of the response, as http.client describes it."""
        version = "HTTP/1.0" if response.version == 10 else "HTTP/1.1"
        self.answered(response.status, headers, reason=response.reason or "", version=version)

    def chunk(self, data: bytes) -> None:
        """Note a piece of the response."""
        if not data:
            return
        now = time.perf_counter()
        self._pauses.append(now - self._last)
        self._chunks.append(data)
        self._came(len(data), now)

    def more(self, data: bytes) -> None:
        """Add data to the last piece, which was cut only because it was read in small portions."""
        if not self._chunks:
            self.chunk(data)
            return
        last = self._chunks[-1]
        if not isinstance(last, bytearray):
            last = self._chunks[-1] = bytearray(last)
        last += data
        self._came(len(data), time.perf_counter())

    def _came(self, size: int, now: float) -> None:
        self._last = now
        self._interruption = None
        self._size += size
        if self._size > KEPT_BYTES:
            self._chunks.clear()
            self._pauses.clear()

    def ended(self) -> None:
        """Note that the response was read to its end."""
        self._settle(None, complete=True)

    def broke(self, error: BaseException | None = None) -> None:
        """Note that the response, or the request itself, ended early; without an error, the caller left it."""
        error = error or self._interruption
        self._settle(None if error is None else _described(error), complete=False)

    def interrupted(self, error: BaseException) -> None:
        """Note that somebody stopped waiting for the next piece; if nobody continues, that is how it ended."""
        self._interruption = error

    def _settle(self, error: ErrorInfo | None, *, complete: bool) -> None:
        session = self._scope.session
        # Only the first end counts; a forked child does not decide about its parent's exchange.
        if self._process != os.getpid() or session.unfinished.pop(self._call.seq, None) is None:
            return
        duration = time.perf_counter() - self._began
        session.handler.settle(self._call, self._outcome(error, complete=complete), duration)

    def _outcome(self, error: ErrorInfo | None, *, complete: bool) -> Outcome:
        status, reason, version, headers = self._head
        if self._size > KEPT_BYTES:
            error, complete = ErrorInfo(type=TOO_LARGE, message=f"{self._size} bytes, of at most {KEPT_BYTES}"), False
        pauses = self._pauses
        if (status or self._is_sent) and not complete:
            pauses = [*pauses, time.perf_counter() - self._last]
        wire = WireInfo(
            method=self.request.method,
            url=clean_url(self.request.url),
            status=status,
            reason=sayable(reason),
            version=version,
            headers=clean_headers(headers),
            pauses_ms=tuple([round(pause * 10_000) / 10 for pause in pauses]),
        )
        if not status:
            return Outcome(error=error, complete=complete, wire=wire)
        chunks = list(map(bytes, self._chunks))
        complete = complete or (error is None and self._has_all())
        if self._api is None or self._call.kind != MODEL:
            return Outcome(error=error, items_json=_items(clean_chunks(chunks)), complete=complete, wire=wire)
        response = self._api.read_response(status, _decoded(chunks, self._header("content-encoding").lower()))
        left = not complete and error is None
        return Outcome(
            result_json=Raw(encode_read(response.answer.message)) if response.answer is not None else ABSENT,
            error=error or response.error,
            items_json=_items(chunks),
            # Stopping at the last event of a stream omits nothing.
            complete=response.complete and response.answer is not None if left else complete,
            wire=wire,
            usage=response.usage,
            finish_reason=response.finish_reason,
        )

    def _header(self, name: str) -> str:
        return first_header(self._head[3], name)

    def _has_all(self) -> bool:
        """True if every announced byte has come, and only the end was not awaited."""
        length = self._header("content-length")
        return length.isascii() and length.isdigit() and int(length) == self._size


def _items(chunks: list[bytes]) -> tuple[Raw, ...]:
    items = map(text_or_bytes, chunks)
    return tuple([Raw(dumps(item)) if type(item) is str else raw(item) for item in items])


def _described(error: BaseException) -> ErrorInfo | None:
    """Return the error as data. A cancelled exchange is cancelled again; other interruptions are no outcome."""
    kind = type(error)
    if not is_interruption(kind):
        return describe(error)
    return ErrorInfo(type=CANCELLED, module=kind.__module__) if is_cancellation(kind) else None


def _decoded(chunks: list[bytes], encoding: str) -> Sequence[bytes]:
    """Return the chunks without their content encoding; unchanged if it is unknown here."""
    whole = b"".join(chunks) if encoding else b""
    try:
        if encoding in ("gzip", "x-gzip", "deflate"):
            return [zlib.decompressobj(wbits=47).decompress(whole, UNPACKED_BYTES)]  # 47: detect gzip or zlib
        if encoding == "zstd":
            return [zstandard.ZstdDecompressor().stream_reader(whole).read(UNPACKED_BYTES)]
    except (zlib.error, zstandard.ZstdError):
        return chunks
    return chunks
