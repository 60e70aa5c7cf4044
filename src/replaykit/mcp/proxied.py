"""The MCP servers of a configuration, as the proxy answers for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from urllib.parse import urlsplit

from aiohttp import web

from replaykit.mcp.backstage import Backstage
from replaykit.mcp.config import HttpServer
from replaykit.mcp.http import McpEndpoint
from replaykit.mcp.joining import asks_servers
from replaykit.mcp.relay import Upstream
from replaykit.mcp.serving import hand_over, is_from_here, reply_of, upstream_of
from replaykit.programs.access import base_address
from replaykit.programs.handing import drop
from replaykit.programs.part import Part, own_calls
from replaykit.programs.plan import Mode, Plan
from replaykit.programs.props import Ask
from replaykit.programs.refusal import FORBIDDEN, Refused
from replaykit.replayer.world import World
from replaykit.seam.http.request import HttpRequest
from replaykit.seam.http.response import header_pairs


def endpoints_of(
    servers: Iterable[HttpServer], part: Part, plan: Plan, world: World | None, upstream: Upstream
) -> dict[str, McpEndpoint]:
    """An endpoint for each server, by the name of its upstream; in the replay of a recording none of them is real."""
    real = upstream if asks_servers(plan, world) else None
    recorded = [] if world is None else list(own_calls(world, part.name))
    found = list(servers)
    # Servers of one name are one server in a recording, wherever they are.
    backstages = {name: Backstage(name, recorded, part.tell) for name in {server.name for server in found}}
    return {
        server.upstream: McpEndpoint(
            server.name,
            part.session,
            upstream=real,
            backstage=backstages[server.name],
            lead=_led_to(f"{base_address('', plan.token)}/{server.upstream}"),
            as_sent=plan.mode is Mode.RECORD,
        )
        for server in found
    }


def answering(
    servers: Sequence[HttpServer], part: Part, plan: Plan, world: World | None, ask: Ask
) -> dict[str, Proxied]:
    """Who answers for the servers, by the names of their upstreams."""
    upstream = upstream_of(ask)
    endpoints = endpoints_of(servers, part, plan, world, upstream)
    return {server.upstream: Proxied(endpoints[server.upstream], server.path, upstream) for server in servers}


class Proxied:
    """One server, answered for by the proxy."""

    def __init__(self, endpoint: McpEndpoint, path: str, upstream: Upstream) -> None:
        self._endpoint = endpoint
        self._path = path
        self._upstream = upstream

    async def answer(self, request: web.BaseRequest, url: str) -> web.StreamResponse:
        """The response to a request; `url` is the server's own."""
        if not is_from_here(request):
            raise Refused(FORBIDDEN, "this proxy answers to its own machine only")
        asked = HttpRequest(
            method=request.method,
            url=url,
            headers=header_pairs(request.raw_headers),
            body=await request.content.read(),
        )
        try:
            reply = await reply_of(self._endpoint, asked, self._path, self._upstream)
        except OSError:  # a server that is not there is told as that, and by no status that nobody sent
            return drop(request)
        return await hand_over(request, reply)

    def end(self) -> None:
        """What is under way stays without an answer."""
        self._endpoint.end()


def _led_to(place: str) -> Callable[[str], str]:
    def lead(url: str) -> str:
        parts = urlsplit(url)
        return f"{place}{parts.path}{'?' if parts.query else ''}{parts.query}"

    return lead
