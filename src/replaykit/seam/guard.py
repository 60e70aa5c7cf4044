"""The socket guard: in a replay, it stops connections that no call was allowed to make, and names their origin.

A served exchange never reaches a socket. A connection that does is either inside a call that the rules allow, or it
bypasses the seam: a library that is not watched, a metric, a database that nobody recorded.
"""

from __future__ import annotations

import errno
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from types import FrameType
from typing import Any

from replaykit.errors import LiveConnection
from replaykit.seam.hooks import Hooks, hook
from replaykit.seam.own_code import Function, frames_from, is_library
from replaykit.seam.own_servers import ServersHere, is_in_sandbox, noting_servers
from replaykit.seam.scope import OwnPlaces, RunSession, current
from replaykit.seam.sockets import is_loopback

_lock = threading.RLock()  # reentrant: the garbage collector may close a guard at any moment
_guards: list[Guard] = []
# Host names that were resolved while a guard was up, by their addresses.
_names: dict[str, set[str]] = {}
_INTERNET = {socket.AF_INET, socket.AF_INET6}
_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Guard:
    """Decides which connections may be made in a session. `everywhere` includes threads of no session, and of one that
    is over."""

    # A guard without a session, which watches what sessions leave behind, sets neither.
    _everywhere = False
    _session: RunSession | None = None

    def __init__(
        self, session: RunSession, allow: Iterable[str], tell: Callable[[str], None], *, everywhere: bool = False
    ) -> None:
        self._session = session
        self._allowed = {entry.lower() for entry in allow}
        self._tell = tell
        self._everywhere = everywhere

    def forbids(self, host: str, port: int) -> bool:
        """True for a connection from here that this guard stops."""
        scope = current()
        if scope is None or scope.session is not self._session:
            if not self._everywhere or (scope is not None and not scope.session.over):
                return False  # of no run, or of another one
        elif scope.parent is not None:
            return False  # inside a call that was allowed, or in a task or thread that it started
        return not permits(self._allowed, host, port)

    def is_own(self, host: str, port: int) -> bool:
        """True if the program itself listens there, or nobody does: no way to the world."""
        return (self._own is not None and self._own.has(host, port)) or is_in_sandbox(host, port)

    def refuses(self, host: str, port: int) -> bool:
        """True if the program listens on this port, but at another address of the machine."""
        own = self._own
        if not isinstance(own, ServersHere) or not own.has(host, port) or is_in_sandbox(host, port):
            return False
        return own.refuses(host, port)

    def minds_connections_alone(self, name: str, port: int) -> bool:
        """True for the machine's own names if the program may listen itself: its server may be resolving them."""
        if self._own is None or not is_loopback(name):
            return False
        return not isinstance(self._own, ServersHere) or not port or self.is_own(name, port)

    @property
    def _own(self) -> OwnPlaces | None:
        if self._session is None:
            return None
        return self._session.own

    def stop(self, host: str, port: int) -> LiveConnection:
        """Return the error for a connection that was stopped."""
        scope = current()
        # A whole program joins from its first line on: nothing was before.
        may_be_outside = self._everywhere and (self._own is None or isinstance(self._own, ServersHere))
        outside = may_be_outside and (scope is None or scope.session is not self._session)
        error = LiveConnection(host, port, _who(), outside=outside)
        self._tell(error.message)
        return error

    @contextmanager
    def standing(self) -> Iterator[Guard]:
        """Keep the guard up during the block."""
        with _lock:
            _guards.append(self)
            _HOOKS.install()
        try:
            yield self
        finally:
            with _lock:
                _guards.remove(self)
                _HOOKS.uninstall()
                if not _guards:
                    _names.clear()


def permits(allowed: AbstractSet[str], host: str, port: int) -> bool:
    """True if one of these lower-case entries allows the place."""
    names = {host.lower()} | _names.get(host, set())
    if not allowed.isdisjoint((f"*:{port}", "*", *names)):
        return True
    if not port:  # a name that is resolved before the port is known
        return any(entry.startswith(tuple(f"{name}:" for name in names)) for entry in allowed)
    return any(f"{name}:{port}" in allowed or f"[{name}]:{port}" in allowed for name in names)


def _check(sock: socket.socket, address: Any) -> list[Guard]:
    """Return the guards that let the connection through because it stays within the program."""
    if sock.family not in _INTERNET or not isinstance(address, tuple):
        return []
    host, port = str(address[0]), int(address[1])
    is_stream = sock.type == socket.SOCK_STREAM
    forbidding = [guard for guard in list(_guards) if guard.forbids(host, port)]
    for guard in forbidding:
        if not (is_stream and guard.is_own(host, port)):
            raise guard.stop(host, port)
    return forbidding


def _check_name(host: Any, port: Any) -> None:
    """Check a name lookup: it comes before a bypass, and reveals the name."""
    name = _text(host)
    if not name:
        return
    number = int(port) if isinstance(port, int) or (isinstance(port, str) and port.isdecimal()) else 0
    for guard in list(_guards):
        if guard.forbids(name, number) and not guard.minds_connections_alone(name, number):
            raise guard.stop(name, number)


def _looked_up(host: Any, addresses: Iterable[str]) -> None:
    """Remember the addresses of a name: what is allowed for the name is allowed for them."""
    for address in addresses:
        _names.setdefault(address, set()).add(_text(host).lower())


def _text(host: Any) -> str:
    if isinstance(host, bytes):
        return host.decode("ascii", "replace")
    if isinstance(host, str):
        return host
    return ""


def _is_here(host: Any) -> bool:
    """True for hosts that need no lookup elsewhere: addresses, and the machine's own name."""
    name = _text(host)
    if name in ("", "localhost", socket.gethostname()):
        return True
    try:
        socket.inet_aton(name)
    except OSError:
        return False
    return True


@hook
def _watched(original: Function, sock: socket.socket, address: Any, *rest: Any) -> Any:
    within = _check(sock, address)
    if any(guard.refuses(str(address[0]), int(address[1])) for guard in within):
        raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
    try:
        return original(sock, address, *rest)
    finally:
        for guard in within:
            guard.is_own(str(address[0]), int(address[1]))  # notices a server that has just started


@hook
def _sending(original: Function, sock: socket.socket, data: Any, *rest: Any) -> Any:
    _check(sock, rest[-1])
    return original(sock, data, *rest)


@hook
def _sending_parts(original: Function, sock: socket.socket, buffers: Any, *rest: Any) -> Any:
    if len(rest) == 3:
        _check(sock, rest[2])
    return original(sock, buffers, *rest)


@hook
def _looking_up(original: Function, host: Any, port: Any, *rest: Any, **options: Any) -> Any:
    _check_name(host, port)
    found = original(host, port, *rest, **options)
    _looked_up(host, (str(entry[4][0]) for entry in found))
    return found


def _looking_up_later(original: Function) -> Function:
    async def getaddrinfo(loop: Any, host: Any, port: Any, **options: Any) -> Any:
        _check_name(host, port)  # here, because the resolver's thread does not know who asks
        return await original(loop, host, port, **options)

    return getaddrinfo


@hook
def _looking_up_plainly(original: Function, host: Any) -> Any:
    if not _is_here(host):
        _check_name(host, 0)
    found = original(host)
    _looked_up(host, [found] if isinstance(found, str) else found[2])
    return found


_HOOKS = Hooks(
    {
        "socket": (
            ("socket", "connect", _watched),
            ("socket", "connect_ex", _watched),
            ("socket", "listen", noting_servers),
            ("socket", "sendto", _sending),
            ("socket", "sendmsg", _sending_parts),
            ("", "getaddrinfo", _looking_up),
            ("", "gethostbyname", _looking_up_plainly),
            ("", "gethostbyname_ex", _looking_up_plainly),
        ),
        "asyncio.base_events": (("BaseEventLoop", "getaddrinfo", _looking_up_later),),
    },
    takes_inherited=True,
)


def _who() -> str:
    """Return the line of the program that led here."""
    frame = frame_of_program()
    if frame is None:
        return ""
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


def frame_of_program() -> FrameType | None:
    """Return the frame of the program that led here: the innermost that is neither ours nor a library's, or else the
    innermost of a library."""
    nearest: FrameType | None = None
    for frame in frames_from(sys._getframe(1)):
        file = frame.f_code.co_filename
        if not file.startswith((_HOME, "<")):
            if not is_library(file):
                return frame
            nearest = nearest or frame
    return nearest
