"""A proxy that lets nothing through, for programs in other languages that an agent starts in a replay.

Python processes stop their own connections. Others learn of this proxy from the usual variables; it refuses every
request, and reports it to the replay.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import socket
import threading
from collections.abc import Callable
from urllib.parse import quote, unquote, urlsplit

VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
"""The variables that point a program to its proxy."""
_HEAD_BYTES = 1 << 16
_PATIENCE_S = 5.0
_REFUSAL = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\nX-Replaykit: replay\r\n\r\n"


class RefusingProxy:
    """Listens until it is closed. `report` is called with a sentence for each refused request."""

    def __init__(self, report: Callable[[str], None], listener: socket.socket | None = None) -> None:
        """`listener` is a socket in the programs' network, if that is not this machine's."""
        self._report = report
        self._listener = listener or socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, name="replaykit-refused", daemon=True).start()

    def variables(self, name: str) -> dict[str, str]:
        """Return the variables for a process of this name."""
        address = f"http://{quote(name, safe='')}:x@127.0.0.1:{self.port}"
        return dict.fromkeys(VARIABLES, address)

    def close(self) -> None:
        """Stop listening. Just closing the socket would leave the thread in `accept`."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # closed
            with connection, contextlib.suppress(OSError):
                connection.settimeout(_PATIENCE_S)
                self._refuse(connection)

    def _refuse(self, connection: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head and len(head) < _HEAD_BYTES and (data := connection.recv(4096)):
            head += data
        if head:
            self._report(f"a live connection to {_target(head)} was stopped: the program {_program(head)!r} tried")
            connection.sendall(_REFUSAL)


def _target(head: bytes) -> str:
    words = head.split(b"\r\n", 1)[0].decode("ascii", "replace").split()
    target = words[1] if len(words) > 1 else "?"
    if "://" in target:
        return urlsplit(target).netloc
    return target


def _program(head: bytes) -> str:
    """Return the name of the client's process, which is the user name in the proxy's address."""
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"proxy-authorization":
            with contextlib.suppress(ValueError, binascii.Error):
                return unquote(base64.b64decode(value.split()[-1]).decode().partition(":")[0]).lstrip("~")
    return "?"
