"""Chunks on this machine, in the same processes as on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

from replaykit.cluster.bundle import Bundle
from replaykit.cluster.processes import ChunkProcesses


class LocalEngine:
    """Runs one chunk per slot at once."""

    def __init__(self, bundle: Bundle, job: bytes, slots: int, variables: Mapping[str, str]) -> None:
        self.slots = slots
        self._directory = TemporaryDirectory(prefix="replaykit-", ignore_cleanup_errors=True)
        root = Path(self._directory.name, "suite")
        self._processes = ChunkProcesses(root, bundle.data, bundle.digest, job, variables)
        self._threads = ThreadPoolExecutor(max_workers=slots, thread_name_prefix="replaykit-chunks")

    def submit(self, order: str, frames: bytes) -> Future[bytes]:
        """Submit a chunk."""
        return self._threads.submit(self._processes.run, frames)

    def close(self) -> None:
        """Stop everything that is running."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._processes.stop()
        self._threads.shutdown()
        self._directory.cleanup()
