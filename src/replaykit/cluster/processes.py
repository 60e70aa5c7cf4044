"""The processes of one worker of an engine: each keeps the agent warm, and runs the items of one chunk at a time."""

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
from replaykit.private_directories import remove_tree

TRIES = 3
"""The number of processes that may die with an item before it is given up."""
_GRACE_S = 10.0
"""A process ends by itself, and what it runs with it, when nobody asks it for more."""
_MAIN = "from replaykit.cluster.worker import main; main()"
_LENGTH_BYTES = 4


class ChunkProcesses:
    """Runs chunks of one suite, as many side by side as there are callers. Stop it when the suite ends."""

    def __init__(
        self, root: Path, bundle: bytes, digest: str, job: bytes, variables: Mapping[str, str] | None = None
    ) -> None:
        """`root` is a new directory for the files of the suite; `variables` are set for the processes as well."""
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
        """Return the replies to the items of a chunk, in their order.

        A process that dies costs its item a new try and no other item anything; an item with which it dies each time
        is answered with that.
        """
        self._unpack()
        replies = []
        for item in messages_in(frames):
            replies.append(self._reply(item))
        return frames_of(replies)

    def stop(self) -> None:
        """End all processes and remove their files."""
        with self._lock:
            self._is_stopped = True
            running = list(self._all)
        for process in running:
            process.end()
        remove_tree(self._root)

    def _unpack(self) -> None:
        """Unpack the bundle before the first chunk; once, however many callers there are."""
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
    """One process, in the directory of the bundle."""

    def __init__(self, directory: Path, job: bytes, environment: Mapping[str, str]) -> None:
        # -P: no module of the bundle takes the place of one of ours. The agent's own processes do look there.
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
        """Return the reply to an item; None when the process died."""
        assert self._process.stdout is not None  # it was asked for
        if not self._send(item):
            return None
        head = self._process.stdout.read(_LENGTH_BYTES)
        size = int.from_bytes(head, "big")
        reply = self._process.stdout.read(size)
        if len(head) < _LENGTH_BYTES or len(reply) < size:
            return None
        return reply

    def _send(self, message: bytes) -> bool:
        """Return False when the process has died."""
        assert self._process.stdin is not None  # it was asked for
        try:
            self._process.stdin.write(len(message).to_bytes(_LENGTH_BYTES, "big") + message)
            self._process.stdin.flush()
        except OSError:
            return False
        return True

    def end(self) -> str:
        """End the process, and return how it ended."""
        assert self._process.stdin is not None  # both were asked for
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_GRACE_S)
        kill_group(self._process)
        self._process.stdout.close()
        code = self._process.returncode
        return f"signal {-code}" if code < 0 else f"exit code {code}"
