"""Responses at the proxy, on their way to the program: recorded ones, and live ones that are written down meanwhile.

Nothing is held back: a chunk goes on when it comes. The event is in the store before the end of the response is sent:
whoever has read a response to its end can rely on it. A response that broke off breaks off again.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Mapping

import aiohttp
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from multidict import CIMultiDict

from replaykit.programs.naming import end_to_end
from replaykit.seam.http.call import HttpCall, Served
from replaykit.seam.http.response import header_pairs

_AT_ONCE = 64 * 1024  # what is sent before it is asked whether the program still reads
_LARGE = 4 * 1024 * 1024  # to write down more than this takes so long that others would wait
_END = b"0\r\n\r\n"


async def hand_out(request: web.BaseRequest, served: Served) -> web.StreamResponse:
    """A recorded response, chunk by chunk."""
    if served.waits_s:
        await asyncio.sleep(served.waits_s[0])
    if not served.status:
        return drop(request)
    headers, size = CIMultiDict(end_to_end(served.headers)), sum(map(len, served.chunks))
    if served.complete and len(served.chunks) == 1:
        headers.setdefault("content-length", str(size))
    if served.complete and size <= _AT_ONCE and not served.waits_s:
        return await _at_once(request, served, headers)
    response = _Response(status=served.status, reason=served.reason or None, headers=headers)
    outbox = _Outbox(request, await response.prepare(request))
    for number, chunk in enumerate(served.chunks, 1):
        if served.waits_s:
            await outbox.send()
            await asyncio.sleep(served.waits_s[number])
        await outbox.put(chunk)
    if not served.complete:
        await outbox.send()
        return drop(request)
    await outbox.end()
    return response


async def hand_back(
    request: web.BaseRequest, answer: aiohttp.ClientResponse, call: HttpCall | None, marks: Mapping[str, str]
) -> web.StreamResponse:
    """A live response as it comes, told to the call; without one it is only passed on."""
    headers = [*end_to_end(header_pairs(answer.raw_headers)), *marks.items()]
    if call is not None:
        call.answered(answer.status, headers, reason=answer.reason or "")
    response = _Response(status=answer.status, reason=answer.reason, headers=CIMultiDict(headers))
    outbox = _Outbox(request, await response.prepare(request))
    size, last, content = 0, b"", answer.content
    while not content.at_eof():
        if content.total_bytes == size or content.exception() is not None:  # the next one is not here
            await outbox.send()
        chunk, _ = await content.readchunk()
        size += len(chunk)
        if call is not None:
            call.chunk(chunk)
        if content.at_eof():
            last = chunk  # the program must not see the end before it is written down
        else:
            await outbox.put(chunk)
    if call is not None and size > _LARGE:
        await asyncio.get_running_loop().run_in_executor(None, call.ended)
    elif call is not None:
        call.ended()
    await outbox.put(last)
    await outbox.end()
    return response


def drop(request: web.BaseRequest) -> web.StreamResponse:
    """Break off the connection; what is given back is for aiohttp alone, and goes nowhere."""
    transport = request.transport
    if transport is not None:
        if request.version < aiohttp.HttpVersion11:  # a mere end would look like the end of the body: reset it
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.close()
    return web.Response()


async def _at_once(request: web.BaseRequest, served: Served, headers: CIMultiDict[str]) -> web.StreamResponse:
    """A small response in one piece, which costs a tenth; the chunks keep their frames."""
    response = web.Response(status=served.status, reason=served.reason or None, headers=headers)
    if len(served.chunks) > 1 and "content-length" not in headers and request.version >= aiohttp.HttpVersion11:
        response.enable_chunked_encoding()
        response.body = b"".join([*map(_framed, served.chunks), _END])
        _frames_itself(await response.prepare(request))
    else:
        response.body = b"".join(served.chunks) or None
    return response


class _Response(web.StreamResponse):
    """One whose head leaves with the first chunks."""

    _send_headers_immediately = False


class _Outbox:
    """What is on its way to the program. Chunks that come together leave together, each in its own frame."""

    def __init__(self, request: web.BaseRequest, writer: AbstractStreamWriter | None) -> None:
        self._request = request
        self._writer = writer
        self._is_framed = _frames_itself(writer)
        self._waiting: list[bytes] = []
        self._size = 0

    async def put(self, chunk: bytes) -> None:
        """A chunk that goes with those that come with it, or when the program has read enough of what was sent."""
        if not chunk:
            return
        self._waiting.append(_framed(chunk) if self._is_framed else chunk)
        self._size += len(chunk)
        if self._size > _AT_ONCE:
            await self.send()
            await self._request.writer.drain()

    async def end(self) -> None:
        """Send what is left, and the end."""
        if self._is_framed:
            self._waiting.append(_END)
        await self.send()
        await self._request.writer.drain()

    async def send(self) -> None:
        """Send what there is, the head of the response before it."""
        transport = self._request.transport
        if self._writer is not None and transport is not None and not transport.is_closing():
            await self._writer.write(b"".join(self._waiting))
        self._waiting, self._size = [], 0


def _framed(chunk: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(chunk), chunk)


def _frames_itself(writer: AbstractStreamWriter | None) -> bool:
    """Take the framing of chunks from aiohttp, which makes one of each piece that is written; True where it framed."""
    was_framed = bool(getattr(writer, "chunked", False))
    if was_framed:
        writer.chunked = False  # type: ignore[union-attr]
    return was_framed
