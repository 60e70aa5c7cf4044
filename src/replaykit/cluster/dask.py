"""Chunks on a Dask cluster. Dask schedules them, reschedules those of dead workers, and reports those it gives up."""

from __future__ import annotations

import asyncio
import contextlib
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from replaykit.cluster.bundle import Bundle
from replaykit.cluster.cluster import WorkerLost
from replaykit.cluster.processes import ChunkProcesses
from replaykit.errors import FetchFailed, ReplayKitError, UsageError, install_hint

try:
    from distributed import Client, KilledWorker, Security, get_worker
    from distributed.comm import connect as comm_connect
    from distributed.diagnostics.plugin import WorkerPlugin
except ImportError:
    raise UsageError("--on dask://… needs dask.distributed", hint=install_hint("dask")) from None

_SCHEMES = {"dask://": "tcp://", "dask+tls://": "tls://"}
_PACKAGE = "agent-replaykit"
CONNECT_S = 15.0
"""The time limit for a scheduler to answer and to have a worker."""
LOST_S = 300.0
"""How long a suite waits for a cluster without workers."""
_LOOK_S = 5.0


class _Suite(WorkerPlugin):  # type: ignore[misc]  # distributed has no types
    """The bundle and processes of a suite on one worker. Workers that join later get them as well."""

    def __init__(self, name: str, bundle: bytes, digest: str, job: bytes) -> None:
        self.name = name
        self._bundle, self._digest, self._job = bundle, digest, job

    def setup(self, worker: Any) -> None:
        """Prepare for chunks. The first one unpacks the bundle."""
        root = Path(worker.local_directory) / self.name
        self.processes = ChunkProcesses(root, self._bundle, self._digest, self._job)
        self._bundle = b""

    async def teardown(self, worker: Any) -> None:
        """Stop the processes of the suite without blocking the worker."""
        await asyncio.to_thread(self.processes.stop)


def run_chunk(suite: str, order: str, frames: bytes) -> tuple[str, bytes]:
    """Run a chunk on the current worker."""
    return order, get_worker().plugins[suite].processes.run(frames)


def connect(on: str, bundle: Bundle, job: bytes) -> DaskEngine:
    """Connect to an engine; raise if it does not answer, or if its workers have other versions than this process."""
    scheme = next((scheme for scheme in _SCHEMES if on.startswith(scheme)), None)
    if scheme is None:
        raise UsageError(f"--on {on!r}: expected local or dask://HOST:PORT")
    address = _SCHEMES[scheme] + on.removeprefix(scheme)
    try:
        asyncio.run(_knock(address))
        client = Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        hint = "Start one: dask scheduler, and beside it: dask worker HOST:PORT"
        reason = str(error) or f"no answer within {CONNECT_S:g} s"
        raise FetchFailed(f"no scheduler answers at {on}: {reason}", hint=hint) from None
    try:
        return DaskEngine(client, bundle, job)
    except BaseException:
        client.close()
        raise


async def _knock(address: str) -> None:
    """Raise unless a Dask scheduler answers. `Client` would wait forever for a port that accepts but stays silent."""
    arguments = Security().get_connection_args("client")
    comm = await asyncio.wait_for(comm_connect(address, timeout=CONNECT_S, **arguments), CONNECT_S)
    await comm.close()


class DaskEngine:
    """Runs a chunk per thread of each worker."""

    def __init__(self, client: Any, bundle: Bundle, job: bytes) -> None:
        self._client = client
        _refuse_other_versions(client)
        self._slots, self._counted_at = 1, -_LOOK_S
        self._name = f"replaykit-{bundle.digest[:16]}-{time.time_ns():x}"
        client.register_plugin(_Suite(self._name, bundle.data, bundle.digest, job), name=self._name)

    @property
    def slots(self) -> int:
        """The number of threads of all workers, which may change during a suite."""
        now = time.monotonic()
        if now - self._counted_at >= _LOOK_S:
            self._slots, self._counted_at = max(1, _threads_of(self._client)), now
        return self._slots

    def submit(self, order: str, frames: bytes) -> _DaskChunk:
        """Submit a chunk."""
        future = self._client.submit(run_chunk, self._name, order, frames, pure=False)
        return _DaskChunk(self._client, order, future)

    def close(self) -> None:
        """Stop the suite on all workers and leave the cluster."""
        if self._client.status != "closed":
            with contextlib.suppress(OSError, TimeoutError):  # the scheduler has gone, and its workers have ended
                self._client.unregister_worker_plugin(self._name)
            self._client.close()


class _DaskChunk:
    """A chunk submitted to Dask."""

    def __init__(self, client: Any, order: str, future: Any) -> None:
        self._client = client
        self._order = order
        self._future = future

    def done(self) -> bool:
        """Return whether `result` is available."""
        return bool(self._future.done())

    def result(self) -> bytes:
        """Wait for the replies while the cluster has workers."""
        seen_at = time.monotonic()
        while True:
            try:
                order, frames = self._future.result(timeout=_LOOK_S)
            except TimeoutError:
                if _threads_of(self._client):
                    seen_at = time.monotonic()
                if time.monotonic() - seen_at > LOST_S:
                    raise FetchFailed(f"the cluster has had no worker for {LOST_S:g} s") from None
                continue
            except KilledWorker as error:
                raise WorkerLost(f"{error.allowed_failures + 1} workers died while they ran it") from None
            except ReplayKitError:
                raise
            except Exception as error:
                raise FetchFailed(f"the cluster gave no answer: {type(error).__name__}: {error}") from error
            if order != self._order:
                raise FetchFailed("the cluster answered another chunk")
            return bytes(frames)


def _threads_of(client: Any) -> int:
    """Return the number of threads of all workers."""
    try:
        return sum(client.nthreads().values())
    except (OSError, TimeoutError) as error:
        raise FetchFailed(f"the scheduler is gone: {error}") from None


def _refuse_other_versions(client: Any) -> None:
    """Raise `UsageError` if a worker has another version of ReplayKit or Python, or no ReplayKit."""
    try:
        client.wait_for_workers(1, timeout=CONNECT_S)
    except TimeoutError:
        raise FetchFailed("the cluster has no workers", hint="Start one: dask worker HOST:PORT") from None
    own = {"ReplayKit": version(_PACKAGE), "Python": platform.python_version()}
    packages = client.run(version, _PACKAGE, on_error="return")
    pythons = client.run(platform.python_version)
    for worker, package in packages.items():
        if isinstance(package, PackageNotFoundError):
            hint = f"Install version {own['ReplayKit']} on all workers."
            raise UsageError(f"the worker {worker} has no ReplayKit", hint=hint)
        for name, found in (("ReplayKit", package), ("Python", pythons[worker])):
            if str(found) != own[name]:
                message = f"the worker {worker} has {name} {found}, and this machine has {own[name]}"
                raise UsageError(message, hint="Install the same versions on all workers.")
