"""A port that its server has closed, and who still connects to it."""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def connections_to(port: int) -> Iterator[list[object]]:
    """Give a list to which the addresses of those who connect are added as they come."""
    addresses: list[object] = []
    with _server(port) as server:

        def accept() -> None:
            while True:
                try:
                    connection, address = server.accept()
                except OSError:
                    return
                addresses.append(address)
                connection.close()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield addresses
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def _server(port: int, within_s: float = 10.0) -> socket.socket:
    """Listen at a port that was in use a moment ago: another program's connection may have taken it since."""
    give_up = time.monotonic() + within_s
    while True:
        try:
            return socket.create_server(("127.0.0.1", port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > give_up:
                raise
            time.sleep(0.05)
