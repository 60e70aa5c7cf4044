"""The server: OTLP over HTTP. Two threads parse, one writes, and the requests that wait have a memory limit."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from typing import TypeVar

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

from replaykit.errors import UsageError
from replaykit.formats.spans.span import SpanReading
from replaykit.http_server import AllowedHosts, HeadDeadline
from replaykit.intake.receiver import otlp_http
from replaykit.intake.receiver.otlp_http import MAX_BODY, ExportRefused, ExportReply, ExportRequest, Signal
from replaykit.intake.receiver.trace_processor import TraceProcessor

_T = TypeVar("_T")
DEFAULT_PORT = 4318
MAX_WAITING = 64 * 1024 * 1024
"""Bytes of the requests that are read or wait; beyond that, clients are asked to retry."""
READ_S = 30.0
"""The time for the body of a request: a slow client must not block others."""
HEAD_S = 20.0
"""The time for the head of the first request on a connection."""
_IDLE_S = 75.0
_LIGHT_BYTES = 1024 * 1024
_TICK_S = 0.5
_TIDY_EVERY = 120
# The time at the end for complete requests to reach the disk.
_WRITING_S = 10.0
# The time at the end for requests and replies in transit; the rest is dropped, and was never acknowledged.
_SENDING_S = 1.0


class Server:
    """Receives exports for a trace processor until it is told to end."""

    def __init__(
        self, desk: TraceProcessor, *, on_tick: Callable[[], None] = lambda: None, allowed_hosts: Collection[str] = ()
    ) -> None:
        self._desk = desk
        self._hosts = AllowedHosts(allowed_hosts)
        self._deadline = HeadDeadline(HEAD_S)
        self._on_tick = on_tick
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="replaykit-receiver")
        self._readers = ThreadPoolExecutor(2, thread_name_prefix="replaykit-reader")
        self._heavy, self._light = asyncio.Lock(), asyncio.Lock()
        self._reserved = 0
        self._writing: set[asyncio.Future[ExportReply]] = set()
        self._ending = asyncio.Event()

    async def serve(self, host: str, port: int, on_ready: Callable[[str], None]) -> None:
        """Listen until `end`, SIGINT or SIGTERM; then finish the requests that have arrived."""
        runner = web.AppRunner(
            self._app(),
            access_log=None,
            logger=_log(),
            auto_decompress=False,
            shutdown_timeout=_SENDING_S,
            keepalive_timeout=_IDLE_S,
        )
        await runner.setup()
        listening: asyncio.Server | None = None
        try:
            listening = await self._listen(runner, host, port)
            self._take_signals()
            on_ready(f"http://{_shown(host)}:{listening.sockets[0].getsockname()[1]}")
            await self._settle_until_the_end()
        finally:
            if listening is not None:
                listening.close()
            await runner.cleanup()
            await self._in_thread(self._desk.finish)
            self._thread.shutdown()
            self._readers.shutdown()

    async def _listen(self, runner: web.AppRunner, host: str, port: int) -> asyncio.Server:
        assert runner.server is not None
        factory = self._deadline.watched(runner.server)
        try:
            return await asyncio.get_running_loop().create_server(factory, host, port)
        except OSError as error:
            hint = "Another port: --port 0 takes a free one."
            raise UsageError(f"cannot listen on {host}:{port}: {error.strerror or error}", hint=hint) from None

    def end(self) -> None:
        """Refuse new requests, and finish."""
        self._ending.set()

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one export."""
        content_type = request.content_type
        try:
            reply = await self._answered(request, Signal(request.path.rpartition("/")[2]))
        except ExportRefused as error:
            reply = otlp_http.refused(content_type, error.status, str(error))
        except web.HTTPRequestEntityTooLarge:
            reply = otlp_http.refused(content_type, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(otlp_http.too_large()))
        except web.RequestPayloadError as error:
            reply = otlp_http.refused(content_type, HTTPStatus.BAD_REQUEST, f"the body cannot be read: {error}")
        except ConnectionError:  # the client is gone, but aiohttp expects a response
            reply = otlp_http.refused(content_type, HTTPStatus.BAD_REQUEST, "the client hung up")
        return _response(reply)

    async def _answered(self, request: web.Request, what: Signal) -> ExportReply:
        if self._ending.is_set():
            raise ExportRefused(HTTPStatus.SERVICE_UNAVAILABLE, "the receiver is about to end")
        size = request.content_length
        if size is None:
            size = MAX_BODY
        if size > MAX_BODY:
            raise otlp_http.too_large()
        if self._reserved and self._reserved + size > MAX_WAITING:
            raise ExportRefused(
                HTTPStatus.TOO_MANY_REQUESTS, "too many spans are waiting to be written; send them again"
            )
        self._reserved += size
        try:
            export = ExportRequest(
                signal=what,
                body=await _body(request),
                content_type=request.content_type,
                encoding=request.headers.get("content-encoding", "").strip().lower(),
            )
            taking = asyncio.ensure_future(self._taken(export))
            self._writing.add(taking)
            taking.add_done_callback(self._writing.discard)
            return await taking
        finally:
            self._reserved -= size

    async def _taken(self, export: ExportRequest) -> ExportReply:
        """Parse a request, then write it. Parsing has threads of its own, so that it does not hold up writing.

        Only one large request is parsed at a time, to limit memory; small ones do not wait for it.
        """
        is_heavy = export.encoding not in ("", "identity") or len(export.body) > _LIGHT_BYTES
        async with self._heavy if is_heavy else self._light:
            reading = await asyncio.get_running_loop().run_in_executor(self._readers, _read, export)
            if isinstance(reading, ExportRefused):
                return await self._in_thread(lambda: self._desk.refuse(export, reading))
            return await self._in_thread(lambda: self._desk.keep(export, reading))

    async def _settle_until_the_end(self) -> None:
        ticks = 0
        while not self._ending.is_set():
            if ticks % _TIDY_EVERY == 0:
                await self._in_thread(self._desk.tidy)
            ticks += 1
            while await self._in_thread(lambda: self._desk.settle(limit=10)) and not self._ending.is_set():
                pass  # in small portions, so that requests get their turn
            self._on_tick()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), _TICK_S)

    async def _write_all(self, _app: web.Application) -> None:
        """Write the requests that have arrived, and answer them; called when nobody listens any more."""
        if self._writing:
            await asyncio.wait(self._writing, timeout=_WRITING_S)

    def _in_thread(self, work: Callable[[], _T]) -> asyncio.Future[_T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _take_signals(self) -> None:
        """End in good order on the first signal, and at once on the second."""
        loop = asyncio.get_running_loop()

        def stop(number: signal.Signals) -> None:
            loop.remove_signal_handler(number)
            self.end()

        with suppress(NotImplementedError, RuntimeError, ValueError):  # not in the main thread, as in a test
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, stop, number)

    def _app(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY, middlewares=[self._admitted])
        app.router.add_post("/v1/traces", self.handle, expect_handler=_expect)
        app.router.add_post("/v1/logs", self.handle, expect_handler=_expect)
        app.router.add_post("/v1/metrics", _no_metrics)
        app.router.add_get("/healthz", self._health)
        app.on_shutdown.append(self._write_all)
        return app

    @web.middleware
    async def _admitted(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer only requests under a name of this server, which stops DNS rebinding."""
        self._deadline.met(request.protocol)
        problem = self._hosts.refusal(request.headers.get("host"), request.headers.get("origin"))
        if problem:
            refusal = f"{problem}; allow it: replaykit serve --allow-host NAME"
            return _response(otlp_http.refused(request.content_type, HTTPStatus.FORBIDDEN, refusal))
        return await handler(request)

    async def _health(self, _request: web.Request) -> web.Response:
        return web.json_response({"status": "ending" if self._ending.is_set() else "ok"})


async def _expect(request: web.Request) -> None:
    """Do what aiohttp does, but without echoing the header, whose bytes may not be valid text."""
    if request.headers.get("expect", "").lower() != "100-continue":
        raise web.HTTPExpectationFailed(text="the only supported Expect header is 100-continue")
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0


def _log() -> logging.Logger:
    """Return the logger of the server's own faults; clients get theirs in responses."""
    log = logging.getLogger("replaykit.intake.receiver")
    log.addFilter(_is_ours)
    return log


def _is_ours(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError | ConnectionError)


def _read(export: ExportRequest) -> SpanReading | ExportRefused:
    """Read the spans of a request, or return the refusal. A fresh error, because the original one's traceback holds all
    unpacked data."""
    try:
        return otlp_http.read(export)
    except ExportRefused as error:
        return ExportRefused(error.status, str(error))


async def _body(request: web.Request) -> bytes:
    try:
        async with asyncio.timeout(READ_S):
            return await request.read()
    except TimeoutError:
        raise ExportRefused(HTTPStatus.REQUEST_TIMEOUT, f"the body did not arrive within {READ_S:g} s") from None


async def _no_metrics(request: web.Request) -> web.Response:
    problem = "metrics are not accepted; turn them off in the sender: OTEL_METRICS_EXPORTER=none"
    return _response(otlp_http.refused(request.content_type, HTTPStatus.NOT_FOUND, problem))


def _response(reply: ExportReply) -> web.Response:
    headers = {}
    if reply.retry_after_s is not None:
        headers = {"Retry-After": str(reply.retry_after_s)}
    return web.Response(status=reply.status, body=reply.body, content_type=reply.content_type, headers=headers)


def _shown(host: str) -> str:
    if ":" in host:
        return f"[{host}]"
    return host
