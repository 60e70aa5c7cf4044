"""Error responses of the proxy itself, in the shape that the SDK of the API in use reads as an error."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from replaykit.programs.proxy_access import CHALLENGE
from replaykit.seam.sockets import connected, holders

if TYPE_CHECKING:
    from aiohttp import web

BAD_REQUEST = 400
"""A request that is not HTTP."""
MISS = 409
"""A request that the tape does not hold."""
NOT_HERE = 404
"""A path that leads to no upstream."""
NEEDS_CREDENTIALS = 407
"""A forward proxy that is asked without its credentials."""
FORBIDDEN = 403
"""A request that the proxy does not serve."""


ConnectionEnds = tuple[object, object]
"""The addresses of the other end of a connection and of this one."""


class ProxyRefusal(Exception):
    """A request that is not passed on."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def refusal_response(status: int, message: str, *, kind: str = "replaykit", target: str = "") -> web.Response:
    """The response; `target` is the path that was asked for. It says that trying again is of no use."""
    from aiohttp import web  # noqa: PLC0415 (slow to import)

    text = orjson.dumps(_error_body(status, message, kind, target))
    headers = {"x-should-retry": "false", "x-replaykit": kind}
    if status == NEEDS_CREDENTIALS:
        headers["proxy-authenticate"] = CHALLENGE
    return web.Response(status=status, body=text, content_type="application/json", headers=headers)


def _error_body(status: int, message: str, kind: str, target: str) -> dict[str, object]:
    """One object for all SDKs but one: each reads the members it knows."""
    if "/api/chat" in target or "/api/generate" in target:
        return {"error": message}  # Ollama
    error = {"type": kind, "message": message, "code": kind, "param": None, "status": kind.upper()}
    if ":generateContent" in target or ":streamGenerateContent" in target:
        error["code"] = status  # type: ignore[assignment]
    return {"type": "error", "message": message, "error": error}


def describe_client(ends: ConnectionEnds, agent: str, network: Path | None = None) -> str:
    """Name the program at the other end of a connection: its process where the machine tells, and what it calls itself.

    `network` lists the sockets of a program that has a network of its own.
    """
    name, number = _client_process(ends, network)
    names = [name for name in (f"`{name}` (process {number})" if name else "", agent.partition(" ")[0]) if name]
    return ", ".join(names) or "the program"


def client_program(ends: ConnectionEnds) -> str:
    """The name of the program at the other end of a connection; nothing where the machine does not tell."""
    return _client_process(ends)[0]


def _client_process(ends: ConnectionEnds, network: Path | None = None) -> tuple[str, str]:
    """Name and number of the process at the other end of a loopback connection; nothing where none is found."""
    peer, own = ends
    if not isinstance(peer, tuple) or not isinstance(own, tuple) or len(peer) < 2 or len(own) < 2:
        return "", ""
    sockets = connected(int(peer[1]), int(own[1]), network)
    home = next((home for socket in sockets for home in holders(socket)), None)
    try:
        if home is None:
            return ("", "")
        return ((home / "comm").read_text().strip(), home.name)
    except OSError:  # gone meanwhile
        return "", ""
