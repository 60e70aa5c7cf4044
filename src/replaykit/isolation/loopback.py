"""The loopback interface of a new network namespace."""

from __future__ import annotations

import fcntl
import socket
import struct

_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


def start_loopback() -> None:
    """Bring the interface up: in a new network namespace it is there, and down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        request = struct.pack("16sH22x", b"lo", 0)
        flags = struct.unpack("16sH22x", fcntl.ioctl(one, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(one, _SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", flags | _IFF_UP))
