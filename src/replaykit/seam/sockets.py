"""Sockets of this machine and the processes that hold them, according to `/proc`; unknown without it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

_OWN_NAMES = frozenset({"localhost", "::1", "0.0.0.0", "::"})
_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_PROC = Path("/proc")
_TABLES = ("tcp", "tcp6")
_LISTENING = "0000 0A"  # no peer, and the number of the state
_ENDED = "0"  # the inode of a socket that no process holds any more
_UNIX_LISTENS = 0x10000  # the flag of a socket that accepts connections
_UNIX_FIELDS = 7  # before the path: number, references, protocol, flags, type, state, inode
_REST = r"\S+ \S+ \S+ +\d+ +\d+ (\d+)"


def is_loopback(host: str) -> bool:
    """True for the names and addresses by which a machine refers to itself."""
    name = host.lower().rstrip(".")
    if name in _OWN_NAMES or name.endswith(".localhost"):
        return True
    address = name.removeprefix("::ffff:")
    # 127.1 is an address as well, but 127.example.com is somebody else's name.
    return address.startswith("127.") and address.replace(".", "").isdecimal()


def can_tell() -> bool:
    """True if the system lists its sockets."""
    return (_PROC / "net" / "tcp").exists()


def listeners(port: int, network: Path | None = None) -> list[str]:
    """Return the inodes of the sockets that listen on a port, of this machine or of the network listed at `network`."""
    return _found(rf"[0-9A-F]+:{port:04X} [0-9A-F]+:{_LISTENING} {_REST}", network)


def connected(port: int, other_port: int, network: Path | None = None) -> list[str]:
    """Return the inodes of the sockets at `port` in connections between two ports, of this machine or of the network
    listed at `network`. One port alone may belong to connections of several processes."""
    numbers = _found(rf"[0-9A-F]+:{port:04X} [0-9A-F]+:{other_port:04X} [0-9A-F]{{2}} {_REST}", network)
    return [number for number in numbers if number != _ENDED]


def listening_at(path: str) -> list[str]:
    """Return the inodes of the sockets that listen at a path; `@name` is an abstract socket."""
    try:
        rows = (_PROC / "net" / "unix").read_text(errors="surrogateescape").splitlines()[1:]
    except OSError:  # not on Linux
        return []
    found = [row.split(None, _UNIX_FIELDS) for row in rows if row.endswith(f" {path}")]
    return [row[6] for row in found if len(row) > _UNIX_FIELDS and int(row[3], 16) & _UNIX_LISTENS]


def holders(socket: str) -> Iterator[Path]:
    """Yield the processes that hold a socket, as directories in `/proc`."""
    for home in _PROC.glob("[0-9]*"):
        if any(_leads_to(link, socket) for link in _open_files(home)):
            yield home


def _found(line: str, network: Path | None = None) -> list[str]:
    pattern = re.compile(rf"^ *\d+: {line}".encode(), re.MULTILINE)
    numbers: list[str] = []
    tables = network or _PROC / "net"
    for table in _TABLES:
        try:
            numbers += [number.decode() for number in pattern.findall((tables / table).read_bytes())]
        except OSError:  # not on Linux, or without IPv6
            continue
    return numbers


def environment_of(process: Path) -> list[bytes]:
    """Return the variables that a process was started with."""
    try:
        return (process / "environ").read_bytes().split(b"\0")
    except OSError:  # the process has ended, or belongs to another user
        return []


def loopback_address(url: str) -> tuple[str, int] | None:
    """Return the host and port of a URL on this machine; None for any other."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        return None
    return (host, port) if is_loopback(host) else None


def _open_files(process: Path) -> list[Path]:
    try:
        return list((process / "fd").iterdir())
    except OSError:  # the process has ended, or belongs to another user
        return []


def _leads_to(link: Path, socket: str) -> bool:
    try:
        return os.readlink(link) == f"socket:[{socket}]"
    except OSError:  # the process has ended, or belongs to another user
        return False
