"""Who knocks at a port where nobody answers any more."""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def knocks(port: int) -> Iterator[list[object]]:
    """The addresses of those who connect, as they come."""
    seen: list[object] = []
    with _server(port) as server:

        def accept() -> None:
            while True:
                try:
                    connection, address = server.accept()
                except OSError:
                    return
                seen.append(address)
                connection.close()

        threading.Thread(target=accept, daemon=True).start()
        yield seen
        server.shutdown(socket.SHUT_RDWR)


def _server(port: int, within_s: float = 10.0) -> socket.socket:
    """A server at a port that was in use a moment ago: a connection of somebody else may have taken it since."""
    give_up = time.monotonic() + within_s
    while True:
        try:
            return socket.create_server(("127.0.0.1", port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > give_up:
                raise
            time.sleep(0.05)
