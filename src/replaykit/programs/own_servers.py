"""The program's own servers: traffic between its processes on this machine is not part of the world.

A replay starts the program's servers again. They are asked for real, and their own calls to models and tools are
served. A server that somebody else started is part of the world: it is recorded and served.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from enum import Enum
from pathlib import Path
from urllib.parse import urlsplit

from replaykit.model.events import AnyEvent, Call
from replaykit.model.values import Json
from replaykit.programs.plan import SESSION, ProgramPlan
from replaykit.programs.proxy_addresses import upstream_address
from replaykit.seam.sockets import (
    can_tell,
    environment_of,
    holders,
    is_loopback,
    listeners,
    listening_at,
    loopback_address,
)

OWN_PORT = "replaykit.own"
"""The name of notes in process logs on the ports where a process found its own program."""

_FRESH_S = 1.0  # how long a result is cached: the socket tables are long on busy machines


class Listener(Enum):
    """Who listens on a port."""

    PROGRAM = "program"  # only processes of the program
    OTHERS = "others"  # somebody else, or unknown
    NOBODY = "nobody"


class OwnServers:
    """Decides for a process which requests and connections stay within its program.

    `report` is called for each port where the program was found. In a replay, `recorded` are the calls of the tape. An
    unused port that the tape does not know is left alone too: a server of the program may be about to open it.
    """

    def __init__(
        self,
        session: Path,
        plan: ProgramPlan,
        report: Callable[[int], None],
        recorded: Iterable[AnyEvent] | None = None,
    ) -> None:
        self._mark = f"{SESSION}={session}".encode()
        self._plan = plan
        self._proxy_port = urlsplit(plan.proxy).port
        self._report = report
        self._reported_ports: set[int] = set()
        self._known = None if recorded is None else set(map(_loopback_port, recorded))
        self._believed: dict[int, tuple[float, Listener]] = {}
        self.waited_for: set[int] = set()
        """Ports that were tried in a replay, and on which nothing has listened so far."""
        self.network: Path | None = None
        """The socket tables of the program's own network namespace, in which every socket is the program's."""

    def takes(self, url: str) -> bool:
        """True if a request for this URL stays within the program."""
        address = upstream_address(url, self._plan.proxy, self._plan.upstreams)
        place = loopback_address(address)
        if place is None:
            return False
        from replaykit.wire.routes import api_of  # noqa: PLC0415 (slow to import, and few requests stay here)

        # For a model, or an address of the proxy, the tape may hold the answer under another port.
        return self._takes(*place, may_wait=address == url and api_of("POST", url) is None)

    def has(self, host: str, port: int) -> bool:
        """True if a connection to this place stays within the program, or reaches nobody."""
        return self._takes(host, port, may_wait=True)

    def had(self, host: str, port: int) -> bool:
        """True if a connection that was made to this place stayed within the program."""
        return self.has(host, port)

    def has_path(self, path: str) -> bool:
        """True if a process of the program listens at this path."""
        return any(map(self._holds, listening_at(path)))

    def may_be_at(self, place: str) -> bool:
        """True if a connection to this host and port stays within the program, or that is unknown."""
        address = loopback_address(f"tcp://{place}")
        return address is not None and (not can_tell() or self.has(*address))

    def _takes(self, host: str, port: int, *, may_wait: bool) -> bool:
        if not is_loopback(host):
            return False
        listener = self._listener(port)
        if listener is Listener.PROGRAM:
            self.waited_for.discard(port)
            if port not in self._reported_ports:
                self._reported_ports.add(port)
                self._report(port)
            return True
        waits = listener is Listener.NOBODY and may_wait and self._known is not None and port not in self._known
        if waits:
            self.waited_for.add(port)
        return waits

    def _listener(self, port: int) -> Listener:
        """Return who listens on a port."""
        if port == self._proxy_port or not can_tell():
            return Listener.OTHERS
        since, believed = self._believed.get(port, (float("-inf"), Listener.NOBODY))
        if time.monotonic() - since < _FRESH_S:
            return believed
        sockets = listeners(port, self.network)
        if not sockets:  # not cached: a server may be about to start
            return Listener.NOBODY
        if self.network is not None:
            return Listener.PROGRAM
        believed = Listener.PROGRAM if all(map(self._holds, sockets)) else Listener.OTHERS
        self._believed[port] = time.monotonic(), believed
        return believed

    def _holds(self, socket: str) -> bool:
        return any(self._mark in environment_of(home) for home in holders(socket))


def is_internal_request(event: AnyEvent, ports: Collection[Json]) -> bool:
    """True for a request to one of these ports, recorded before the program's server was found there."""
    return _loopback_port(event) in ports


def is_own_address(place: str, ports: Collection[Json]) -> bool:
    """True for a host and port of this machine where a server of the program was found."""
    address = loopback_address(f"tcp://{place}")
    return address is not None and address[1] in ports


def _loopback_port(event: AnyEvent) -> int | None:
    """Return the port of this machine that a request went to; None for any other event."""
    if not isinstance(event, Call) or event.wire is None:
        return None
    place = loopback_address(event.wire.url)
    return None if place is None else place[1]
