"""Allowed connections: made outside of the isolation, by a process of their own."""

from __future__ import annotations

import array
import ipaddress
import os
import socket
from _thread import start_new_thread
from typing import NamedTuple

from replaykit.errors import UsageError
from replaykit.isolation.policy import Address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_TIMEOUT_S = 60.0
_LONGEST = 512


class Allowed(NamedTuple):
    """Addresses that may be connected to, resolved before the isolation begins."""

    places: frozenset[tuple[str, int]]
    """IP addresses with ports; paths of unix sockets with port 0."""
    hosts: str
    """Lines for /etc/hosts, since no name server is reachable inside."""


def resolve(addresses: Iterable[str]) -> Allowed:
    """Resolve the allowed addresses; raise `UsageError` for an unknown name."""
    places: set[tuple[str, int]] = set()
    lines: list[str] = []
    for text in addresses:
        address = Address.parse(text)
        if not address.port:
            places.add((os.path.realpath(address.host), 0))
            continue
        for ip in _numbers_of(address, text):
            places.add((ip, address.port))
            if ip != address.host and address.host != "localhost":
                lines.append(f"{ip} {address.host}\n")
    return Allowed(frozenset(places), "".join(dict.fromkeys(lines)))


def _numbers_of(address: Address, text: str) -> list[str]:
    try:
        entries = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise UsageError(f"the address {text!r} that is allowed cannot be resolved: {error}") from None
    return sorted({str(ipaddress.ip_address(str(entry[4][0]).partition("%")[0])) for entry in entries})


def ask(dialer: socket.socket, host: str, port: int) -> socket.socket:
    """Request a connection; pass the returned socket to `receive` for the answer."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        socket.send_fds(dialer, [f"{port} {host}".encode()], [theirs.fileno()])
    return ours


def receive(answer: socket.socket) -> tuple[int, int]:
    """Return a connected descriptor and 0, or -1 and an error number."""
    data, descriptors, _, _ = socket.recv_fds(answer, 16, 1)
    if descriptors:
        return descriptors[0], 0
    return -1, int(data or b"104")


def serve(requests: socket.socket) -> None:
    """Make connections until nobody can request any more."""
    while True:
        data, descriptors, _, _ = socket.recv_fds(requests, _LONGEST, 1)
        if not descriptors:
            return
        port, _, host = data.decode().partition(" ")
        answer = socket.socket(fileno=descriptors[0])
        start_new_thread(_dial, (answer, host, int(port)))


def _dial(answer: socket.socket, host: str, port: int) -> None:
    with answer:
        try:
            connection = _connected(host, port)
        except OSError as error:
            answer.send(str(error.errno or 110).encode())
            return
        with connection:
            answer.sendmsg([b"0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [connection.fileno()]))])


def _connected(host: str, port: int) -> socket.socket:
    """Connect to an address. Not to a name: a lookup would import modules in a forked process."""
    family = socket.AF_UNIX
    if port:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
    connection = socket.socket(family)
    try:
        connection.settimeout(_TIMEOUT_S)
        connection.connect((host, port) if port else host)
        connection.settimeout(None)
    except OSError:
        connection.close()
        raise
    return connection
