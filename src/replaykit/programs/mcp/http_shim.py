"""MCP servers over HTTP: a loopback server in front of one, or endpoints of the proxy."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from functools import partial
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web
from msgspec import Struct
from yarl import URL

from replaykit.handlers.replay.world import World
from replaykit.programs.launch_options import SendRequest
from replaykit.programs.mcp.config import HttpServer
from replaykit.programs.mcp.http_endpoint import McpEndpoint, path_below, speaks_mcp
from replaykit.programs.mcp.http_relay import SendToServer
from replaykit.programs.mcp.http_replies import McpReply, empty_reply
from replaykit.programs.mcp.playback import RecordedServer
from replaykit.programs.mcp.shim_session import asks_servers
from replaykit.programs.plan import Mode, ProgramPlan
from replaykit.programs.process_log import ProcessLog, calls_of_process
from replaykit.programs.proxy_addresses import base_address, end_to_end_headers
from replaykit.programs.proxy_responses import aiohttp_headers, drop_connection
from replaykit.programs.proxy_routing import FORBIDDEN, ProxyRefusal
from replaykit.programs.upstream_client import UpstreamClient, UpstreamResponse
from replaykit.seam.http.request import HttpRequest
from replaykit.seam.http.response import header_pairs

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_LARGEST = 1 << 30
_MADE_ANEW = ("content-length", "accept-encoding")
_SAME_AGAIN = (307, 308)  # redirects that repeat the request
_STEPS = 5


def server_sender(do: SendRequest) -> SendToServer:
    """Return a function that sends requests for real, through `UpstreamClient.send`."""

    async def send(request: HttpRequest) -> McpReply:
        headers = [pair for pair in end_to_end_headers(request.headers) if pair[0].lower() not in _MADE_ANEW]
        url = URL(request.url, encoded=True)
        for steps_left in range(_STEPS, -1, -1):
            try:
                answer = await do(request.method, url, [*headers, ("accept-encoding", "identity")], request.body)
            except aiohttp.ClientError as error:
                raise ConnectionError(str(error)) from error
            # The client would refuse to follow: for it, the redirect leads to another server.
            onward = _redirect_target(url, answer) if steps_left else None
            if onward is None:
                break
            answer.close()
            url = onward
        own = end_to_end_headers(header_pairs(answer.raw_headers))
        return McpReply(status=answer.status, headers=tuple(own), chunks=_chunks(answer))

    return send


def _redirect_target(url: URL, answer: UpstreamResponse) -> URL | None:
    """Return the address of a redirect within the same server, such as `/mcp` to `/mcp/`; None for any other."""
    place = answer.header(b"location")
    if answer.status not in _SAME_AGAIN or not place:
        return None
    try:
        onward = url.join(URL(place, encoded=True))
        is_within = onward.origin() == url.origin()
    except ValueError:
        return None
    return onward if is_within else None


async def send_reply(request: web.BaseRequest, reply: McpReply) -> web.StreamResponse:
    """Send a reply to the client; if it breaks off, so does the connection."""
    response = web.StreamResponse(status=reply.status or 502, headers=aiohttp_headers(reply.headers))
    try:
        if not reply.status:
            raise ConnectionResetError("the recorded server gave no response")
        await response.prepare(request)
        async for chunk in reply.chunks:
            await response.write(chunk)
        await response.write_eof()
    except OSError:
        if request.transport is not None:
            request.transport.abort()
    finally:
        await reply.chunks.aclose()
    return response


class HttpShim:
    """Answers on loopback for the server at a URL."""

    def __init__(self, url: str, endpoint: Callable[[SendToServer], McpEndpoint]) -> None:
        self._url = urlsplit(url)
        self._make = endpoint

    async def run(self, port: int, ready: Callable[[str], None]) -> None:
        """Serve until a signal ends it; `ready` is called with the URL to use instead of the server's."""
        stopped = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        await self.serve(port, ready, stopped)

    async def serve(self, port: int, ready: Callable[[str], None], stopped: asyncio.Event) -> None:
        """Serve until `stopped` is set."""
        app = web.Application(client_max_size=_LARGEST)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # Without cancellation, a client that leaves a silent stream would go unnoticed.
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        upstreams = UpstreamClient()
        self._upstream = server_sender(upstreams.send)
        self._endpoint = self._make(self._upstream)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", port).start()
            query = f"?{self._url.query}" if self._url.query else ""
            ready(f"http://127.0.0.1:{runner.addresses[0][1]}{self._url.path}{query}")
            await stopped.wait()
        finally:
            await runner.cleanup()
            self._endpoint.end()
            await upstreams.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if not is_local_request(request):
            return web.Response(status=403, text="only for programs on this machine")
        http_request = HttpRequest(
            method=request.method,
            url=f"{self._url.scheme}://{self._url.netloc}{request.raw_path}",
            headers=tuple(request.headers.items()),
            body=await request.read(),
        )
        try:
            reply = await route_request(self._endpoint, http_request, self._url.path, self._upstream)
        except OSError as error:
            place = self._url.netloc.rpartition("@")[2]
            return web.Response(status=502, text=f"{place} cannot be reached: {error}")
        return await send_reply(request, reply)


async def route_request(endpoint: McpEndpoint, request: HttpRequest, path: str, upstream: SendToServer) -> McpReply:
    """Return the reply to a request to a server with MCP at this path, and maybe other pages."""
    if urlsplit(request.url).path == path or speaks_mcp(request) or endpoint.knows(request):
        return await endpoint.answer(request)
    # Other pages, such as those for a token, are not recorded, and a replay needs none.
    if endpoint.has_server:
        return await upstream(request)
    return empty_reply(404)


async def _chunks(answer: UpstreamResponse) -> AsyncGenerator[bytes, None]:
    try:
        async for chunk in answer.content.iter_any():
            yield chunk
    except aiohttp.ClientError as error:
        raise ConnectionError(str(error)) from error
    finally:
        answer.close()


def is_local_request(request: web.BaseRequest) -> bool:
    """Refuse pages in a browser: they can post to loopback, but not under one of its names."""
    origin = request.headers.get("origin")
    hosts = [urlsplit(f"//{request.host}").hostname, urlsplit(origin).hostname if origin else "localhost"]
    return all(host in _LOOPBACK for host in hosts)


def endpoints_of(
    servers: Iterable[HttpServer],
    process_log: ProcessLog,
    plan: ProgramPlan,
    world: World | None,
    upstream: SendToServer,
) -> dict[str, McpEndpoint]:
    """Return an endpoint for each server, by upstream; a replay of a recording asks no real server."""
    real = upstream if asks_servers(plan, world) else None
    recorded = [] if world is None else calls_of_process(world, process_log.name)
    recorded_servers: dict[str, RecordedServer] = {}
    endpoints = {}
    for server in servers:
        # A recording knows servers by name, wherever they are.
        if server.name not in recorded_servers:
            recorded_servers[server.name] = RecordedServer(server.name, recorded, process_log.add_deviation)
        endpoints[server.upstream] = McpEndpoint(
            server.name,
            process_log.session,
            upstream=real,
            recorded_server=recorded_servers[server.name],
            map_address=partial(path_below, place=f"{base_address('', plan.token)}/{server.upstream}"),
            as_sent=plan.mode is Mode.RECORD,
        )
    return endpoints


def proxied_servers(
    servers: Sequence[HttpServer], process_log: ProcessLog, plan: ProgramPlan, world: World | None, ask: SendRequest
) -> dict[str, ProxiedServer]:
    """Return the endpoints that answer for the servers, by the names of their upstreams."""
    upstream = server_sender(ask)
    endpoints = endpoints_of(servers, process_log, plan, world, upstream)
    return {server.upstream: ProxiedServer(endpoints[server.upstream], server.path, upstream) for server in servers}


class ProxiedServer(Struct):
    """One server behind the proxy."""

    _endpoint: McpEndpoint
    _path: str
    _upstream: SendToServer

    async def answer(self, request: web.BaseRequest, url: str) -> web.StreamResponse:
        """Answer a request; `url` is the server's own."""
        if not is_local_request(request):
            raise ProxyRefusal(FORBIDDEN, "this proxy answers to its own machine only")
        http_request = HttpRequest(
            method=request.method,
            url=url,
            headers=header_pairs(request.raw_headers),
            body=await request.content.read(),
        )
        try:
            reply = await route_request(self._endpoint, http_request, self._path, self._upstream)
        except OSError:  # the client sees a dropped connection, not a status that nobody sent
            return drop_connection(request)
        return await send_reply(request, reply)

    def end(self) -> None:
        """End pending requests without an answer."""
        self._endpoint.end()
