"""Note connections during a recording that no recorded call accounts for, since a replay cannot serve them.

A connection inside a call belongs to the call, which is served as a whole. Others bypass the recording: a database
driver, a websocket, a custom protocol. Only the methods of Python's sockets are watched, and only while a run is
recorded; a run without connections just pays for installing them. Connections of C libraries are not seen here.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from replaykit.model.events import Note
from replaykit.model.unrecorded import UNRECORDED, Unrecorded, UnrecordedEffect, UnrecordedKind, with_count_added
from replaykit.model.values import raw, sayable
from replaykit.seam.foreign_threads import exports_telemetry
from replaykit.seam.hooks import Hooks, hook
from replaykit.seam.own_code import Function, frames_from, module_name
from replaykit.seam.own_servers import noting_servers
from replaykit.seam.scope import RunSession, current, only_session

PASSED = "replaykit.passed"
"""The name of notes, in process logs only, on addresses that a process reached through its sockets legitimately."""
_NOTED = 100  # places noted one by one for each process
_COUNTED = 10_000  # further places that are told apart
_NAMES = 10_000  # resolved host names
_SETTLES_MS = 10  # for a local connection to be accepted or refused
_UNDER_WAY = frozenset({0, errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EISCONN})
# Sockets of the machine's logs and name service: their answers decide nothing.
_LOGS = ("/dev/log", "/run/systemd/", "/var/run/syslog", "/var/run/nscd/", "/run/nscd/")


class UnrecordedLog:
    """The unrecorded effects of a process in one run: each once, with a count."""

    def __init__(self, session: RunSession, proxy: str = "") -> None:
        """`proxy` is the host and port where everything is recorded."""
        self._session = session
        self._handler = session.handler
        self._proxy = proxy
        self._process = os.getpid()
        self._found: dict[tuple[str, str, str], Unrecorded] = {}
        self._further: set[tuple[str, str, str]] = set()
        self._passed: set[str] = set()

    def note(self, unrecorded: Unrecorded) -> None:
        """Record an effect where it happened; further ones of its kind are counted."""
        if self._process != os.getpid() and not self._go_on_in_child():
            return
        key = unrecorded.key
        if key not in self._found and len(self._found) >= _NOTED:
            if len(self._further) < _COUNTED:
                self._further.add(key)
            return
        if self._found.setdefault(key, unrecorded) is not unrecorded:
            self._found[key] = with_count_added(self._found[key], 1)
        elif not self._session.over:
            self._write(unrecorded)

    def end(self) -> None:
        """Record how often each effect happened after it was noted."""
        if self._process != os.getpid():
            return
        for unrecorded in self.everything():
            if unrecorded.kind is UnrecordedKind.FURTHER:
                self._write(unrecorded)
            elif unrecorded.count > 1:
                self._write(with_count_added(unrecorded, -1))

    def everything(self) -> list[Unrecorded]:
        """Return the effects of this process."""
        found = list(self._found.values())
        if self._further:
            found.append(Unrecorded(kind=UnrecordedKind.FURTHER, count=len(self._further)))
        return found

    def connected(self, kind: UnrecordedKind, host: str, port: int, ip: str) -> None:
        """Note a connection or datagram to this place, which has that address."""
        address = _joined(ip, port)
        if address == self._proxy or (self._session.own is not None and self._session.own.had(host, port)):
            return
        if _accounted.is_so or exports_telemetry():
            self._pass(address)
            return
        place = _joined(_names.get(host, host), port)
        if (UnrecordedKind.WEBSOCKET, place, "python") in self._found:
            return  # its handshake was noted already
        self.note(Unrecorded(kind=kind, place=place, address=address, where=_line()))

    def connected_path(self, path: str) -> None:
        """Note a connection to a socket in the file system."""
        if path.startswith(_LOGS) or _listens_here(path) or _is_of_multiprocessing():
            return
        if self._session.own is not None and self._session.own.has_path(path):
            return
        kind, effect = UnrecordedKind.CONNECTION, UnrecordedEffect.UNSERVED
        self.note(Unrecorded(kind=kind, place=sayable(path), where=_line(), effect=effect))

    def _write(self, unrecorded: Unrecorded) -> None:
        self._session.keep(Note, name=UNRECORDED, content_json=unrecorded.content)

    def _pass(self, address: str) -> None:
        if self._session.is_elsewhere and address not in self._passed and len(self._passed) < _COUNTED:
            self._passed.add(address)
            self._session.keep(Note, name=PASSED, content_json=raw(address))

    def _go_on_in_child(self) -> bool:
        """In a forked child: return True if it writes a log of its own."""
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
    """True in a thread that opens a connection for recorded requests."""

    is_so = False


_accounted = _Accounted()


@contextmanager
def accounted() -> Iterator[None]:
    """Mark connections opened in the block as those of recorded requests."""
    before, _accounted.is_so = _accounted.is_so, True
    try:
        yield
    finally:
        _accounted.is_so = before


def watching(session: RunSession, proxy: str = "") -> AbstractContextManager[None]:
    """Note unrecorded effects of this session during the block."""
    session.unrecorded = UnrecordedLog(session, proxy)
    if not _HOOKS.is_installed:
        _names.clear()  # an address may have got another name since an earlier run
    return _HOOKS.installed()


def _log_here() -> UnrecordedLog | None:
    """Return the log for a connection made here; None inside a call, and outside of a recording."""
    scope = current()
    if scope is not None and (scope.parent is not None or scope.session.is_apart):
        return None
    if scope is not None and not scope.session.over:
        return scope.session.unrecorded
    session = only_session()
    if session is None:
        return None
    return session.unrecorded


def _note_connection(
    log: UnrecordedLog, sock: Any, address: Any, *, failed: bool = False, under_way: bool = False
) -> None:
    from replaykit.seam.sockets import is_loopback  # noqa: PLC0415 (most runs open no connection)

    socket = sys.modules["socket"]
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        host, port = str(address[0]), int(address[1])
        # A refused connection on this machine is usually for a server that is still starting.
        if is_loopback(host) and (failed or (under_way and _is_refused(sock))):
            return
        kind = UnrecordedKind.DATAGRAM
        if sock.type == socket.SOCK_STREAM:
            kind = UnrecordedKind.CONNECTION
        log.connected(kind, host, port, _peer(sock) or host)
    elif sock.family == getattr(socket, "AF_UNIX", None) and not failed:
        log.connected_path(re.sub("^\0", "@", os.fsdecode(address)))


def _peer(sock: Any) -> str:
    """Return the address of the peer, if there is one yet."""
    try:
        return str(sock.getpeername()[0]).removeprefix("::ffff:")
    except OSError:
        return ""


def _is_refused(sock: Any) -> bool:
    """True if a connection attempt has just been refused. Leaves the error for whoever waits."""
    import select  # noqa: PLC0415 (few connections need it)

    if not hasattr(select, "poll"):
        return False
    waiting = select.poll()
    waiting.register(sock.fileno(), select.POLLOUT)
    events = dict(waiting.poll(_SETTLES_MS)).get(sock.fileno(), 0)
    return bool(events & (select.POLLERR | select.POLLHUP))


@hook
def _connecting(original: Function, sock: Any, address: Any) -> Any:
    log = _log_here()
    if log is None:
        return original(sock, address)
    try:
        result = original(sock, address)
    except OSError as error:
        under_way = error.errno in _UNDER_WAY
        _note_connection(log, sock, address, failed=not under_way, under_way=under_way)
        raise
    _note_connection(log, sock, address)
    return result


@hook
def _connecting_by_number(original: Function, sock: Any, address: Any) -> Any:
    number = original(sock, address)
    log = _log_here()
    if log is not None:
        is_made = number in _UNDER_WAY
        _note_connection(log, sock, address, failed=not is_made, under_way=is_made and number != 0)
    return number


@hook
def _sending(original: Function, sock: Any, data: Any, *rest: Any) -> Any:
    sent = original(sock, data, *rest)
    log = _log_here()
    if log is not None and rest[-1] is not None:
        _note_connection(log, sock, rest[-1])
    return sent


@hook
def _sending_parts(original: Function, sock: Any, buffers: Any, *rest: Any) -> Any:
    sent = original(sock, buffers, *rest)
    if len(rest) == 3 and rest[2] is not None:
        log = _log_here()
        if log is not None:
            _note_connection(log, sock, rest[2])
    return sent


# Host names by the addresses that lookups returned during a recording.
_names: dict[str, str] = {}


@hook
def _looking_up(original: Function, host: Any, *args: Any, **options: Any) -> Any:
    found = original(host, *args, **options)
    _remember(host, [entry[4][0] for entry in found])
    return found


@hook
def _looking_up_plainly(original: Function, host: Any) -> Any:
    found = original(host)
    _remember(host, [found] if isinstance(found, str) else found[2])
    return found


def _remember(host: Any, addresses: list[Any]) -> None:
    if not isinstance(host, str | bytes):
        return
    name = os.fsdecode(host)
    if len(_names) > _NAMES:
        _names.clear()
    for address in addresses:
        if name and name != address:
            _names[str(address)] = sayable(name)


def _joined(host: str, port: int) -> str:
    if ":" in host:
        host = f"[{host}]"
    return f"{host}:{port}"


def _line() -> str:
    """Return the file and line of the program that led here."""
    from replaykit.seam.guard import frame_of_program  # noqa: PLC0415 (most runs open no connection)

    frame = frame_of_program()
    if frame is None:
        return ""
    file, here = frame.f_code.co_filename, os.getcwd() + os.sep
    return sayable(f"{file.removeprefix(here)}:{frame.f_lineno}")


def _is_of_multiprocessing() -> bool:
    """True below the connections of `multiprocessing` between the processes of one program."""
    return any(module_name(frame).startswith("multiprocessing.") for frame in frames_from(sys._getframe(1)))


def _listens_here(path: str) -> bool:
    """True if this very process holds the socket that listens at a path, as far as the system shows."""
    from replaykit.seam.sockets import listening_at  # noqa: PLC0415 (few runs open such a connection)

    sockets = {f"socket:[{number}]" for number in listening_at(path)}
    if not sockets:
        return False
    try:
        return any(os.readlink(f"/proc/self/fd/{name}") in sockets for name in os.listdir("/proc/self/fd"))
    except OSError:  # a descriptor was just closed
        return False


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
