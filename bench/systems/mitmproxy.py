"""mitmproxy: an intercepting proxy, here in front of one upstream, with its own recording and server replay."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import streams
from measurements import Numbers
from streams import Proxy

NAME = "mitmproxy"
DISTRIBUTION = "mitmproxy"

_MAIN = "import sys; from mitmproxy.tools.main import mitmdump; sys.exit(mitmdump())"
_START_S = 30


def proxied(work: Path, count: int) -> Numbers:
    """Streamed requests through `mitmdump`, which stores them; then served from what it stored.

    It stores what it has buffered, and nothing of what it streams: the first byte is given out when the last has come.
    """
    flows, home = work / "flows", work / "home"

    @contextmanager
    def started(address: str, *options: str) -> Iterator[Proxy]:
        port = _free_port()
        command = [sys.executable, "-c", _MAIN, "--quiet", "--set", f"confdir={home}", "--listen-host", "127.0.0.1"]
        command += ["--mode", f"reverse:{address}", "--listen-port", str(port), *options]
        with (work / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
            try:
                _wait_for(port, process)
                yield Proxy(port, "/v1/chat/completions", lambda: streams.cpu_of(process.pid))
            finally:
                process.terminate()  # writes what it has recorded
                process.wait(30)

    closed = ("--set", "server_replay_extra=kill", "--set", "connection_strategy=lazy")
    return streams.measured(
        lambda address: started(address, "--save-stream-file", str(flows)),
        lambda address: started(address, "--server-replay", str(flows), *closed),
        count,
    )


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    give_up = time.monotonic() + _START_S
    while time.monotonic() < give_up and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("mitmdump did not start")
