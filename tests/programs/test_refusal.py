"""Who is refused: the process at the other end of a connection, by its name and number."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from replaykit.programs.refusal import who


def connected(server: socket.socket, port: int = 0) -> socket.socket:
    """A client at that port, which may have been another connection's a moment ago."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    client.bind(("127.0.0.1", port))
    client.connect(server.getsockname())
    return client


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks /proc")
def test_a_port_that_was_another_connections_a_moment_ago_is_told_by_who_has_it() -> None:
    for _ in range(12):  # in which order the machine lists the two is chance
        with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
            with connected(first) as client:
                port = client.getsockname()[1]
                served, _peer = first.accept()
            served.recv(1)
            served.close()
            with connected(second, port):
                served, peer = second.accept()
                with served:
                    assert f"(process {os.getpid()}), node/v20" in who(peer, "node/v20 on linux")
