"""aiohttp: each hop of a request, through the innermost middleware of the session.

aiohttp itself reads a recorded response, from a connection that the tape writes to, so it has every property of a live
one. It is written chunk by chunk, as the reader asks for more. Websockets are left alone.
"""

from __future__ import annotations

import asyncio
import inspect
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.payload import Payload
from aiohttp.streams import StreamReader

from replaykit.seam.failures import is_interruption
from replaykit.seam.http.call import HttpCall, HttpRequest, Served, listening
from replaykit.seam.http.cleaning import Headers
from replaykit.seam.http.request import Amended
from replaykit.seam.http.response import header_pairs, http1_body, http1_head
from replaykit.seam.own_code import Function
from replaykit.seam.through import later, never
from replaykit.seam.unrecorded import websocket_opened

_STATE = "_replaykit"  # on the protocol of a connection, which has one response at a time
_LONGEST = 2**24  # limit for recorded headers: any that were once accepted are accepted again


async def request(original: Function, session: Any, method: str, url: Any, **options: Any) -> Any:
    """Wrap `ClientSession._request`."""
    if not _is_supported(original) or listening() is None:
        return await original(session, method, url, **options)
    hops = _Hops(session, options)
    chosen = options.get("middlewares")
    if chosen is None:
        chosen = session._middlewares
    options["middlewares"] = (*chosen, hops.pass_through)
    try:
        return await original(session, method, url, **options)
    except BaseException as error:
        hops.failed(error)
        raise


@lru_cache(maxsize=8)
def _is_supported(original: Function) -> bool:
    """False for an aiohttp that is too old, which is reported once."""
    if "middlewares" in inspect.signature(original).parameters and hasattr(Payload, "as_bytes"):
        return True
    warnings.warn(
        f"aiohttp {aiohttp.__version__} is neither recorded nor replayed; 3.12.1 or later is",
        RuntimeWarning,
        stacklevel=3,
    )
    return False


class _Hops:
    """The exchanges of one request: the first, and one for each redirect and retry."""

    def __init__(self, session: Any, options: dict[str, Any]) -> None:
        self._unpack: Any = options.get("auto_decompress")
        if self._unpack is None:
            self._unpack = session._auto_decompress
        self._read_until_eof = options.get("read_until_eof", True)
        self._cut: HttpCall | None = None

    async def pass_through(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        here = listening(request.url)
        if here is None:
            return await handler(request)
        if request.headers.get("Upgrade", "").lower() == "websocket":
            websocket_opened(here.session, str(request.url))
            return await handler(request)
        body = await request.body.as_bytes() if request.body else b""
        headers = tuple(request.headers.items())
        call = HttpCall(here, HttpRequest(method=request.method, url=str(request.url), headers=headers, body=body))
        if call.served is not None:
            return await self._recorded(request, call.served)
        with call.inside(), Amended(request.headers, call.request):
            try:
                if call.wait_s:
                    await asyncio.sleep(call.wait_s)
                response = await handler(request)
                body = await response.content.read() if call.is_altered else b""
            except BaseException as error:
                if is_interruption(type(error)):
                    self._cut = call  # perhaps by a timeout, which the session knows
                else:
                    call.broke(error)
                raise
        if call.is_altered:
            self._begin(response, call)
            response.release()
            return await self._recorded(request, call.altered(body))
        self._tap(response, call)
        return response

    def failed(self, error: BaseException) -> None:
        """Note the error that the request ended with."""
        if self._cut is not None:
            self._cut.broke(error)

    def _begin(self, response: Any, call: HttpCall) -> None:
        version = f"HTTP/{response.version.major}.{response.version.minor}"
        headers = header_pairs(response.raw_headers)
        if self._unpack:
            headers = _unpacked(headers)
        call.answered(response.status, headers, reason=response.reason or "", version=version)

    def _tap(self, response: Any, call: HttpCall) -> None:
        """Record the response from here on, as it comes."""
        self._begin(response, call)
        content = response.content
        if type(content) is not StreamReader:
            call.ended()
            return
        for piece in content._buffer:
            call.chunk(bytes(piece))
        if content.is_eof():
            call.ended()
        else:
            setattr(content._protocol, _STATE, call)
            content.__class__ = _Tap

    async def _recorded(self, request: Any, served: Served) -> Any:
        """Return a recorded response, or raise the recorded failure."""
        if served.waits_s:
            await later(served.waits_s[0])
        if served.was_cut_off and not served.status:
            await never()
        error = _failure(request, served)
        if error is not None and not served.status:
            raise error
        protocol = ResponseHandler(request.loop)
        protocol.connection_made(_Nowhere())
        protocol.set_response_params(
            skip_payload=request.method == "HEAD",
            read_until_eof=self._read_until_eof,
            auto_decompress=self._unpack,
            max_line_size=_LONGEST,
            max_field_size=_LONGEST,
        )
        protocol.data_received(http1_head(served))
        connection = Connection(_NoPool(), request.connection_key, protocol, request.loop)  # type: ignore[arg-type]
        response = await request.send(connection)
        await response.start(connection)
        frames = _Frames(served, error)
        if served.complete and len(served.chunks) < 2 and not served.waits_s:
            frames.feed_all(protocol)  # like a server: it sends even what nobody reads
        elif type(response.content) is StreamReader:
            setattr(protocol, _STATE, frames)
            response.content.__class__ = _Replay
        return response


def _unpacked(headers: Headers) -> Headers:
    """Return the headers of a body that aiohttp decompresses before anybody sees it."""
    if not any(name.lower() == "content-encoding" and value.lower() != "identity" for name, value in headers):
        return headers
    gone = ("content-encoding", "content-length", "transfer-encoding")
    return tuple((name, value) for name, value in headers if name.lower() not in gone)


def _failure(request: Any, served: Served) -> BaseException | None:
    """Return the error that a recorded response ends with, about the current request; None if it ends well."""
    error = served.failure(vars(aiohttp))
    if isinstance(error, aiohttp.ClientConnectorError):
        inner = next((part for part in error.args if isinstance(part, Exception)), OSError(str(served.error)))
        with suppress(TypeError):  # a class with arguments of its own, or a stand-in
            return type(error)(request.connection_key, inner)  # type: ignore[arg-type]
    elif isinstance(error, aiohttp.ClientResponseError):
        error.request_info, error.history = request.request_info, ()
        error.args = (request.request_info, ())
    return error


class _Tap(StreamReader):
    """A live stream that records itself. It has no state of its own, and becomes the plain reader again at the end."""

    __slots__ = ()

    def feed_data(self, data: bytes, *rest: Any) -> Any:
        getattr(self._protocol, _STATE).chunk(bytes(data))
        return super().feed_data(data, *rest)

    def feed_eof(self) -> None:
        call = self._noted()
        self.feed_eof()
        call.ended()

    def set_exception(self, exc: Any, *rest: Any) -> None:
        call = self._noted()
        self.set_exception(exc, *rest)
        left = type(exc) is aiohttp.ClientConnectionError and exc.args == ("Connection closed",)
        call.broke(None if left else exc)

    async def _wait(self, func_name: str) -> None:
        call = getattr(self._protocol, _STATE)
        try:
            await super()._wait(func_name)
        except (asyncio.CancelledError, TimeoutError) as error:
            call.interrupted(error)
            raise

    def _noted(self) -> HttpCall:
        self.__class__ = StreamReader  # type: ignore[assignment]
        call: HttpCall = self._protocol.__dict__.pop(_STATE)
        return call


class _Replay(StreamReader):
    """A recorded stream: the next chunk comes when it is awaited."""

    __slots__ = ()

    async def _wait(self, func_name: str) -> None:
        frames: _Frames = getattr(self._protocol, _STATE)
        if (wait := next(frames.waits, 0.0)) > 0:
            await later(wait)
        if not frames.feed(self._protocol, self):
            await super()._wait(func_name)

    async def wait_eof(self) -> None:
        while not self.is_eof():
            await self._wait("wait_eof")


class _Frames:
    """A recorded body on its way to a reader."""

    def __init__(self, served: Served, error: BaseException | None) -> None:
        self._frames: Iterator[bytes] = http1_body(served, served.chunks)
        self.waits = iter(served.waits_s[1:])
        self._served = served
        self._error = error

    def feed(self, protocol: Any, reader: Any) -> bool:
        """Feed the next frame, or the end; return False if there was only waiting left."""
        frame = next(self._frames, None)
        if frame is not None:
            protocol.data_received(frame)
        elif self._served.complete:
            protocol.connection_lost(None)
        elif self._served.was_cut_off:
            return False
        else:
            assert self._error is not None
            reader.set_exception(self._error)
            raise self._error
        return True

    def feed_all(self, protocol: Any) -> None:
        """Feed everything."""
        for frame in self._frames:
            protocol.data_received(frame)
        if not self._served.header("content-length") and not self._served.is_chunked:
            protocol.connection_lost(None)


class _NoPool:
    """The pool that a recorded connection is returned to."""

    force_close = False

    def _release(self, key: Any, protocol: Any, *, should_close: bool = False) -> None:
        pass


class _Nowhere(asyncio.Transport):
    """Accepts writes, and ignores them."""

    def __init__(self) -> None:
        super().__init__()
        self._closing = False

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        self._closing = True

    abort = close

    def write(self, *_: Any) -> None:
        pass

    writelines = pause_reading = resume_reading = write  # type: ignore[assignment]

    def get_write_buffer_size(self) -> int:
        return 0
