"""The program's own servers: what its processes say to each other over this machine's ports is no part of the world.

A server that the program starts is started again in a replay. It is asked for real, and asks models and tools in its
turn, which are served to it. A server that somebody else has started is the world: it is recorded, and served.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from urllib.parse import urlsplit

from replaykit.model.events import AnyEvent, Call, ErrorInfo
from replaykit.programs.plan import SESSION
from replaykit.programs.sockets import can_tell, holders, listeners
from replaykit.seam.guard import is_loopback

OWN = "replaykit.own"
"""Notes of this name, in parts alone, say on which port a process found its own program."""

_FRESH_S = 1.0  # how long it is believed whose a port is: the tables are long on busy machines
_PORTS = {"http": 80, "https": 443}


class OwnPorts:
    """The ports of this machine on which processes of one program listen, as far as the system tells."""

    def __init__(self, session: Path, world: Collection[int] = ()) -> None:
        self._mark = f"{SESSION}={session}".encode()
        self._world = world
        """Ports that are known to be somebody else's."""
        self._believed: dict[int, tuple[float, bool]] = {}

    def is_ours(self, port: int) -> bool:
        """True when nobody but the program listens there."""
        since, ours = self._believed.get(port, (float("-inf"), False))
        if port in self._world or time.monotonic() - since < _FRESH_S:
            return ours
        found = listeners(port)
        ours = bool(found) and all(map(self._holds, found))
        if found:  # a server may be on its way
            self._believed[port] = time.monotonic(), ours
        return ours

    def _holds(self, socket: str) -> bool:
        return any(self._mark in _environment(home) for home in holders(socket))


class OwnServers:
    """Decides for a process which requests and connections stay within its program.

    `behind` gives the address that one of the proxy's stands for, and `tell` hears of each port where the program was
    found. In a replay, `recorded` are the calls of the tape: who comes to a port of which it knows nothing, and where
    nobody listens, waits for a server of the program, or finds nobody.
    """

    def __init__(
        self,
        ports: OwnPorts,
        behind: Callable[[str], str],
        tell: Callable[[int], None],
        recorded: Iterable[AnyEvent] | None = None,
    ) -> None:
        self._ports = ports
        self._behind = behind
        self._tell = tell
        self._told: set[int] = set()
        self._known = None if recorded is None else {place[1] for place in map(_place, _urls(recorded)) if place}
        self.waited_for: set[int] = set()
        """Ports that were tried in a replay, and on which nobody has listened so far."""

    def takes(self, url: str) -> bool:
        """True when a request for this URL stays within the program."""
        address = self._behind(url)
        place = _place(address)
        if place is None:
            return False
        from replaykit.wire.routes import api_of  # noqa: PLC0415 (slow to import, and few requests stay here)

        # The tape may well hold a model's answer, or one that was given through the proxy, from another port.
        return self._takes(*place, may_wait=address == url and api_of("POST", url) is None)

    def has(self, host: str, port: int) -> bool:
        """True when a connection to this place stays within the program, or reaches nobody."""
        return self._takes(host, port, may_wait=True)

    def may_be_at(self, place: str) -> bool:
        """True when a connection to this host and port stays within the program, or nobody can tell."""
        found = _place(f"tcp://{place}")
        return found is not None and (not can_tell() or self.has(*found))

    def _takes(self, host: str, port: int, *, may_wait: bool) -> bool:
        if not is_loopback(host):
            return False
        if self._ports.is_ours(port):
            self.waited_for.discard(port)
            if port not in self._told:
                self._told.add(port)
                self._tell(port)
            return True
        if not may_wait or self._known is None or port in self._known or not can_tell() or listeners(port):
            return False
        self.waited_for.add(port)
        return True


def found_nobody(event: AnyEvent, ports: Collection[int]) -> bool:
    """True for a request that came to one of these ports before anybody listened there."""
    if not isinstance(event, Call) or event.wire is None or event.wire.status:
        return False
    place = _place(event.wire.url)
    return place is not None and place[1] in ports and isinstance(event.error, ErrorInfo)


def _urls(events: Iterable[AnyEvent]) -> Iterable[str]:
    return (event.wire.url for event in events if isinstance(event, Call) and event.wire is not None)


def _place(url: str) -> tuple[str, int] | None:
    """The host and port of a URL on this machine; None for any other."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return None
    return (host, port) if is_loopback(host) else None


def _environment(process: Path) -> list[bytes]:
    """The variables that a process was started with."""
    try:
        return (process / "environ").read_bytes().split(b"\0")
    except OSError:  # gone meanwhile, or not ours to look at
        return []
