"""Guards of the HTTP servers on this machine: who may ask by which name, and how long a request may take to begin."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Callable, Collection
from typing import TypeVar
from urllib.parse import urlsplit

_P = TypeVar("_P", bound=asyncio.BaseProtocol)


class HeadDeadline:
    """Closes connections on which no whole head of a request has come in time: whoever drips must not stay."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._timers: dict[asyncio.BaseProtocol, asyncio.TimerHandle] = {}

    def watched(self, factory: Callable[[], _P]) -> Callable[[], _P]:
        """Return a factory of protocols whose time runs from the beginning."""

        def make() -> _P:
            protocol = factory()
            loop = asyncio.get_running_loop()
            self._timers[protocol] = loop.call_later(self._limit_s, self._close, protocol)
            return protocol

        return make

    def met(self, protocol: asyncio.BaseProtocol) -> None:
        """Take note that a whole head has come."""
        timer = self._timers.pop(protocol, None)
        if timer is not None:
            timer.cancel()

    def _close(self, protocol: asyncio.BaseProtocol) -> None:
        self._timers.pop(protocol, None)
        transport = getattr(protocol, "transport", None)
        if transport is not None:
            transport.abort()


class AllowedHosts:
    """The names under which a server is asked.

    A page of somebody else's can lead its own name to this machine, and then talk to the server as to itself. It cannot
    do so under a name of this machine, or under an address.
    """

    def __init__(self, names: Collection[str] = ()) -> None:
        self._names = frozenset(name.lower().rstrip(".") for name in names)

    def refusal(self, host: str | None, origin: str | None) -> str:
        """Return why a request with these headers is refused; nothing when it is not."""
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
