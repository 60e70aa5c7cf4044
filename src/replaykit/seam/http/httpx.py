"""httpx and httpx2, which work the same: the default transports of their clients.

A stream is passed on as it comes, and recorded on the way. SDKs that retry after any exception get a Divergence in a
form after which they do not retry (`_Refusal`).
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from replaykit.errors import ReplayKitError
from replaykit.seam.http.call import HttpCall, HttpRequest, Served, listening
from replaykit.seam.http.request import Amended
from replaykit.seam.http.response import header_bytes, header_pairs, in_time
from replaykit.seam.own_code import Function
from replaykit.seam.scope import Scope
from replaykit.seam.through import later, never

# A header of SDKs by Stainless: they retry after any exception, but not after a response that forbids it.
_RETRIES = "x-stainless-retry-count"


def handle_request(original: Function, name: str, transport: Any, request: Any) -> Any:
    """Wrap `HTTPTransport.handle_request`."""
    here = listening(request.url)
    if here is None:
        return original(transport, request)
    request.read()
    library = _library(sys.modules[name])
    call = library.call(here, request)
    if call.served is not None:
        call.served.wait()
        error = None if call.served.status else library.failure(call.served)
        if error is not None:
            raise error
        return library.response(call.served)
    with call.live(), Amended(request.headers, call.request):
        call.pause()
        response = original(transport, request)
        if call.is_altered:
            return library.altered(response, call, b"".join(response.iter_raw()))
    return library.tapped(response, call)


async def handle_async_request(original: Function, name: str, transport: Any, request: Any) -> Any:
    """Wrap `AsyncHTTPTransport.handle_async_request`."""
    here = listening(request.url)
    if here is None:
        return await original(transport, request)
    await request.aread()
    library = _library(sys.modules[name])
    call = library.call(here, request)
    if call.served is not None:
        if call.served.waits_s:
            await later(call.served.waits_s[0])
        if not call.served.status:
            await library.fail(call.served)
        return library.response(call.served)
    with call.live(), Amended(request.headers, call.request):
        if call.wait_s:
            await later(call.wait_s)
        response = await original(transport, request)
        if call.is_altered:
            return library.altered(response, call, b"".join([chunk async for chunk in response.aiter_raw()]))
    return library.tapped(response, call)


def send(original: Function, name: str, client: Any, request: Any, **options: Any) -> Any:
    """Wrap `Client.send`."""
    try:
        return original(client, request, **options)
    except ReplayKitError as error:
        return _library(sys.modules[name]).refusal(request, error)


async def asend(original: Function, name: str, client: Any, request: Any, **options: Any) -> Any:
    """Wrap `AsyncClient.send`."""
    try:
        return await original(client, request, **options)
    except ReplayKitError as error:
        return _library(sys.modules[name]).refusal(request, error)


class _Library:
    """One of the libraries, already loaded."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self._live_stream = _live_stream(module)
        self._recorded_stream = _recorded_stream(module)
        self._refusal = _refusal(module)

    def call(self, here: Scope, request: Any) -> HttpCall:
        headers = header_pairs(request.headers.raw)
        url = str(request.url)
        return HttpCall(here, HttpRequest(method=request.method, url=url, headers=headers, body=request.content))

    def altered(self, response: Any, call: HttpCall, body: bytes) -> Any:
        """Return the live response with this body, as a fault changes it."""
        self._begin(response, call)
        return self.response(call.altered(body))

    def _begin(self, response: Any, call: HttpCall) -> None:
        extensions = response.extensions
        call.answered(
            response.status_code,
            header_pairs(response.headers.raw),
            reason=extensions.get("reason_phrase", b"").decode("latin-1"),
            version=extensions.get("http_version", b"HTTP/1.1").decode("latin-1"),
        )

    def tapped(self, response: Any, call: HttpCall) -> Any:
        """Return the live response, which records what is read of it."""
        self._begin(response, call)
        if response.is_closed:  # complete, from a stand-in for the network
            call.chunk(response.content)
            call.ended()
        else:
            response.stream = self._live_stream(response.stream, call)
        return response

    def response(self, served: Served) -> Any:
        """Return a recorded response."""
        extensions = {"http_version": served.version.encode()}
        if served.reason:
            extensions["reason_phrase"] = header_bytes(served.reason)
        return self.module.Response(
            served.status,
            headers=[(header_bytes(name), header_bytes(value)) for name, value in served.headers],
            stream=self._recorded_stream(served, self),
            extensions=extensions,
        )

    def failure(self, served: Served) -> BaseException | None:
        """Return the error that a recorded response ends with, as a class of this library; None if it ends well."""
        names, error = vars(self.module), served.error
        if error is not None and error.module.partition(".")[0] in ("httpx", "httpx2") and error.type in names:
            error = replace(error, module=names[error.type].__module__)
            served = replace(served, error=error)
        return served.failure(names)

    async def fail(self, served: Served) -> None:
        """End as the recorded response did."""
        if served.was_cut_off:
            await never()
        error = self.failure(served)
        if error is not None:
            raise error

    def refusal(self, request: Any, error: ReplayKitError) -> Any:
        """Raise the error, or return it as a response if raising it would look like a connection failure."""
        if _RETRIES not in request.headers:
            raise error
        refusal = self._refusal(
            409,
            headers={"x-should-retry": "false"},
            json={"error": {"type": type(error).__name__, "message": str(error)}},
            request=request,
        )
        refusal.replaykit_error = error
        return refusal


_library = lru_cache(maxsize=8)(_Library)


def _refusal(module: Any) -> Any:
    class Refusal(module.Response):  # type: ignore[misc]
        """Shows the error to anyone who reads it, and raises it for anyone who checks the status."""

        replaykit_error: ReplayKitError

        def raise_for_status(self) -> Any:
            raise self.replaykit_error

        @property
        def is_success(self) -> bool:
            raise self.replaykit_error

    return Refusal


def _live_stream(module: Any) -> Any:
    class Tap(module.SyncByteStream, module.AsyncByteStream):  # type: ignore[misc]
        """A live stream that records what is read of it.

        A stream that is dropped without being closed is recorded at the end of the run, not here: this may then be the
        garbage collector, at any moment.
        """

        def __init__(self, inner: Any, call: HttpCall) -> None:
            self._inner = inner
            self._call = call

        def __iter__(self) -> Iterator[bytes]:
            try:
                for chunk in self._inner:
                    self._call.chunk(chunk)
                    yield chunk
            except GeneratorExit:
                raise
            except BaseException as error:
                self._call.broke(error)
                raise
            self._call.ended()

        async def __aiter__(self) -> AsyncIterator[bytes]:
            try:
                async for chunk in self._inner:
                    self._call.chunk(chunk)
                    yield chunk
            except GeneratorExit:
                raise
            except BaseException as error:
                self._call.broke(error)
                raise
            self._call.ended()

        def close(self) -> None:
            self._inner.close()
            self._call.broke()

        async def aclose(self) -> None:
            await self._inner.aclose()
            self._call.broke()

    return Tap


def _recorded_stream(module: Any) -> Any:
    class Replay(module.SyncByteStream, module.AsyncByteStream):  # type: ignore[misc]
        """A recorded stream: the recorded chunks, and then its end."""

        def __init__(self, served: Served, library: _Library) -> None:
            self._served = served
            self._library = library

        def __iter__(self) -> Iterator[bytes]:
            yield from in_time(self._served)
            error = self._library.failure(self._served)
            if error is not None:
                raise error

        async def __aiter__(self) -> AsyncIterator[bytes]:
            for number, chunk in enumerate(self._served.chunks, 1):
                if self._served.waits_s:
                    await later(self._served.waits_s[number])
                yield chunk
            await self._library.fail(self._served)

    return Replay
