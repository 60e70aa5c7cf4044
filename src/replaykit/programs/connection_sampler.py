"""Connections of a recorded program that bypass the recording: of other languages and of C libraries.

A thread of the recorder samples the program's processes and their sockets several times a second, for at most a
fortieth of the time of one core. It misses connections that open and close between two samples, datagrams, and sockets
in the file system.
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

_SHORTEST_S, _LONGEST_S = 0.05, 0.5  # between two samples
_SHARE = 40  # a sample may take this part of the time
_OPEN_FILES = 4096  # examined for each process
_MOST = 1000  # remembered connections
_SLACK_S = 0.1  # /proc gives the start of a process in hundredths of a second
_LISTENING, _CLOSED = "0A", "07"


class ObservedProcess(NamedTuple):
    """A process of the program."""

    pid: int
    parent: int
    started: float
    """Seconds since the epoch."""


class SocketRow(NamedTuple):
    """One line of the system's table of connections."""

    inode: str
    local: tuple[str, int]
    remote: tuple[str, int]
    is_listening: bool


class ObservedConnection(NamedTuple):
    """A connection that the sample before did not have."""

    pid: int
    program: str
    remote: tuple[str, int]
    is_local: bool
    """True if the other end is on this machine."""
    after: float
    """The time of the sample before."""
    seen: float


class ConnectionSampler:
    """Samples the connections of a program from its start to its end."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._before = 0.0
        self._proxy: int | None = None
        self._active: dict[int, ObservedProcess] = {}
        self.processes: dict[int, ObservedProcess] = {}
        """All processes of the program so far."""
        self.own_ports: set[int] = set()
        """Ports on which the program itself listens."""
        self._sightings: dict[tuple[str, tuple[str, int]], ObservedConnection] = {}

    def begin(self, pid: int, environment: Mapping[str, str]) -> None:
        """Start sampling, if the system supports it; `pid` is the program's first process."""
        first = _process(pid) if can_tell() else None
        if first is None:
            return
        self._proxy = urlsplit(environment.get("REPLAYKIT_PROXY", "")).port
        self._active[pid] = self.processes[pid] = first
        self._before = time.time()
        self._thread = threading.Thread(target=self._run, name="replaykit-connections", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop sampling."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def sightings(self) -> list[ObservedConnection]:
        """Return the connections so far, without those inside the program."""
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
        for pid in self._active:  # parents first: a forked child holds its parent's sockets too
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
        """Find new children, and drop processes that have ended."""
        for pid in list(self._active):
            if _process(pid) is None:
                del self._active[pid]
        waiting = list(self._active)
        while waiting:
            for child in _children(waiting.pop()):
                if child not in self._active and (process := _process(child)) is not None:
                    self._active[child] = self.processes[child] = process
                    waiting.append(child)


def unrecorded_connections(sampler: ConnectionSampler, logs: Sequence[TraceRun]) -> list[Note]:
    """Return notes on the connections that no recorded call explains, given the logs of the program's processes."""
    known = _ProcessLogs(logs)
    by_key: dict[tuple[str, str, str], tuple[float, Unrecorded]] = {}
    for connection in sampler.sightings():
        if known.account_for(connection, sampler.processes):
            continue
        unrecorded = _unrecorded(connection, is_python=connection.pid in known.by_pid)
        if unrecorded.key in by_key:
            seen, before = by_key[unrecorded.key]
            by_key[unrecorded.key] = seen, with_count_added(before, 1)
        else:
            by_key[unrecorded.key] = connection.seen, unrecorded
    notes: list[Note] = []
    for seen, unrecorded in by_key.values():
        notes.append(Note(seq=len(notes), at=seen, name=UNRECORDED, content_json=unrecorded.content))
    return notes


def _unrecorded(connection: ObservedConnection, *, is_python: bool) -> Unrecorded:
    host, port = connection.remote
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    program, effect = sayable(connection.program), UnrecordedEffect.UNSERVED
    if is_python:
        program = f"{PYTHON}, in a C library"
    elif connection.program.startswith("node"):
        effect = UnrecordedEffect.STOPS  # by the guard in Node; programs in other languages have none
    return Unrecorded(kind=UnrecordedKind.CONNECTION, place=place, program=program, effect=effect)


class _ProcessLogs:
    """The logs of a program's processes, which tell what a connection belongs to."""

    def __init__(self, logs: Iterable[TraceRun]) -> None:
        self.by_pid: dict[int, TraceRun] = {}
        for log in logs:
            pid = log.metadata.get("pid")
            if isinstance(pid, int):
                self.by_pid[pid] = log
        self._own = own_ports(self.by_pid.values())

    def account_for(self, connection: ObservedConnection, processes: Mapping[int, ObservedProcess]) -> bool:
        """True if a connection belongs to a recorded call, or was noted already."""
        if connection.is_local and connection.remote[1] in self._own:
            return True
        log = self.by_pid.get(connection.pid)
        if log is not None and _accounts_for(log, connection):
            return True
        return any(map(self._is_inside, _ancestry(connection.pid, processes)))

    def _is_inside(self, process: ObservedProcess) -> bool:
        """True for a server behind a shim, and for a process started by a tool: its call is recorded as a whole."""
        own, parent = self.by_pid.get(process.pid), self.by_pid.get(process.parent)
        if any(log.name.startswith(SHIM) for log in (own, parent) if log is not None):
            return True
        if parent is None:
            return False
        begin, end = process.started - _SLACK_S, process.started + _SLACK_S
        return any(_is_during(event, begin, end) for event in parent.events if isinstance(event, ToolCall))


def _ancestry(pid: int, processes: Mapping[int, ObservedProcess]) -> Iterator[ObservedProcess]:
    """Yield a process and its ancestors."""
    for _ in range(len(processes)):
        process = processes.get(pid)
        if process is None:
            return
        yield process
        pid = process.parent


def _accounts_for(log: TraceRun, connection: ObservedConnection) -> bool:
    """True if the process itself noted the connection, or was in a call when it connected: the call may have made
    it."""
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
    """Return a process according to the system; None if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the program's name, in parentheses, may contain anything
    if fields[0] in "ZX":
        return None
    since_boot_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return ObservedProcess(pid, int(fields[1]), time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot_s)


def _children(pid: int) -> list[int]:
    children: list[int] = []
    for thread in _listed(f"/proc/{pid}/task"):
        try:
            children += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
        except OSError:  # the thread has ended
            continue
    return children


def _sockets(pid: int) -> Iterator[str]:
    """Yield the inodes of the sockets that a process holds."""
    for name in _listed(f"/proc/{pid}/fd")[:_OPEN_FILES]:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:  # just closed
            continue
        if target.startswith("socket:["):
            yield target[len("socket:[") : -1]


def _listed(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:  # the process has ended, or belongs to another user
        return []


def _network(pid: int) -> str:
    """Return the network namespace of a process: containers have their own."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


def _socket_rows(pid: int, inodes: Collection[str]) -> Iterator[SocketRow]:
    """Yield the connections in the network of a process that belong to these sockets."""
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
    """Return one end of a connection; the table has words in the machine's own byte order."""
    host, _, port = text.partition(":")
    words = [bytes.fromhex(host[at : at + 8]) for at in range(0, len(host), 8)]
    if sys.byteorder == "little":
        words = [word[::-1] for word in words]
    address = ipaddress.ip_address(b"".join(words))
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address), int(port, 16)


def _program(pid: int) -> str:
    """Return the name of a process's program."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return os.path.basename(os.fsdecode(words[0])) or Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:  # the process has ended
        return "a program"
