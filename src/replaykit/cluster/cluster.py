"""Run a suite on an engine: cases go out in chunks, replies come back in order, and each counts once."""

from __future__ import annotations

import io
import os
import platform
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from replaykit import __version__
from replaykit.candidates.attempt import Attempt, Candidate
from replaykit.candidates.evidence import EvidenceFiles, new_workspace, write_evidence
from replaykit.candidates.pool import cores
from replaykit.candidates.python import PythonCandidate
from replaykit.candidates.worker_protocol import Task, WorkerJob, send_task
from replaykit.candidates.workers import WorkerCandidate
from replaykit.candidates.worlds import WorldOptions, world_of
from replaykit.cases.case import ReplayCase
from replaykit.cases.find import Unusable
from replaykit.checks.verdict import failed_to_run
from replaykit.cluster.bundle import Bundle, is_inner_path, pack
from replaykit.cluster.protocol import (
    ClusterJob,
    Item,
    ItemReply,
    KeepRule,
    ReplayItem,
    RunItem,
    WrittenLog,
    frames_of,
    messages_in,
    order_of,
    raised,
)
from replaykit.config import default_store_path
from replaykit.errors import FetchFailed, ReplayKitError, UsageError
from replaykit.model.isolation import Consent
from replaykit.model.result import ReplayResult
from replaykit.model.values import ABSENT, Raw
from replaykit.project.case_selection import FiledCase
from replaykit.project.project import Project
from replaykit.redaction.keys import VARIABLE, project_key
from replaykit.redaction.placeholders import key_id
from replaykit.redaction.project import is_on
from replaykit.telemetry.switch import watcher

LOCAL = "local"
# The number of chunks per slot that may be in progress or waiting to be yielded, because they stay in memory.
_AHEAD = 8
# The target duration of a chunk: long compared with the cost of sending it, short compared with the suite.
_CHUNK_S = 1.0
_FIRST_ITEMS, _MAX_ITEMS = 8, 512


class WorkerLost(Exception):
    """Workers died repeatedly while running a chunk."""


class PendingChunk(Protocol):
    """A submitted chunk."""

    def done(self) -> bool:
        """Return whether `result` is available."""

    def result(self) -> bytes:
        """Wait for the replies; raise `WorkerLost` if the engine gave up."""


class Engine(Protocol):
    """Schedules and runs chunks."""

    @property
    def slots(self) -> int:
        """The number of chunks that can run at once. It may change."""

    def submit(self, order: str, frames: bytes) -> PendingChunk:
        """Submit a chunk."""

    def close(self) -> None:
        """Stop everything that is running."""


class ClusterSettings(Struct, frozen=True, kw_only=True):
    """The options of a suite."""

    project: Project | None = None
    world: WorldOptions = WorldOptions()
    timeout_s: float | None = None
    keep: KeepRule = KeepRule()
    jobs: int | None = None
    """The number of processes on this machine."""


class CaseReply(Struct, frozen=True, kw_only=True):
    """The reply to one case, with the files of its run."""

    result: ReplayResult
    input_json: Raw = ABSENT
    context_json: Raw = ABSENT
    files: tuple[WrittenLog, ...] = ()
    is_kept: bool = False
    error: ReplayKitError | None = None
    """An error in the case's own file."""

    def with_evidence(self, files: EvidenceFiles | None) -> ReplayResult:
        """Return the result, writing its evidence if it is to be kept."""
        if files is None or not self.is_kept:
            return self.result
        directory = new_workspace(files.root, self.result.case_id)
        write_logs(self.files, directory)
        return write_evidence(directory, replace(self.result, directory=str(directory)), self.input_json)


class Cluster:
    """The workers of one suite. Close it at the end."""

    def __init__(self, on: str, candidate: Candidate, settings: ClusterSettings) -> None:
        """`on` is `local` or a scheduler's address, `dask://HOST:PORT`."""
        refuse_consent_of_this_machine(settings.world.consent)
        root = Path.cwd()
        agent = _portable_agent(candidate, root)
        self._root = root
        key = project_key(default_store_path().parent)
        bundle = pack(root)
        self.left_out = bundle.left_out
        """Links that were not sent."""
        config = None if settings.project is None else _path_in(root, str(settings.project.file))
        self._job = msgspec.json.encode(
            ClusterJob(
                version=__version__,
                python=platform.python_version(),
                bundle=bundle.digest,
                agent=agent,
                config=config,
                key_id=key_id(key),
                redacts=is_on(),
                world=settings.world,
                timeout_s=settings.timeout_s,
                keep=settings.keep,
            )
        )
        self._label = candidate.label
        self._sending = threading.RLock()
        self._in_flight: dict[int, _Sent] = {}
        self._engine = _engine(on, bundle, self._job, settings.jobs, {VARIABLE: key.hex()})
        self.candidate = ClusterCandidate(self, candidate.label)
        """The agent for trials, whose verdicts are reached in this process. Each run is a chunk."""

    @property
    def jobs(self) -> int:
        """The number of runs to submit at once, so that no worker is idle."""
        return 2 * self._engine.slots

    def replays(self, cases: Sequence[ReplayCase | Unusable | FiledCase]) -> Iterator[CaseReply]:
        """Yield the reply to each case, in order, as soon as possible.

        Only a few chunks are in progress at a time, so that memory does not grow with the suite.
        """
        sizes, begin = _ChunkSizes(len(cases)), 0
        waiting: deque[tuple[Sequence[ReplayCase | Unusable | FiledCase], _Sent]] = deque()
        while waiting or begin < len(cases):
            slots = self._engine.slots
            while begin < len(cases) and len(waiting) < _AHEAD * slots:
                chunk = cases[begin : begin + sizes.next(slots)]
                begin += len(chunk)
                waiting.append((chunk, self._send(list(self._items(chunk)))))
            chunk, sent = waiting.popleft()
            replies = iter(self._received(sent))
            for case in chunk:
                reply = _unusable_reply(case) if isinstance(case, Unusable) else self._case_reply(case, next(replies))
                sizes.add(reply.result.duration_s)
                yield reply

    def replay_many(
        self,
        cases: Sequence[ReplayCase | Unusable],
        evidence: Path,
        *,
        on_done: Callable[[], None],
        on_wrong: Callable[[ReplayKitError], None] | None,
    ) -> list[ReplayResult]:
        """Return the result of each case, like the function `replay_many` without an engine."""
        files = EvidenceFiles(root=evidence, of_passed=True)
        results = []
        for case, reply in zip(cases, self.replays(cases), strict=True):
            if reply.error is not None and not isinstance(case, Unusable):
                if on_wrong is None:
                    raise reply.error
                on_wrong(reply.error)
            results.append(reply.with_evidence(files))
            on_done()
        return results

    def ask(self, item: Item) -> ItemReply:
        """Send one item and return its reply."""
        return self._received(self._send([item]))[0]

    def close(self) -> None:
        """Stop the suite on all workers."""
        self._engine.close()

    def _items(self, chunk: Iterable[ReplayCase | Unusable | FiledCase]) -> Iterator[Item]:
        for case in chunk:
            if not isinstance(case, Unusable):
                path = case.path if isinstance(case, FiledCase) else str(case.file)
                yield ReplayItem(id=case.id, path=_path_in(self._root, path))

    def _send(self, items: Sequence[Item]) -> _Sent:
        frames = frames_of([msgspec.json.encode(item) for item in items])
        order = order_of(self._job, frames)
        with self._sending:
            sent = _Sent(items, self._engine.submit(order, frames))
            self._in_flight[id(sent)] = sent
        return sent

    def _received(self, sent: _Sent) -> list[ItemReply]:
        """Return the replies to a chunk. If it was lost with its workers, halve it until each item has a reply."""
        if not sent.items:
            return []
        try:
            return self._replies(sent)
        except WorkerLost:
            if len(sent.items) == 1:
                return self._reply_alone(sent.items)
            middle = len(sent.items) // 2
            halves = [self._send(sent.items[:middle]), self._send(sent.items[middle:])]
            return [reply for half in halves for reply in self._received(half)]

    def _reply_alone(self, items: Sequence[Item]) -> list[ItemReply]:
        """Return the reply to one item that runs while no other does.

        A dying worker loses everything that runs on it, so the item may only have run beside the cause. It is the cause
        itself only if workers also die while it runs alone.
        """
        with self._sending:
            for other in list(self._in_flight.values()):
                other.wait()
            sent = self._send(items)
            try:
                return self._replies(sent)
            except WorkerLost as error:
                return [ItemReply(died=str(error))]

    def _replies(self, sent: _Sent) -> list[ItemReply]:
        try:
            messages = messages_in(sent.pending.result())
        finally:
            del self._in_flight[id(sent)]
        if len(messages) != len(sent.items):
            raise FetchFailed(f"a worker answered {len(messages)} of {len(sent.items)} items")
        replies = []
        for message in messages:
            reply = _REPLIES.decode(message)
            if reply.error is not None and reply.error.is_fatal:
                raise raised(reply.error)
            replies.append(reply)
        return replies

    def _case_reply(self, case: ReplayCase | FiledCase, reply: ItemReply) -> CaseReply:
        if reply.result is not None:
            if reply.result.case_id != case.id:
                raise FetchFailed(f"a worker answered for the case {reply.result.case_id!r}, and {case.id!r} was next")
            if (listening := watcher()) is not None:
                listening.replayed(reply.result.run, reply.result.verdict.value, reply.result.duration_s)
            return CaseReply(
                result=reply.result,
                input_json=reply.input_json,
                context_json=reply.context_json,
                files=reply.files,
                is_kept=reply.is_kept,
            )
        error = None if reply.error is None else raised(reply.error)
        reason = reply.died if error is None else str(error)
        label = self._label if error is None else ""
        return _failed(failed_to_run(case.id, reason, label), error)


_REPLIES = msgspec.json.Decoder(ItemReply)


class _Sent(Struct, frozen=True):
    """A submitted chunk with its items."""

    items: Sequence[Item]
    pending: PendingChunk

    def wait(self) -> None:
        """Wait until the chunk is done, or lost."""
        with suppress(WorkerLost):  # reported to its sender
            self.pending.result()


class _ChunkSizes:
    """Chooses the number of cases per chunk: as many as take `_CHUNK_S`, and fewer towards the end of the suite."""

    def __init__(self, total: int) -> None:
        self._remaining = total
        self._count = 0
        self._seconds = 0.0

    def add(self, seconds: float) -> None:
        """Take the duration of a case into account."""
        self._count += 1
        self._seconds += seconds

    def next(self, slots: int) -> int:
        """Return the size of the next chunk, given the number of slots."""
        size = _FIRST_ITEMS
        if self._count:
            mean_s = max(self._seconds / self._count, _CHUNK_S / _MAX_ITEMS)
            size = round(_CHUNK_S / mean_s)
        share = self._remaining // (2 * slots)
        size = max(1, min(size, share, _MAX_ITEMS))
        self._remaining -= size
        return size


def _unusable_reply(case: Unusable) -> CaseReply:
    return _failed(failed_to_run(case.id, case.reason), case.error)


def _failed(result: ReplayResult, error: ReplayKitError | None) -> CaseReply:
    return CaseReply(result=result, error=error)


class ClusterCandidate:
    """An agent that runs on the workers of a suite and is judged here."""

    def __init__(self, cluster: Cluster, label: str) -> None:
        self.label = label
        self._cluster = cluster

    def run(self, case: ReplayCase, workspace: Path, timeout_s: float) -> Attempt:
        """Run the agent once, on the next idle worker."""
        consent = case.scenario.consent
        refuse_consent_of_this_machine(consent)
        task = io.BytesIO()
        send_task(task, Task(world=world_of(case), timeout_s=timeout_s))
        reply = self._cluster.ask(RunItem(consent=consent, task=task.getvalue()))
        write_logs(reply.files, workspace)
        if reply.attempt is None:
            return Attempt(reason=reply.died)
        return reply.attempt

    def stop(self) -> None:
        """Stop everything that is running."""
        self._cluster.close()


def write_logs(files: Iterable[WrittenLog], directory: Path) -> None:
    """Write the files of a remote run. Paths that leave the directory are refused."""
    for file in files:
        if not is_inner_path(file.path):
            raise FetchFailed(f"a worker sent a file with the path {file.path!r}")
        target = directory / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as stream:
            stream.write(file.content)


def refuse_consent_of_this_machine(consent: Consent) -> None:
    """Raise `UsageError` for a consent to use places of this machine, because workers have none of them."""
    if consent.write or consent.keep_writes:
        option = "--allow-write" if consent.write else "--keep-writes"
        raise UsageError(f"{option} names a directory of this machine, and --on runs the agent in copies elsewhere")
    for place in consent.connect:
        if place.startswith(("/", ".")):
            raise UsageError(f"--allow-connect {place} is a socket of this machine, and --on runs the agent elsewhere")


def _portable_agent(candidate: Candidate, root: Path) -> WorkerJob:
    """Return the agent in a form that workers can import from the bundle."""
    if isinstance(candidate, PythonCandidate):
        return WorkerJob(spec=candidate.label, sort="python", directories=(".",))
    if isinstance(candidate, WorkerCandidate):
        places = tuple(_path_in(root, directory) for directory in candidate.job.directories)
        return replace(candidate.job, directories=places)
    raise UsageError(
        f"--on runs agents in Python, and {candidate.label} is a program or a server of this machine",
        hint="Name a function: --agent MODULE:FUNCTION. Or divide the suite among machines: --shard K/N",
    )


def _path_in(root: Path, path: str) -> str:
    """Return a path relative to the bundle."""
    if is_inner_path(path):
        return path
    relative = os.path.relpath(path, root).replace(os.sep, "/")
    if relative == ".." or relative.startswith("../"):
        hint = "Start in a directory that holds the configuration, the agent and the cases."
        raise UsageError(f"{path} is outside of {root}, which is what workers get", hint=hint)
    return relative


def _engine(on: str, bundle: Bundle, job: bytes, jobs: int | None, local_variables: dict[str, str]) -> Engine:
    if on == LOCAL:
        from replaykit.cluster.local import LocalEngine  # noqa: PLC0415 (import only what this engine needs)

        return LocalEngine(bundle, job, jobs or cores(), local_variables)
    if jobs is not None:
        raise UsageError("--jobs is for one machine; the workers of a cluster say how many runs they take")
    from replaykit.cluster.dask import connect  # noqa: PLC0415 (an optional extra, and slow to import)

    return connect(on, bundle, job)
