"""The MCP servers of a configuration, as the proxy answers for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from urllib.parse import urlsplit

from replaykit.mcp.backstage import Backstage
from replaykit.mcp.config import HttpServer
from replaykit.mcp.http import McpEndpoint
from replaykit.mcp.relay import Upstream
from replaykit.programs.part import Part, own_calls
from replaykit.programs.plan import Mode, Plan
from replaykit.replayer.world import World


def endpoints_of(
    servers: Iterable[HttpServer], part: Part, plan: Plan, world: World | None, upstream: Upstream
) -> dict[str, McpEndpoint]:
    """An endpoint for each server, by the name of its upstream; in a replay none of them is real.

    A request to one is handed to `answer` with the server's own URL (`naming.address_behind`), and the reply to
    `serving.hand_over`.
    """
    real = upstream if plan.mode is Mode.RECORD else None
    recorded = [] if world is None else list(own_calls(world, part.name))
    return {
        server.upstream: McpEndpoint(
            server.name,
            part.session,
            upstream=real,
            backstage=Backstage(server.name, recorded, part.tell),
            lead=_led_to(server.upstream),
        )
        for server in servers
    }


def _led_to(upstream: str) -> Callable[[str], str]:
    def lead(url: str) -> str:
        parts = urlsplit(url)
        return f"/{upstream}{parts.path}{'?' if parts.query else ''}{parts.query}"

    return lead
