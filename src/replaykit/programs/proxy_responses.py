"""Responses at the proxy on their way to the program: recorded ones, and live ones that are recorded meanwhile.

Chunks are passed on as they come. The event is in the store before the end of the response is sent, so whoever has read
a response to its end can rely on it. A response that broke off breaks off again.

A program with timers of its own has no virtual clock: it measures real time. So overlapping calls, and calls that the
program gave up on, take as long as recorded, and its races and timeouts come out the same. Everything else is served at
once.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress

import aiohttp
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from multidict import CIMultiDict

from replaykit.handlers.replay.order import UNDECIDED
from replaykit.handlers.replay.schedule import NEVER, end_of, overlapping, spans_of
from replaykit.model.events import Call, CallSpan
from replaykit.programs.proxy_addresses import end_to_end_headers, headers_for_program
from replaykit.programs.upstream_client import UpstreamResponse
from replaykit.seam.http.call import HttpCall, Served
from replaykit.seam.http.response import at_pace, header_bytes, header_pairs

# How long a busy machine may delay a request of the program.
_PATIENCE_S = 0.5
# How much longer than recorded a program may wait for a response that it gave up on.
_HOLD_S = 10.0
# How long a program may take to give up on a response after it has read a chunk.
_REACTION_S = 0.02
# Above this duration of a body, its head is sent before the response's turn to end.
_BODY_S = 0.05


class RecordedPace:
    """The pace of a tape's calls, and the order in which concurrent calls end."""

    def __init__(self, calls: Iterable[Call], speed: float, note: Callable[[str, str], None]) -> None:
        """`note` records undecided orders. A requested `speed` is the pace of every call."""
        spans = {} if speed else spans_of(calls)
        self.overlapping = overlapping(spans)
        self.note = note
        self._ends = {seq: end_of(span) for seq, span in spans.items()}
        self._earlier = _ended_before(spans)
        self._begun: set[int] = set()
        self._running: set[int] = set()
        self._changed = asyncio.Event()

    @contextmanager
    def turn(self, call: Call, response: Served) -> Iterator[PacedCall]:
        """Serve a recorded call inside the block."""
        self._begun.add(call.seq)
        self._running.add(call.seq)
        self._wake()
        try:
            yield PacedCall(self, call, response)
        finally:
            self._running.discard(call.seq)
            self._wake()

    async def come_to_end(self, seq: int) -> None:
        """Wait until the calls that ended before this one have ended; not long, in case the program omits them."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                while self._has_to_wait(seq):
                    await self._changed.wait()

    def _has_to_wait(self, seq: int) -> bool:
        earlier = self._earlier.get(seq)
        if earlier is not None and earlier not in self._begun:
            return True
        return any(self._ends.get(other, NEVER) < self._ends[seq] for other in self._running)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class PacedCall:
    """A call that is being served, up to its recorded end."""

    def __init__(self, pace: RecordedPace, call: Call, response: Served) -> None:
        self._pace = pace
        self._call = call
        self._overlaps = call.seq in pace.overlapping
        self.response = response
        """The response with its pauses."""
        if not response.waits_s and (self._overlaps or _was_left_at_a_chunk(response)):
            self.response = at_pace(response, call.duration_s - _unanswered_s(response), 1.0)

    @property
    def ends_with_head(self) -> bool:
        """True if the head of the response and its end come at almost the same time."""
        return sum(self.response.waits_s[1:]) < _BODY_S

    async def come_to_end(self) -> None:
        """Wait until it is time to end."""
        if self._overlaps:
            await self._pace.come_to_end(self._call.seq)

    async def hold(self) -> None:
        """Wait until the program gives up, which cancels this task; for a limited time."""
        await asyncio.sleep(self._call.duration_s + _HOLD_S)
        text = f"`{self._call.name}` was abandoned when it was recorded, and is waited for longer now"
        self._pace.note(text, UNDECIDED)


def _was_left_at_a_chunk(response: Served) -> bool:
    """True if the program gave up on the response after reading a chunk: it may have looked at its clock. One that gave
    up while it waited had a timer, which works the same however early the chunks come."""
    return response.was_abandoned and bool(response.chunks) and _unanswered_s(response) < _REACTION_S


def _unanswered_s(response: Served) -> float:
    """Return how long the program waited in vain after the last chunk."""
    return sum(response.pauses_ms[len(response.chunks) :]) / 1000


def _ended_before(spans: dict[int, CallSpan]) -> dict[int, int]:
    """Return for each call the call that ended last while it was in progress, if any."""
    earlier: dict[int, int] = {}
    before: int | None = None
    for seq, span in sorted(spans.items(), key=lambda item: end_of(item[1])):
        if before is not None and end_of(spans[before]) > span.begin:
            earlier[seq] = before
        before = seq
    return earlier


_AT_ONCE = 64 * 1024  # bytes to send before checking whether the program still reads
_LARGE = 4 * 1024 * 1024  # recording a larger body takes so long that it would block other requests
_END = b"0\r\n\r\n"


async def send_recorded(request: web.BaseRequest, served: Served, turn: PacedCall | None = None) -> web.StreamResponse:
    """Send a recorded response chunk by chunk; `turn` knows when it is time to end."""
    if served.waits_s:
        await asyncio.sleep(served.waits_s[0])
    ends_with_head = turn is not None and turn.ends_with_head
    if turn is not None and ends_with_head:
        await turn.come_to_end()
    if not served.status:
        return await _break_off(request, served, turn)
    headers = aiohttp_headers(headers_for_program(request.raw_path, end_to_end_headers(served.headers)))
    size = sum(map(len, served.chunks))
    if served.complete and len(served.chunks) == 1:
        headers.setdefault("content-length", str(size))
    if served.complete and size <= _AT_ONCE and not served.waits_s:
        return await _send_whole(request, served, headers)
    response = _DeferredHeadResponse(status=served.status, reason=served.reason or None, headers=headers)
    outbox = _ChunkWriter(request, await response.prepare(request))
    for number, chunk in enumerate(served.chunks, 1):
        if served.waits_s or outbox.is_full:
            await outbox.send()
        if served.waits_s:
            await asyncio.sleep(served.waits_s[number])
        if turn is not None and not ends_with_head and number == len(served.chunks):
            await turn.come_to_end()
        outbox.put(chunk)
    if not served.complete:
        await outbox.send()
        return await _break_off(request, served, turn)
    await outbox.end()
    return response


async def _break_off(request: web.BaseRequest, served: Served, turn: PacedCall | None) -> web.StreamResponse:
    """Break off an unfinished response. One that the program gave up on stays open until it does so again."""
    if turn is not None and served.was_abandoned:
        await turn.hold()
    return drop_connection(request)


async def send_live(
    request: web.BaseRequest, answer: UpstreamResponse, call: HttpCall | None, marks: Mapping[str, str]
) -> web.StreamResponse:
    """Pass on a live response as it comes, and record it with its call, if any. `marks` are headers that replace those
    of the response."""
    own = end_to_end_headers(header_pairs(answer.raw_headers))
    headers = [*(pair for pair in own if pair[0].lower() not in marks), *marks.items()]
    if call is not None:
        call.answered(answer.status, headers, reason=answer.reason)
    written = aiohttp_headers(headers_for_program(request.raw_path, headers))
    response = _DeferredHeadResponse(status=answer.status, reason=answer.reason, headers=written)
    outbox = _ChunkWriter(request, await response.prepare(request))
    try:
        last = await _send_all_but_last(answer.content, call, outbox)
    except (aiohttp.ClientError, OSError):
        await outbox.send()  # the part before it broke off
        raise
    if call is not None and answer.content.total_bytes > _LARGE:
        await asyncio.get_running_loop().run_in_executor(None, call.ended)
    elif call is not None:
        call.ended()
    outbox.put(last)
    await outbox.end()
    return response


async def _send_all_but_last(content: aiohttp.StreamReader, call: HttpCall | None, outbox: _ChunkWriter) -> bytes:
    """Pass on all chunks but the last, which is returned: the program must not see the end before it is recorded."""
    size, last = 0, b""
    while content.total_bytes > size or not content.at_eof():
        outbox.put(last)
        if content.total_bytes == size or outbox.is_full:  # nothing more has come yet, or the buffer is full
            await outbox.send()
        last, _ = await content.readchunk()
        size += len(last)
        if call is not None:
            call.chunk(last)
    return last


def aiohttp_headers(headers: Iterable[tuple[str, str]]) -> CIMultiDict[str]:
    """Return headers for aiohttp, which writes UTF-8, while here each character is a byte."""
    written: CIMultiDict[str] = CIMultiDict()
    for name, value in headers:
        if not value.isascii():
            with suppress(UnicodeDecodeError):
                value = header_bytes(value).decode()
        written.add(name, value)
    return written


def drop_connection(request: web.BaseRequest) -> web.StreamResponse:
    """Break off the connection; the returned response goes nowhere."""
    transport = request.transport
    if transport is not None:
        if request.version < aiohttp.HttpVersion11:  # a plain close would look like the end of the body: reset it
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.close()
    return web.Response()


async def _send_whole(request: web.BaseRequest, served: Served, headers: CIMultiDict[str]) -> web.StreamResponse:
    """Send a small response in one write, at a tenth of the cost; the chunks keep their frames."""
    response = web.Response(status=served.status, reason=served.reason or None, headers=headers)
    if len(served.chunks) > 1 and "content-length" not in headers and request.version >= aiohttp.HttpVersion11:
        response.enable_chunked_encoding()
        response.body = b"".join([*(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in served.chunks), _END])
        _disable_chunking(await response.prepare(request))
    else:
        response.body = b"".join(served.chunks) or None
    return response


class _DeferredHeadResponse(web.StreamResponse):
    """A response whose head is sent with the first chunks."""

    _send_headers_immediately = False


class _ChunkWriter:
    """Sends chunks to the program. Chunks that arrive together leave together, each in its own frame."""

    def __init__(self, request: web.BaseRequest, writer: AbstractStreamWriter | None) -> None:
        self._request = request
        self._writer = writer
        self._is_framed = _disable_chunking(writer)
        self._waiting: list[bytes] = []
        self._size = 0

    def put(self, chunk: bytes) -> None:
        """Queue a chunk for the next `send`."""
        if chunk:
            self._waiting.append(b"%x\r\n%b\r\n" % (len(chunk), chunk) if self._is_framed else chunk)
            self._size += len(chunk)

    @property
    def is_full(self) -> bool:
        """True if the queue should be sent before it grows further."""
        return self._size > _AT_ONCE

    async def end(self) -> None:
        """Send the rest and the end of the response."""
        if self._is_framed:
            self._waiting.append(_END)
        await self.send()
        await self._request.writer.drain()

    async def send(self) -> None:
        """Send the queue, after the head of the response; waits while the program reads slowly."""
        transport = self._request.transport
        if self._writer is not None and transport is not None and not transport.is_closing():
            await self._writer.write(b"".join(self._waiting))
        self._waiting, self._size = [], 0


def _disable_chunking(writer: AbstractStreamWriter | None) -> bool:
    """Turn off aiohttp's chunked framing, which frames each write as one chunk; return True if it was on."""
    was_framed = bool(getattr(writer, "chunked", False))
    if was_framed:
        writer.chunked = False  # type: ignore[union-attr]
    return was_framed
