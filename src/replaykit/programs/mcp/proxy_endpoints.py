"""The MCP servers of a configuration, as the proxy answers for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from urllib.parse import urlsplit

from aiohttp import web

from replaykit.handlers.replay.world import World
from replaykit.programs.launch_extension import SendRequest
from replaykit.programs.mcp.config import HttpServer
from replaykit.programs.mcp.http_endpoint import McpEndpoint
from replaykit.programs.mcp.http_relay import SendToServer
from replaykit.programs.mcp.http_shim import is_local_request, route_request, send_reply, server_sender
from replaykit.programs.mcp.recorded_server import RecordedServer
from replaykit.programs.mcp.shim_session import asks_servers
from replaykit.programs.plan import Mode, ProgramPlan
from replaykit.programs.process_log import ProcessLog, calls_of_process
from replaykit.programs.proxy_access import base_address
from replaykit.programs.proxy_errors import FORBIDDEN, ProxyRefusal
from replaykit.programs.proxy_responses import drop_connection
from replaykit.seam.http.request import HttpRequest
from replaykit.seam.http.response import header_pairs


def endpoints_of(
    servers: Iterable[HttpServer],
    process_log: ProcessLog,
    plan: ProgramPlan,
    world: World | None,
    upstream: SendToServer,
) -> dict[str, McpEndpoint]:
    """An endpoint for each server, by the name of its upstream; in the replay of a recording none of them is real."""
    real = upstream if asks_servers(plan, world) else None
    recorded = [] if world is None else list(calls_of_process(world, process_log.name))
    found = list(servers)
    # Servers of one name are one server in a recording, wherever they are.
    recorded_servers = {
        name: RecordedServer(name, recorded, process_log.add_deviation) for name in {server.name for server in found}
    }
    return {
        server.upstream: McpEndpoint(
            server.name,
            process_log.session,
            upstream=real,
            recorded_server=recorded_servers[server.name],
            map_address=_address_mapping(f"{base_address('', plan.token)}/{server.upstream}"),
            as_sent=plan.mode is Mode.RECORD,
        )
        for server in found
    }


def proxied_servers(
    servers: Sequence[HttpServer], process_log: ProcessLog, plan: ProgramPlan, world: World | None, ask: SendRequest
) -> dict[str, ProxiedServer]:
    """Return the endpoints that answer for the servers, by the names of their upstreams."""
    upstream = server_sender(ask)
    endpoints = endpoints_of(servers, process_log, plan, world, upstream)
    return {server.upstream: ProxiedServer(endpoints[server.upstream], server.path, upstream) for server in servers}


class ProxiedServer:
    """One server, answered for by the proxy."""

    def __init__(self, endpoint: McpEndpoint, path: str, upstream: SendToServer) -> None:
        self._endpoint = endpoint
        self._path = path
        self._upstream = upstream

    async def answer(self, request: web.BaseRequest, url: str) -> web.StreamResponse:
        """The response to a request; `url` is the server's own."""
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
        except OSError:  # a server that is not there is told as that, and by no status that nobody sent
            return drop_connection(request)
        return await send_reply(request, reply)

    def end(self) -> None:
        """End requests in progress without an answer."""
        self._endpoint.end()


def _address_mapping(place: str) -> Callable[[str], str]:
    def map_address(url: str) -> str:
        parts = urlsplit(url)
        return f"{place}{parts.path}{'?' if parts.query else ''}{parts.query}"

    return map_address
