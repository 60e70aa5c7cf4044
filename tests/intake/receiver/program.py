"""`replaykit serve` as a program in a process of its own."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.result_schemas import flaws


class Serve:
    """The program, its address, and the lines it printed since."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-m", "replaykit", "serve", "--port", "0", "--json", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.first = self.line()
        self.address = self.first["url"].removeprefix("http://")
        self.errors = ""

    def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        assert text, self.process.stderr.read() if self.process.stderr else ""
        return _checked(text)

    def post(self, body: bytes) -> int:
        connection = http.client.HTTPConnection(self.address, timeout=30)
        try:
            connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
            return connection.getresponse().status
        finally:
            connection.close()

    def end(self, number: int = signal.SIGTERM) -> list[dict[str, Any]]:
        self.process.send_signal(number)
        assert self.process.stdout is not None
        lines = list(map(_checked, self.process.stdout))  # `communicate` forgets what `line` has read ahead
        self.errors = self.process.stderr.read() if self.process.stderr else ""
        self.process.wait(timeout=60)
        return lines


def _checked(text: str) -> dict[str, Any]:
    """Return what a line says; every line has to keep the schema."""
    found: dict[str, Any] = json.loads(text)
    assert flaws("result.serve", found) == []
    return found


@contextmanager
def serve(*options: str) -> Iterator[Serve]:
    program = Serve(*options)
    try:
        yield program
    finally:
        program.process.kill()
        program.process.communicate()
