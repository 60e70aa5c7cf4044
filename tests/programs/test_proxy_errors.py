"""Who is refused: the process at the other end of a connection, by its name and number."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from replaykit.programs.proxy_routing import describe_client

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks /proc")
HOLD = """
import socket, sys
with socket.socket() as client:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    client.bind(("127.0.0.1", int(sys.argv[1])))
    client.connect(("127.0.0.1", int(sys.argv[2])))
    sys.stdin.read()
"""


def connected(server: socket.socket, port: int = 0) -> socket.socket:
    """A client at that port, which another connection may have, or have had a moment ago."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    client.bind(("127.0.0.1", port))
    client.connect(server.getsockname())
    return client


def who_is_at(server: socket.socket) -> str:
    """Who the next client of the server is said to be."""
    served, peer = server.accept()
    with served:
        return describe_client((peer, served.getsockname()), "node/v20 on linux")


def test_a_port_that_was_another_connections_a_moment_ago_is_told_by_who_has_it() -> None:
    for _ in range(12):  # in which order the machine lists the two is chance
        with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
            with connected(first) as client:
                port = client.getsockname()[1]
                served, _peer = first.accept()
            served.recv(1)
            served.close()
            with connected(second, port):
                assert f"(process {os.getpid()}), node/v20" in who_is_at(second)


def test_a_port_that_two_processes_have_is_told_by_the_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        with connected(first) as client:
            port, other = client.getsockname()[1], second.getsockname()[1]
            command = [sys.executable, "-S", "-c", HOLD, str(port), str(other)]
            with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
                assert f"(process {process.pid}), node/v20" in who_is_at(second)
                assert f"(process {os.getpid()}), node/v20" in who_is_at(first)


def test_a_program_that_has_gone_is_called_what_it_calls_itself() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connected(server).close()
        served, peer = server.accept()
        with served:
            ends = peer, served.getsockname()
            served.recv(1)

        assert describe_client(ends, "node/v20 on linux") == "node/v20"
        assert describe_client(ends, "") == describe_client((None, None), "") == "the program"
