"""Who knocks at a port where nobody answers any more."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def knocks(port: int) -> Iterator[list[object]]:
    """The addresses of those who connect, as they come."""
    seen: list[object] = []
    with socket.create_server(("127.0.0.1", port)) as server:

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
