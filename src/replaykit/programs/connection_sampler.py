"""Connections of a recorded program past the recording, as the system shows them: of other languages and C libraries.

A thread of the recorder looks at the program's processes and their sockets several times a second, for at most a
fortieth of the time of one core. It sees who is connected where at that moment. What is opened and closed between two
looks is missed, and so are datagrams and sockets in the file system.
"""

from __future__ import annotations

import ipaddress
import os
import sys
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from replaykit.model.events import AnyEvent, Call, Note, ToolCall
from replaykit.model.run import TraceRun
from replaykit.model.unrecorded import (
    PYTHON,
    UNRECORDED,
    Unrecorded,
    UnrecordedEffect,
    UnrecordedKind,
    unrecorded_in,
    with_count_added,
)
from replaykit.model.values import sayable
from replaykit.programs.merge import own_ports
from replaykit.programs.process_log import SHIM
from replaykit.seam.sockets import can_tell, is_loopback
from replaykit.seam.unrecorded import PASSED

_SHORTEST_S, _LONGEST_S = 0.05, 0.5  # between two looks
_SHARE = 40  # a look may take this part of the time
_OPEN_FILES = 4096  # of one process that are looked at
_MOST = 1000  # connections that are remembered
_SLACK_S = 0.1  # the system tells the start of a process to a hundredth of a second
_LISTENING, _CLOSED = "0A", "07"


class ObservedProcess(NamedTuple):
    """A process of the program."""

    pid: int
    parent: int
    started: float
    """When, by the clock on the wall."""


class SocketRow(NamedTuple):
    """One line of the system's table of connections."""

    inode: str
    local: tuple[str, int]
    remote: tuple[str, int]
    is_listening: bool


class ObservedConnection(NamedTuple):
    """A connection that was not there at the look before."""

    pid: int
    program: str
    remote: tuple[str, int]
    is_local: bool
    """True when the other end is on this machine."""
    after: float
    """When the look before was."""
    seen: float


class ConnectionSampler:
    """Looks at the connections of a program from its start to its end."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._before = 0.0
        self._proxy: int | None = None
        self._active: dict[int, ObservedProcess] = {}
        self.processes: dict[int, ObservedProcess] = {}
        """All processes of the program that were seen."""
        self.own_ports: set[int] = set()
        """Ports on which the program itself was seen listening."""
        self._sightings: dict[tuple[str, tuple[str, int]], ObservedConnection] = {}

    def begin(self, pid: int, environment: Mapping[str, str]) -> None:
        """Look from here on, where the system tells anything; the process is the program's first."""
        first = _process(pid) if can_tell() else None
        if first is None:
            return
        self._proxy = urlsplit(environment.get("REPLAYKIT_PROXY", "")).port
        self._active[pid] = self.processes[pid] = first
        self._before = time.time()
        self._thread = threading.Thread(target=self._run, name="replaykit-connections", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Look no more."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def sightings(self) -> list[ObservedConnection]:
        """Return the connections that were seen, without those inside the program."""
        return [
            connection
            for connection in self._sightings.values()
            if not (connection.is_local and connection.remote[1] in self.own_ports)
        ]

    def _run(self) -> None:
        pause_s = 0.0
        while not self._ended.wait(pause_s):
            began = time.perf_counter()
            self._look()
            pause_s = min(_LONGEST_S, max(_SHORTEST_S, _SHARE * (time.perf_counter() - began)))

    def _look(self) -> None:
        now = time.time()
        self._follow()
        holders: dict[str, int] = {}
        tables: dict[str, int] = {}
        for pid in self._active:  # parents first: a forked child has its parent's sockets too
            for inode in _sockets(pid):
                holders.setdefault(inode, pid)
            tables.setdefault(_network(pid), pid)
        rows: list[SocketRow] = []
        for pid in tables.values() if holders else ():
            rows += _socket_rows(pid, holders)
        self.own_ports |= {row.local[1] for row in rows if row.is_listening}
        for row in rows:
            self._see(row, holders[row.inode], now)
        self._before = now

    def _see(self, row: SocketRow, pid: int, now: float) -> None:
        key = row.inode, row.remote
        host, port = row.remote
        is_local = is_loopback(host) or host == row.local[0]
        is_incoming = row.local[1] in self.own_ports
        if row.is_listening or is_incoming or key in self._sightings or (is_local and port == self._proxy):
            return
        if len(self._sightings) < _MOST:
            self._sightings[key] = ObservedConnection(pid, _program(pid), row.remote, is_local, self._before, now)

    def _follow(self) -> None:
        """Find the children of those that are known, and forget those that have ended."""
        for pid in list(self._active):
            if _process(pid) is None:
                del self._active[pid]
        waiting = list(self._active)
        while waiting:
            for child in _children(waiting.pop()):
                if child not in self._active and (found := _process(child)) is not None:
                    self._active[child] = self.processes[child] = found
                    waiting.append(child)


def unrecorded_connections(sampler: ConnectionSampler, logs: Sequence[TraceRun]) -> list[Note]:
    """Notes of the connections that no recorded call accounts for, given what the program's processes recorded."""
    known = _ProcessLogs(logs)
    found: dict[tuple[str, str, str], tuple[float, Unrecorded]] = {}
    for connection in sampler.sightings():
        if known.account_for(connection, sampler.processes):
            continue
        unrecorded = _unrecorded(connection, is_python=connection.pid in known.by_pid)
        if unrecorded.key in found:
            seen, before = found[unrecorded.key]
            found[unrecorded.key] = seen, with_count_added(before, 1)
        else:
            found[unrecorded.key] = connection.seen, unrecorded
    notes: list[Note] = []
    for seen, unrecorded in found.values():
        notes.append(Note(seq=len(notes), at=seen, name=UNRECORDED, content_json=unrecorded.content))
    return notes


def _unrecorded(connection: ObservedConnection, *, is_python: bool) -> Unrecorded:
    host, port = connection.remote
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    program, effect = sayable(connection.program), UnrecordedEffect.UNSERVED
    if is_python:
        program = f"{PYTHON}, in a C library"
    elif connection.program.startswith("node"):
        effect = UnrecordedEffect.STOPS  # by the guard in Node; nothing stops those of other languages
    return Unrecorded(kind=UnrecordedKind.CONNECTION, place=place, program=program, effect=effect)


class _ProcessLogs:
    """The logs of a program's processes, to find out which recorded call a connection belongs to."""

    def __init__(self, logs: Iterable[TraceRun]) -> None:
        self.by_pid: dict[int, TraceRun] = {}
        for log in logs:
            pid = log.metadata.get("pid")
            if isinstance(pid, int):
                self.by_pid[pid] = log
        self._own = own_ports(self.by_pid.values())

    def account_for(self, connection: ObservedConnection, processes: Mapping[int, ObservedProcess]) -> bool:
        """True when a connection belongs to something that was recorded, or was noted already."""
        if connection.is_local and connection.remote[1] in self._own:
            return True
        log = self.by_pid.get(connection.pid)
        if log is not None and _accounts_for(log, connection):
            return True
        return any(map(self._is_inside, _ancestry(connection.pid, processes)))

    def _is_inside(self, process: ObservedProcess) -> bool:
        """True for a server that a shim records, and for a process that a tool started: its call is recorded whole."""
        own, parent = self.by_pid.get(process.pid), self.by_pid.get(process.parent)
        if any(log.name.startswith(SHIM) for log in (own, parent) if log is not None):
            return True
        if parent is None:
            return False
        begin, end = process.started - _SLACK_S, process.started + _SLACK_S
        return any(_is_during(event, begin, end) for event in parent.events if isinstance(event, ToolCall))


def _ancestry(pid: int, processes: Mapping[int, ObservedProcess]) -> Iterator[ObservedProcess]:
    """A process and those above it."""
    for _ in range(len(processes)):
        process = processes.get(pid)
        if process is None:
            return
        yield process
        pid = process.parent


def _accounts_for(log: TraceRun, connection: ObservedConnection) -> bool:
    """True when the process itself saw the connection at its sockets, or was in a call when it connected: the call may
    have done it."""
    for event in log.events:
        if isinstance(event, Note) and _address_in(event) == connection.remote:
            return True
        if isinstance(event, Call) and _is_during(event, connection.after, connection.seen):
            return True
    return False


def _address_in(note: Note) -> tuple[str, int] | None:
    unrecorded = unrecorded_in(note)
    text = note.content if note.name == PASSED else None
    if unrecorded is not None and unrecorded.kind is not UnrecordedKind.CALL:
        text = unrecorded.address or unrecorded.place
    if not isinstance(text, str):
        return None
    host, _, port = text.rpartition(":")
    if port.isdecimal():
        return (host.strip("[]"), int(port))
    return None


def _is_during(call: AnyEvent, begin: float, end: float) -> bool:
    return call.at <= end and call.at + call.duration_s >= begin


def _process(pid: int) -> ObservedProcess | None:
    """A process as the system knows it; None where it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before may hold anything
    if fields[0] in "ZX":
        return None
    since_boot_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return ObservedProcess(pid, int(fields[1]), time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot_s)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for thread in _listed(f"/proc/{pid}/task"):
        try:
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
        except OSError:  # it has ended
            continue
    return found


def _sockets(pid: int) -> Iterator[str]:
    """The numbers of the sockets that a process holds."""
    for name in _listed(f"/proc/{pid}/fd")[:_OPEN_FILES]:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:  # closed meanwhile
            continue
        if target.startswith("socket:["):
            yield target[len("socket:[") : -1]


def _listed(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:  # gone meanwhile, or not ours to look at
        return []


def _network(pid: int) -> str:
    """The network that a process is in: containers have their own."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


def _socket_rows(pid: int, inodes: Collection[str]) -> Iterator[SocketRow]:
    """The connections in the network of a process that these sockets are ends of."""
    for table in ("tcp", "tcp6"):
        try:
            lines = Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        except OSError:  # the process has ended, or the system has no IPv6
            continue
        for line in lines:
            fields = line.split()
            if len(fields) > 9 and fields[9] in inodes and fields[3] != _CLOSED:
                yield SocketRow(
                    fields[9], _parse_address(fields[1]), _parse_address(fields[2]), fields[3] == _LISTENING
                )


def _parse_address(text: str) -> tuple[str, int]:
    """One end of a connection, which the table has as words of the machine's own byte order."""
    host, _, port = text.partition(":")
    words = [bytes.fromhex(host[at : at + 8]) for at in range(0, len(host), 8)]
    if sys.byteorder == "little":
        words = [word[::-1] for word in words]
    address = ipaddress.ip_address(b"".join(words))
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address), int(port, 16)


def _program(pid: int) -> str:
    """The name of the program that a process runs."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return os.path.basename(os.fsdecode(words[0])) or Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:  # it has ended
        return "a program"
