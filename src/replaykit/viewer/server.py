"""The server: documents and the page's own files over HTTP, on loopback, to whoever knows the token.

A page of another origin may send requests here, and a name of its own may lead here (DNS rebinding). It knows neither
the token nor can it hide where it comes from: `Host`, `Origin` and `Sec-Fetch-Site` must be this server's own. Only the
empty page, without any document, also opens from elsewhere.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import secrets
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from typing import TypeVar

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler

from replaykit.errors import ReplayKitError, RunNotFound, UsageError
from replaykit.http_server import HeadDeadline
from replaykit.model.values import sayable
from replaykit.viewer.documents import Documents
from replaykit.viewer.forks import PageForks
from replaykit.viewer.modules import STATIC
from replaykit.viewer.page_types import PageProblem

_T = TypeVar("_T")
HOST = "127.0.0.1"
HEAD_S = 20.0
_IDLE_S = 75.0
_SENDING_S = 1.0
_POLL_S = 0.25
_MAX_REQUEST_BYTES = 1 << 20
_THREADS = 4
_STATIC_NAME = re.compile(r"[a-z0-9_-]+\.(?:js|css|svg)")
_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".html": "text/html"}
_POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "connect-src": "'self'",
    "img-src": "'self' data:",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
    "require-trusted-types-for": "'script'",
    "trusted-types": "'none'",
}
_HEADERS = {
    "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in _POLICY.items()),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_encode = msgspec.json.Encoder().encode


class ViewerServer:
    """Serves documents until it is told to end."""

    def __init__(self, documents: Documents, forks: PageForks | None = None) -> None:
        self._documents = documents
        self._forks = forks
        self.token = secrets.token_urlsafe(24)
        self._deadline = HeadDeadline(HEAD_S)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="replaykit-viewer")
        self._ending = asyncio.Event()
        self._hosts: frozenset[str] = frozenset()

    async def serve(self, port: int, on_ready: Callable[[str], None]) -> None:
        """Listen until `end`, SIGINT or SIGTERM; `on_ready` gets the address of the page."""
        runner = web.AppRunner(
            self._app(), access_log=None, logger=_log(), shutdown_timeout=_SENDING_S, keepalive_timeout=_IDLE_S
        )
        await runner.setup()
        listening: asyncio.Server | None = None
        try:
            listening = await self._listen(runner, port)
            port = listening.sockets[0].getsockname()[1]
            self._hosts = frozenset((f"{HOST}:{port}", f"localhost:{port}"))
            self._take_signals()
            on_ready(f"http://{HOST}:{port}/{self.token}/")
            await self._ending.wait()
        finally:
            self._ending.set()
            if listening is not None:
                listening.close()
            await runner.cleanup()
            self._threads.shutdown(cancel_futures=True)

    def end(self) -> None:
        """End the server."""
        self._ending.set()

    async def _listen(self, runner: web.AppRunner, port: int) -> asyncio.Server:
        assert runner.server is not None
        factory = self._deadline.watched(runner.server)
        try:
            return await asyncio.get_running_loop().create_server(factory, HOST, port)
        except OSError as error:
            hint = "Another port: --port 0 takes a free one."
            raise UsageError(f"cannot listen on {HOST}:{port}: {error.strerror or error}", hint=hint) from None

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
        app = web.Application(middlewares=[self._guarded], client_max_size=_MAX_REQUEST_BYTES)
        for path, handler in {
            "": self._index,
            "static/{name}": self._static,
            "api/home": self._home,
            "api/run/{run}": self._run,
            "api/run/{run}/rows": self._rows,
            "api/run/{run}/event/{seq}": self._event,
            "api/run/{run}/state/{seq}": self._state,
            "api/run/{run}/find": self._find,
            "api/run/{run}/ungrounded": self._ungrounded,
            "api/run/{run}/family": self._family,
            "api/compare/{a}/{b}": self._compare,
            "api/replay/{name}": self._replay,
            "api/case/{name}": self._case,
            "api/suite/{name}": self._suite,
            "api/suite/{name}/item/{seq}": self._suite_item,
        }.items():
            app.router.add_get(f"/{{token}}/{path}", handler)
        app.router.add_post("/{token}/api/fork", self._fork)
        app.on_response_prepare.append(_add_headers)
        return app

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer only requests of this server's own pages and of people who were given its address."""
        self._deadline.met(request.protocol)
        if not self._is_own(request):
            return _problem(HTTPStatus.FORBIDDEN, "open the address that replaykit view prints")
        try:
            return await handler(request)
        except web.HTTPException as error:
            return _problem(HTTPStatus(error.status), error.reason)
        except (RunNotFound, UsageError) as error:
            return _problem(HTTPStatus.NOT_FOUND, error.message, error.hint)
        except ReplayKitError as error:
            return _problem(HTTPStatus.INTERNAL_SERVER_ERROR, error.message, error.hint)

    def _is_own(self, request: web.Request) -> bool:
        _, _, path = request.raw_path.partition("/")
        token = re.split(r"[/?]", path, maxsplit=1)[0].encode("utf-8", "surrogateescape")
        origin = request.headers.get("origin")
        return (
            hmac.compare_digest(token, self.token.encode())
            and request.headers.get("host") in self._hosts
            and (origin is None or origin.removeprefix("http://") in self._hosts)
            and (request.headers.get("sec-fetch-site", "none") in ("none", "same-origin") or self._opens_page(request))
        )

    def _opens_page(self, request: web.Request) -> bool:
        """Return whether a browser opens the page itself in a tab, which the file that `view` starts it with does."""
        is_navigation = request.headers.get("sec-fetch-mode") == "navigate"
        is_tab = request.headers.get("sec-fetch-dest") == "document"
        return is_navigation and is_tab and request.path == f"/{self.token}/"

    async def _index(self, _request: web.Request) -> web.StreamResponse:
        return await self._file("index.html")

    async def _static(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if _STATIC_NAME.fullmatch(name) is None:
            raise web.HTTPNotFound
        return await self._file(name)

    async def _file(self, name: str) -> web.Response:
        file = STATIC / name
        try:
            body = await self._in_thread(file.read_bytes)
        except FileNotFoundError:
            raise web.HTTPNotFound from None
        return web.Response(body=body, content_type=_TYPES[file.suffix], charset="utf-8")

    async def _home(self, request: web.Request) -> web.Response:
        query = request.query
        arguments = query.get("q", ""), query.get("status", ""), query.get("before", "")
        return _json(await self._in_thread(lambda: self._documents.home(*arguments)))

    async def _run(self, request: web.Request) -> web.Response:
        address = request.match_info["run"]
        return _json(await self._in_thread(lambda: self._documents.run_page(address)))

    async def _rows(self, request: web.Request) -> web.StreamResponse:
        """Stream the rows of a run; stay while it is being recorded."""
        address = request.match_info["run"]
        spool = await self._in_thread(lambda: self._documents.spool(address))
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson; charset=utf-8"})
        await response.prepare(request)
        offset, is_last = 0, False
        with suppress(ConnectionError):  # the page was closed
            while not is_last and not self._ending.is_set() and not _is_gone(request):
                data, is_last = await self._in_thread(lambda: spool.rows(offset))  # noqa: B023 (awaited at once)
                offset += len(data)
                if data:
                    await response.write(data)
                elif not is_last:
                    await self._pause()
            await response.write_eof()
        return response

    async def _pause(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ending.wait(), _POLL_S)

    async def _event(self, request: web.Request) -> web.Response:
        address, seq = request.match_info["run"], _seq_in(request)
        return _json_text(await self._in_thread(lambda: self._documents.spool(address).event_json(seq)))

    async def _state(self, request: web.Request) -> web.Response:
        address, seq = request.match_info["run"], _seq_in(request)
        return _json(await self._in_thread(lambda: self._documents.spool(address).state(seq)))

    async def _find(self, request: web.Request) -> web.Response:
        address, text = request.match_info["run"], request.query.get("text", "")
        return _json(await self._in_thread(lambda: self._documents.find(address, text)))

    async def _ungrounded(self, request: web.Request) -> web.Response:
        address = request.match_info["run"]
        return _json(await self._in_thread(lambda: self._documents.ungrounded(address)))

    async def _family(self, request: web.Request) -> web.Response:
        address = request.match_info["run"]
        return _json(await self._in_thread(lambda: self._documents.family(address)))

    async def _compare(self, request: web.Request) -> web.Response:
        a, b = request.match_info["a"], request.match_info["b"]
        return _json(await self._in_thread(lambda: self._documents.compare(a, b)))

    async def _replay(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        return _json(await self._in_thread(lambda: self._documents.evidence.replay_page(name)))

    async def _case(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        return _json(await self._in_thread(lambda: self._documents.evidence.case_page(name)))

    async def _suite(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        return _json_text(await self._in_thread(lambda: _encode(self._documents.suite(name).page)))

    async def _suite_item(self, request: web.Request) -> web.Response:
        name, index = request.match_info["name"], _seq_in(request)
        return _json_text(await self._in_thread(lambda: self._documents.suite(name).item_json(index)))

    async def _fork(self, request: web.Request) -> web.Response:
        if self._forks is None:
            raise UsageError("no agent is known to fork with", hint="Start it with one: --agent MODULE:FUNCTION")
        # A form of another page can send neither this type nor this server's own origin.
        if request.content_type != "application/json" or "origin" not in request.headers:
            raise web.HTTPForbidden
        return _json_text(await self._forks.fork(await request.read()))

    def _in_thread(self, work: Callable[[], _T]) -> asyncio.Future[_T]:
        return asyncio.get_running_loop().run_in_executor(self._threads, work)


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_HEADERS)


def _json(value: object) -> web.Response:
    return _json_text(_encode(value))


def _json_text(text: bytes) -> web.Response:
    return web.Response(body=text, content_type="application/json", charset="utf-8")


def _problem(status: HTTPStatus, message: str, hint: str | None = None) -> web.Response:
    body = _encode(PageProblem(problem=sayable(message), hint=sayable(hint or "")))
    return web.Response(status=status, body=body, content_type="application/json", charset="utf-8")


def _seq_in(request: web.Request) -> int:
    word = request.match_info["seq"]
    if not re.fullmatch(r"\d{1,15}", word, re.ASCII):
        raise web.HTTPNotFound
    return int(word)


def _is_gone(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


def _log() -> logging.Logger:
    """Return the logger of the server's own faults; clients get theirs in responses."""
    log = logging.getLogger("replaykit.viewer")
    log.addFilter(_is_ours)
    return log


def _is_ours(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError | ConnectionError)
