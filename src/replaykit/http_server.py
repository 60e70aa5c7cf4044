"""Guards for local HTTP servers: accepted host names, and a time limit for request heads."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Collection
from typing import TypeVar
from urllib.parse import urlsplit

_P = TypeVar("_P", bound=asyncio.BaseProtocol)


class HeadDeadline:
    """Closes connections without a complete request head in time, so that slow clients cannot exhaust the server."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._timers: dict[asyncio.BaseProtocol, asyncio.TimerHandle] = {}

    def watched(self, factory: Callable[[], _P]) -> Callable[[], _P]:
        """Return a protocol factory whose time limit starts with the connection."""

        def make() -> _P:
            protocol = factory()
            loop = asyncio.get_running_loop()
            self._timers[protocol] = loop.call_later(self._limit_s, self._close, protocol)
            return protocol

        return make

    def met(self, protocol: asyncio.BaseProtocol) -> None:
        """Note that a complete head has arrived."""
        timer = self._timers.pop(protocol, None)
        if timer is not None:
            timer.cancel()

    def _close(self, protocol: asyncio.BaseProtocol) -> None:
        self._timers.pop(protocol, None)
        transport = getattr(protocol, "transport", None)
        if transport is not None:
            # close() would first wait for the client to take pending data.
            transport.abort()


class AllowedHosts:
    """The host names that a server accepts.

    A malicious page can resolve its own name to this machine (DNS rebinding) and would then have the same origin as the
    server. It cannot do so with a name of this machine or an IP address.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(name.lower().rstrip(".") for name in names)

    def refusal(self, host: str | None, origin: str | None) -> str:
        """Return why a request with these headers is refused; empty if it is accepted."""
        if host is not None and not self._has(f"//{host}"):
            return f"the host {host[:100]!r} is not one of this server's"
        if origin is not None and not self._has(origin):
            return f"pages of {origin[:100]!r} may not talk to this server"
        return ""

    def _has(self, url: str) -> bool:
        try:
            name = urlsplit(url).hostname
        except ValueError:
            return False
        if not name:
            return False
        name = name.rstrip(".")
        return name in self._names or name == "localhost" or name.endswith(".localhost") or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
