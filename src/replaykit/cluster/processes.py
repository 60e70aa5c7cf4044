"""The processes of one worker of an engine. Each keeps the agent loaded and runs one chunk's items at a time."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import msgspec

from replaykit.candidates.process import kill_group
from replaykit.cluster.bundle import unpack
from replaykit.cluster.protocol import ItemReply, frames_of, messages_in
from replaykit.errors import FetchFailed
from replaykit.private_files import remove_tree

TRIES = 3
"""The number of processes that may die with an item before it is given up."""
# How long a process gets to stop by itself, with what it runs, once its input is closed.
_GRACE_S = 10.0
_MAIN = "from replaykit.cluster.worker import main; main()"
_LENGTH_BYTES = 4


class ChunkProcesses:
    """Runs chunks of one suite, one per calling thread. Stop it at the end."""

    def __init__(
        self, root: Path, bundle: bytes, digest: str, job: bytes, variables: Mapping[str, str] | None = None
    ) -> None:
        """`root` is a new directory for the suite's files. `variables` are added to the processes' environment."""
        self._root = root
        self._bundle = bundle
        self._digest = digest
        self._job = job
        self._variables = variables or {}
        self._lock = threading.Lock()
        self._idle: list[_Process] = []
        self._all: set[_Process] = set()
        self._is_unpacked = self._is_stopped = False

    def run(self, frames: bytes) -> bytes:
        """Return the replies to the items of a chunk, in order.

        If a process dies, only its current item is retried. An item that kills every process gets that as its reply.
        """
        self._unpack()
        replies = []
        for item in messages_in(frames):
            replies.append(self._reply(item))
        return frames_of(replies)

    def stop(self) -> None:
        """Stop all processes and delete their files."""
        with self._lock:
            self._is_stopped = True
            running = list(self._all)
        for process in running:
            process.end()
        remove_tree(self._root)

    def _unpack(self) -> None:
        """Unpack the bundle before the first chunk, once for all callers."""
        with self._lock:
            if self._is_unpacked:
                return
            self._root.mkdir(mode=0o700)
            unpack(self._bundle, self._digest, self._root / "files")
            self._bundle = b""
            self._is_unpacked = True

    def _reply(self, item: bytes) -> bytes:
        ends = []
        for _ in range(TRIES):
            process = self._take()
            reply = process.exchange(item)
            if reply is not None:
                with self._lock:
                    self._idle.append(process)
                return reply
            ends.append(process.end())
            with self._lock:
                self._all.discard(process)
        return msgspec.json.encode(ItemReply(died=f"the process that ran it died {TRIES} times: {', '.join(ends)}"))

    def _take(self) -> _Process:
        with self._lock:
            if self._is_stopped:
                raise FetchFailed("the workers were stopped")
            if self._idle:
                return self._idle.pop()
            process = _Process(self._root / "files", self._job, {**os.environ, **self._variables})
            self._all.add(process)
            return process


class _Process:
    """One process, started in the directory of the bundle."""

    def __init__(self, directory: Path, job: bytes, environment: Mapping[str, str]) -> None:
        # -P keeps modules of the bundle from shadowing those of ReplayKit. The agent's own processes do import from it.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _MAIN],
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=os.name == "posix",
        )
        self._send(job)

    def exchange(self, item: bytes) -> bytes | None:
        """Send an item and return its reply; None if the process died."""
        assert self._process.stdout is not None  # stdout is a pipe
        if not self._send(item):
            return None
        head = self._process.stdout.read(_LENGTH_BYTES)
        size = int.from_bytes(head, "big")
        reply = self._process.stdout.read(size)
        if len(head) < _LENGTH_BYTES or len(reply) < size:
            return None
        return reply

    def _send(self, message: bytes) -> bool:
        """Send a message; return False if the process has died."""
        assert self._process.stdin is not None  # stdin is a pipe
        try:
            self._process.stdin.write(len(message).to_bytes(_LENGTH_BYTES, "big") + message)
            self._process.stdin.flush()
        except OSError:
            return False
        return True

    def end(self) -> str:
        """End the process and return how it ended."""
        assert self._process.stdin is not None  # both are pipes
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_GRACE_S)
        kill_group(self._process)
        self._process.stdout.close()
        code = self._process.returncode
        return f"signal {-code}" if code < 0 else f"exit code {code}"
