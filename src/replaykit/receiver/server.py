"""The server: OTLP over HTTP on a socket. Requests wait for one thread, and no more of them than memory allows."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from typing import TypeVar

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from replaykit.errors import UsageError
from replaykit.receiver import http
from replaykit.receiver.desk import Desk
from replaykit.receiver.http import MAX_BODY, Refused, Reply, Request, Signal

_T = TypeVar("_T")
DEFAULT_PORT = 4318
LOOPBACK = "127.0.0.1"
MAX_WAITING = 64 * 1024 * 1024
"""Bytes of requests that are read or wait; whoever comes then is asked to come again."""
READ_S = 30.0
"""For the body of one request: whoever drips must not keep others out."""
_TICK_S = 0.5
_TIDY_EVERY = 120
_WRITING_S = 10.0
"""At the end: for what has come whole, until it is on disk."""
_SENDING_S = 1.0
"""At the end: for what is still being sent or answered; then it is dropped, and was never acknowledged."""


class Server:
    """Takes exports for a desk until it is told to end."""

    def __init__(self, desk: Desk, *, on_tick: Callable[[], None] = lambda: None) -> None:
        self._desk = desk
        self._on_tick = on_tick
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="replaykit-receiver")
        self._reserved = 0
        self._writing: set[asyncio.Future[Reply]] = set()
        self._ending = asyncio.Event()

    async def serve(self, host: str, port: int, on_ready: Callable[[str], None]) -> None:
        """Listen until `end`, SIGINT or SIGTERM; then finish what has come."""
        runner = web.AppRunner(
            self._app(), access_log=None, logger=_log(), auto_decompress=False, shutdown_timeout=_SENDING_S
        )
        await runner.setup()
        try:
            site = web.TCPSite(runner, host, port)
            await _start(site, host, port)
            self._take_signals()
            on_ready(f"http://{_shown(host)}:{_port_of(runner)}")
            await self._settle_until_the_end()
        finally:
            await runner.cleanup()
            await self._in_thread(self._desk.finish)
            self._thread.shutdown()

    def end(self) -> None:
        """Stop taking requests, and finish."""
        self._ending.set()

    async def handle(self, request: web.Request) -> web.Response:
        """One export."""
        content_type = request.content_type
        try:
            reply = await self._answered(request, Signal(request.path.rpartition("/")[2]))
        except Refused as error:
            reply = http.refused(content_type, error.status, str(error))
        except web.HTTPRequestEntityTooLarge:
            reply = http.refused(content_type, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(http.too_large()))
        except web.RequestPayloadError as error:
            reply = http.refused(content_type, HTTPStatus.BAD_REQUEST, f"the body cannot be read: {error}")
        except ConnectionError:  # nobody reads this answer
            reply = http.refused(content_type, HTTPStatus.BAD_REQUEST, "the client hung up")
        return _response(reply)

    async def _answered(self, request: web.Request, what: Signal) -> Reply:
        if self._ending.is_set():
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "the receiver is about to end")
        size = MAX_BODY if request.content_length is None else request.content_length
        if size > MAX_BODY:
            raise http.too_large()
        if self._reserved and self._reserved + size > MAX_WAITING:
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, "too much waits to be written; send it again")
        self._reserved += size
        try:
            export = Request(
                signal=what,
                body=await _body(request),
                content_type=request.content_type,
                encoding=request.headers.get("content-encoding", "").strip().lower(),
            )
            writing = self._in_thread(lambda: self._desk.take(export))
            self._writing.add(writing)
            writing.add_done_callback(self._writing.discard)
            return await writing
        finally:
            self._reserved -= size

    async def _settle_until_the_end(self) -> None:
        ticks = 0
        while not self._ending.is_set():
            if ticks % _TIDY_EVERY == 0:
                await self._in_thread(self._desk.tidy)
            ticks += 1
            while await self._in_thread(lambda: self._desk.settle(limit=10)) and not self._ending.is_set():
                pass  # in small pieces: requests come in between
            self._on_tick()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), _TICK_S)

    async def _write_all(self, _app: web.Application) -> None:
        """Nobody listens any more: what has come whole is written, and its senders are answered."""
        if self._writing:
            await asyncio.wait(self._writing, timeout=_WRITING_S)

    def _in_thread(self, work: Callable[[], _T]) -> asyncio.Future[_T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _take_signals(self) -> None:
        """The first signal ends the receiver in good order, the second one at once."""
        loop = asyncio.get_running_loop()

        def told(number: signal.Signals) -> None:
            loop.remove_signal_handler(number)
            self.end()

        with suppress(NotImplementedError, RuntimeError, ValueError):  # not the main thread: a test, say
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, told, number)

    def _app(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_post("/v1/traces", self.handle, expect_handler=_expect)
        app.router.add_post("/v1/logs", self.handle, expect_handler=_expect)
        app.router.add_post("/v1/metrics", _no_metrics)
        app.router.add_get("/healthz", self._health)
        app.on_shutdown.append(self._write_all)
        return app

    async def _health(self, _request: web.Request) -> web.Response:
        return web.json_response({"status": "ending" if self._ending.is_set() else "ok"})


async def _expect(request: web.Request) -> None:
    """As aiohttp does it, but without the header's own bytes in the answer: they may be no text."""
    if request.headers.get("expect", "").lower() != "100-continue":
        raise web.HTTPExpectationFailed(text="the only thing to expect is 100-continue")
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0


def _log() -> logging.Logger:
    """What the server's own faults are told to; what clients do wrong is in their answers."""
    log = logging.getLogger("replaykit.receiver")
    log.addFilter(_is_ours)
    return log


def _is_ours(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError | ConnectionError)


async def _body(request: web.Request) -> bytes:
    try:
        async with asyncio.timeout(READ_S):
            return await request.read()
    except TimeoutError:
        raise Refused(HTTPStatus.REQUEST_TIMEOUT, f"the body did not come within {READ_S:g} s") from None


async def _no_metrics(request: web.Request) -> web.Response:
    told = "metrics are not taken; turn them off where they are made: OTEL_METRICS_EXPORTER=none"
    return _response(http.refused(request.content_type, HTTPStatus.NOT_FOUND, told))


def _response(reply: Reply) -> web.Response:
    headers = {} if reply.retry_after_s is None else {"Retry-After": str(reply.retry_after_s)}
    return web.Response(status=reply.status, body=reply.body, content_type=reply.content_type, headers=headers)


async def _start(site: web.TCPSite, host: str, port: int) -> None:
    try:
        await site.start()
    except OSError as error:
        hint = "Another port: --port 0 takes a free one."
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror or error}", hint=hint) from None


def _port_of(runner: web.AppRunner) -> int:
    return int(runner.addresses[0][1])


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
