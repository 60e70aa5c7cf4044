"""While recording: note connections that no recorded call accounts for, since a replay cannot serve them.

A connection inside of a call is the call's own: the call is served as a whole. What is left is past the recording: a
database driver, a websocket, a protocol of its own. Only the methods of Python's sockets are watched, and only while a
run is recorded; a run that opens no connection pays for putting them in place and no more. Connections that C libraries
make are not seen here.
"""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any

from replaykit.model.events import Note
from replaykit.model.unrecorded import UNRECORDED, Unrecorded, UnrecordedEffect, UnrecordedKind, with_count_added
from replaykit.model.values import raw, sayable
from replaykit.seam.foreign_threads import exports_telemetry
from replaykit.seam.hooks import Hooks
from replaykit.seam.own_code import Function
from replaykit.seam.own_servers import noting_servers
from replaykit.seam.scope import RunSession, active_sessions, current

PASSED = "replaykit.passed"
"""Notes of this name, in parts alone, name an address that a process reached through its sockets for a good reason."""
_NOTED = 100  # places of one process that are noted one by one
_COUNTED = 10_000  # places beyond those that are told apart
_NAMES = 10_000  # of hosts that were looked up
_SETTLES_MS = 10  # for a connection within this machine to be made or refused
_UNDER_WAY = frozenset({0, errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EISCONN})
_LOGS = ("/dev/log", "/run/systemd/", "/var/run/syslog", "/var/run/nscd/", "/run/nscd/")
"""Sockets of the machine's own logs and name service: no answer of theirs decides anything."""


class UnrecordedLog:
    """What a process does past the recording of one run, each thing once and counted."""

    def __init__(self, session: RunSession, proxy: str = "") -> None:
        """`proxy` is the host and port where everything is recorded."""
        self._session = session
        self._handler = session.handler
        self._proxy = proxy
        self._process = os.getpid()
        self._found: dict[tuple[str, str, str], Unrecorded] = {}
        self._further: set[tuple[str, str, str]] = set()
        self._passed: set[str] = set()

    def note(self, one: Unrecorded) -> None:
        """Write it down where it was done; what was noted before is counted."""
        if self._process != os.getpid() and not self._go_on_in_child():
            return
        if one.key not in self._found and len(self._found) >= _NOTED:
            if len(self._further) < _COUNTED:
                self._further.add(one.key)
            return
        if self._found.setdefault(one.key, one) is not one:
            self._found[one.key] = with_count_added(self._found[one.key], 1)
        elif not self._session.over:
            self._session.keep(Note, name=UNRECORDED, content_json=one.content)

    def end(self) -> None:
        """Write down how often each thing was done after it was noted."""
        if self._process != os.getpid():
            return
        for one in self._found.values():
            if one.count > 1:
                self._write(with_count_added(one, -1))
        if self._further:
            self._write(Unrecorded(kind=UnrecordedKind.FURTHER, count=len(self._further)))

    def everything(self) -> list[Unrecorded]:
        """What this process did."""
        further = [Unrecorded(kind=UnrecordedKind.FURTHER, count=len(self._further))] if self._further else []
        return [*self._found.values(), *further]

    def connected(self, kind: UnrecordedKind, host: str, port: int, ip: str) -> None:
        """A connection, or a datagram, went to this place, which has that address."""
        address = _joined(ip, port)
        if address == self._proxy or (self._session.own is not None and self._session.own.had(host, port)):
            return
        if _accounted.is_so or exports_telemetry():
            self._pass(address)
            return
        place = _joined(_names.get(host, host), port)
        if (UnrecordedKind.WEBSOCKET, place, "python") in self._found:
            return  # the handshake was seen already
        self.note(Unrecorded(kind=kind, place=place, address=address, where=_line()))

    def connected_path(self, path: str) -> None:
        """A connection went to a socket in the file system."""
        if path.startswith(_LOGS) or _listens_here(path) or _is_of_multiprocessing():
            return
        if self._session.own is not None and self._session.own.has_path(path):
            return
        self.note(
            Unrecorded(
                kind=UnrecordedKind.CONNECTION, place=sayable(path), where=_line(), effect=UnrecordedEffect.UNSERVED
            )
        )

    def _write(self, one: Unrecorded) -> None:
        self._session.keep(Note, name=UNRECORDED, content_json=one.content)

    def _pass(self, address: str) -> None:
        if self._session.is_elsewhere and address not in self._passed and len(self._passed) < _COUNTED:
            self._passed.add(address)
            self._session.keep(Note, name=PASSED, content_json=raw(address))

    def _go_on_in_child(self) -> bool:
        """In a forked child: True where it writes a share of its own."""
        if self._session.handler is self._handler:
            return False
        self._process, self._handler = os.getpid(), self._session.handler
        self._found, self._further, self._passed = {}, set(), set()
        return True


def websocket_opened(session: RunSession, url: str) -> None:
    """Note that a connection of a recorded HTTP library became a websocket."""
    from urllib.parse import urlsplit  # noqa: PLC0415 (few runs open one)

    if session.unrecorded is None:
        return
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "ws": 80}.get(parts.scheme, 443)
    place = _joined(sayable(parts.hostname or ""), port)
    session.unrecorded.note(Unrecorded(kind=UnrecordedKind.WEBSOCKET, place=place, where=_line()))


class _Accounted(threading.local):
    """True in a thread that opens a connection for requests that are recorded."""

    is_so = False


_accounted = _Accounted()


@contextmanager
def accounted() -> Iterator[None]:
    """Connections that are opened inside are for requests that are recorded."""
    before, _accounted.is_so = _accounted.is_so, True
    try:
        yield
    finally:
        _accounted.is_so = before


def watching(session: RunSession, proxy: str = "") -> AbstractContextManager[None]:
    """Note what is done past the recording of this session during the block."""
    session.unrecorded = UnrecordedLog(session, proxy)
    return _HOOKS.installed()


def _log_here() -> UnrecordedLog | None:
    """The log for a connection that is made here; None where it is inside of a call, or no recording's business."""
    scope = current()
    if scope is not None and (scope.parent is not None or scope.session.is_apart):
        return None
    if scope is not None and not scope.session.over:
        return scope.session.unrecorded
    under_way = [session for session in active_sessions if not session.over]
    return under_way[0].unrecorded if len(under_way) == 1 else None


def _note_connection(log: UnrecordedLog, sock: Any, address: Any, *, failed: bool, under_way: bool) -> None:
    from replaykit.seam.sockets import is_loopback  # noqa: PLC0415 (most runs open no connection)

    socket = sys.modules["socket"]
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        host, port = str(address[0]), int(address[1])
        # Who asks this machine in vain waits for a server of its own, as a rule.
        if is_loopback(host) and (failed or (under_way and _is_refused(sock))):
            return
        is_stream = sock.type == socket.SOCK_STREAM
        log.connected(
            UnrecordedKind.CONNECTION if is_stream else UnrecordedKind.DATAGRAM, host, port, _peer(sock) or host
        )
    elif sock.family == getattr(socket, "AF_UNIX", None) and not failed:
        path = os.fsdecode(address)
        log.connected_path(f"@{path[1:]}" if path.startswith("\0") else path)


def _peer(sock: Any) -> str:
    """The address of the other end, where there is one yet."""
    try:
        return str(sock.getpeername()[0]).removeprefix("::ffff:")
    except OSError:
        return ""


def _is_refused(sock: Any) -> bool:
    """True when nobody took a connection that was under way a moment ago. Leaves its error for whoever waits."""
    import select  # noqa: PLC0415 (few connections need it)

    if not hasattr(select, "poll"):
        return False
    waiting = select.poll()
    waiting.register(sock.fileno(), select.POLLOUT)
    events = dict(waiting.poll(_SETTLES_MS)).get(sock.fileno(), 0)
    return bool(events & (select.POLLERR | select.POLLHUP))


def _connecting(original: Function) -> Function:
    def connect(sock: Any, address: Any) -> Any:
        log = _log_here()
        if log is None:
            return original(sock, address)
        try:
            result = original(sock, address)
        except OSError as error:
            under_way = error.errno in _UNDER_WAY
            _note_connection(log, sock, address, failed=not under_way, under_way=under_way)
            raise
        _note_connection(log, sock, address, failed=False, under_way=False)
        return result

    return connect


def _connecting_by_number(original: Function) -> Function:
    def connect_ex(sock: Any, address: Any) -> Any:
        number = original(sock, address)
        log = _log_here()
        if log is not None:
            is_made = number in _UNDER_WAY
            _note_connection(log, sock, address, failed=not is_made, under_way=is_made and number != 0)
        return number

    return connect_ex


def _sending(original: Function) -> Function:
    def sendto(sock: Any, data: Any, *rest: Any) -> Any:
        sent = original(sock, data, *rest)
        log = _log_here()
        if log is not None and rest[-1] is not None:
            _note_connection(log, sock, rest[-1], failed=False, under_way=False)
        return sent

    return sendto


def _sending_parts(original: Function) -> Function:
    def sendmsg(sock: Any, buffers: Any, *rest: Any) -> Any:
        sent = original(sock, buffers, *rest)
        log = _log_here() if len(rest) == 3 and rest[2] is not None else None
        if log is not None:
            _note_connection(log, sock, rest[2], failed=False, under_way=False)
        return sent

    return sendmsg


_names: dict[str, str] = {}
"""The names of hosts, by the addresses they were found to have while something was recorded."""


def _looking_up(original: Function) -> Function:
    def getaddrinfo(host: Any, *args: Any, **options: Any) -> Any:
        found = original(host, *args, **options)
        _remember(host, [entry[4][0] for entry in found])
        return found

    return getaddrinfo


def _looking_up_plainly(original: Function) -> Function:
    def gethostbyname(host: Any) -> Any:
        found = original(host)
        _remember(host, [found] if isinstance(found, str) else found[2])
        return found

    return gethostbyname


def _remember(host: Any, addresses: list[Any]) -> None:
    name = os.fsdecode(host) if isinstance(host, str | bytes) else ""
    if len(_names) > _NAMES:
        _names.clear()
    for address in addresses:
        if name and name != address:
            _names[str(address)] = sayable(name)


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _line() -> str:
    """The file and line of the program that led here."""
    from replaykit.seam.guard import frame_of_program  # noqa: PLC0415 (most runs open no connection)

    frame = frame_of_program()
    if frame is None:
        return ""
    file, here = frame.f_code.co_filename, os.getcwd() + os.sep
    return sayable(f"{file.removeprefix(here)}:{frame.f_lineno}")


def _is_of_multiprocessing() -> bool:
    """True below the connections that `multiprocessing` has between the processes of one program."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("multiprocessing."):
            return True
        frame = frame.f_back
    return False


def _listens_here(path: str) -> bool:
    """True where this very process holds the socket that listens at a path, as far as the system tells."""
    from replaykit.seam.sockets import listening_at  # noqa: PLC0415 (few runs open such a connection)

    numbers = listening_at(path)
    try:
        links = {os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")} if numbers else set()
    except OSError:  # one was closed meanwhile
        return False
    return any(f"socket:[{number}]" in links for number in numbers)


_HOOKS = Hooks(
    {
        "socket": (
            ("socket", "connect", _connecting),
            ("socket", "connect_ex", _connecting_by_number),
            ("socket", "listen", noting_servers),
            ("socket", "sendto", _sending),
            ("socket", "sendmsg", _sending_parts),
            ("", "getaddrinfo", _looking_up),
            ("", "gethostbyname", _looking_up_plainly),
            ("", "gethostbyname_ex", _looking_up_plainly),
        )
    },
    takes_inherited=True,
)
