"""Servers that an agent runs in its own process or sandbox: they are not part of the world.

A replay starts such a server again, often on another port. So requests to it are neither recorded nor served, except
for those on the tape. Only a socket that began to listen during the run counts: another server of the same process,
such as one of a test, belongs to somebody else.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from replaykit.model.events import Call
from replaykit.seam.hooks import hook
from replaykit.seam.own_code import Function
from replaykit.seam.scope import RunSession, current
from replaykit.seam.sockets import environment_of, holders, is_loopback, listeners, loopback_address
from replaykit.seam.variables import SANDBOX


class _Server(NamedTuple):
    """A socket that began to listen during a run. It may be closed before a connection to it is noted."""

    socket: weakref.ref[Any]
    port: int
    session: weakref.ref[RunSession] | None

    @property
    def is_over(self) -> bool:
        is_of_nobody = self.session is None or self.session() is None
        return is_of_nobody and _port_of(self.socket()) is None


_servers: list[_Server] = []


@hook
def noting_servers(original: Function, sock: Any, *args: Any) -> Any:
    """Wrap `socket.listen` while a run is in progress."""
    result = original(sock, *args)
    port, scope = _port_of(sock), current()
    _servers[:] = [server for server in _servers if not server.is_over]
    if port is not None:
        _servers.append(_Server(weakref.ref(sock), port, None if scope is None else weakref.ref(scope.session)))
    return result


class ServersHere:
    """The servers of one run in this process. In a replay, `recorded` are the calls of the tape."""

    def __init__(self, session: RunSession, recorded: Iterable[Call] = (), *, everywhere: bool = False) -> None:
        """`everywhere`: the process exists for this run alone."""
        self._session = weakref.ref(session)
        self._everywhere = everywhere
        self._recorded = recorded
        self._recorded_ports: set[int] | None = None

    def takes(self, url: str) -> bool:
        """Return True for a request to one of them, unless the tape has such requests or it is for a model."""
        if not _servers:
            return False
        address = loopback_address(url)
        if address is None or not self.has(*address) or address[1] in self._ports_of_tape():
            return False
        from replaykit.wire.routes import api_of  # noqa: PLC0415 (few requests come here)

        return api_of("POST", url) is None

    def has(self, host: str, port: int) -> bool:
        """Return True for a port on which one of them listens, at any address of the machine."""
        return is_loopback(host) and any(_port_of(server.socket()) == port for server in self._own())

    def had(self, host: str, port: int) -> bool:
        """Return True for a port on which one of them has listened."""
        return is_loopback(host) and any(server.port == port for server in self._own())

    def refuses(self, host: str, port: int) -> bool:
        """Return True if none of them listens at this very address: somebody else may."""
        sockets = [server.socket() for server in self._own()]
        return not any(_port_of(sock) == port and _reaches(host, sock) for sock in sockets)

    def has_path(self, path: str) -> bool:
        """Return False: for unix sockets of this process, the system is asked."""
        return False

    def _own(self) -> list[_Server]:
        return [server for server in list(_servers) if self._everywhere or server.session == self._session]

    def _ports_of_tape(self) -> set[int]:
        if self._recorded_ports is None:
            self._recorded_ports = set()
            for call in self._recorded:
                address = None if call.wire is None else loopback_address(call.wire.url)
                if address is not None:
                    self._recorded_ports.add(address[1])
        return self._recorded_ports


def is_in_sandbox(host: str, port: int) -> bool:
    """Return True if a server in this process's sandbox listens on a port, or may be about to.

    Nobody else can be reached there: the kernel lets nothing through.
    """
    level = os.environ.get(SANDBOX, "").partition(":")[0]
    if level not in ("full", "landlock") or not is_loopback(host):
        return False
    found = listeners(port)
    if not found:
        return _has_children()
    mark = f"{SANDBOX}={os.environ[SANDBOX]}".encode()
    return level == "full" or all(any(mark in environment_of(home) for home in holders(socket)) for socket in found)


def _has_children() -> bool:
    """Return True if this process has children, which may be about to listen."""
    try:
        return any((thread / "children").read_text() for thread in Path("/proc/self/task").iterdir())
    except OSError:  # a kernel without this file
        return False


def _port_of(sock: Any) -> int | None:
    """Return the TCP port of a socket; None if it is closed or of another family."""
    socket = sys.modules["socket"]
    if sock is None or sock.fileno() < 0 or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    try:
        return int(sock.getsockname()[1])
    except OSError:
        return None


def _reaches(host: str, sock: Any) -> bool:
    """Return True if a connection to this address reaches a listening socket."""
    socket = sys.modules["socket"]
    own = str(sock.getsockname()[0])
    is_v6 = ":" in host
    if sock.family == socket.AF_INET:
        return not is_v6 and (own == "0.0.0.0" or host == own or (host == "0.0.0.0" and own == "127.0.0.1"))
    if own == "::":
        return is_v6 or not sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY)
    return host == own or (host == "::" and own == "::1")
