"""A process that runs items of chunks in the directory of the unpacked bundle, keeping the agent loaded."""

from __future__ import annotations

import io
import os
import platform
import queue
import threading
from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import IO

import msgspec
from msgspec.structs import replace

from replaykit import __version__
from replaykit.candidates.pool import Pool
from replaykit.candidates.replay import replay_once
from replaykit.candidates.worker_protocol import receive, receive_task, send
from replaykit.candidates.workers import WorkerCandidate
from replaykit.candidates.worlds import calls_of, with_options
from replaykit.cases.case import ReplayCase
from replaykit.cases.find import Unusable
from replaykit.cluster.protocol import ClusterJob, Item, ItemReply, ReplayItem, RunItem, WrittenLog, error_of
from replaykit.config import default_store_path
from replaykit.errors import FormatTooNew, InvalidFile, ReplayKitError, UsageError
from replaykit.model.events import AnyEvent, Call
from replaykit.private_files import remove_tree
from replaykit.project.case_selection import FiledCase, case_loader
from replaykit.project.plugins import load_plugins, plugin_names
from replaykit.project.project import load_project
from replaykit.redaction.keys import VARIABLE, project_key
from replaykit.redaction.placeholders import holds_placeholder, key_id
from replaykit.redaction.project import SWITCH

_LENGTH_BYTES = 4


def main() -> None:
    """Reply to items until the pipe ends. Printed output goes to stderr."""
    items, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    os.dup2(2, 1)
    job = receive(items, ClusterJob)
    if job is None:
        return
    runner = ItemRunner(job)
    received: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(items, received, runner), daemon=True).start()
    decoder: msgspec.json.Decoder[Item] = msgspec.json.Decoder(Item)
    while True:
        send(replies, runner.reply(decoder.decode(received.get())))


def _receive(stream: IO[bytes], received: queue.SimpleQueue[bytes], runner: ItemRunner) -> None:
    """Read whole messages. At the end of the stream, end this process and what it runs, even during a case."""
    while len(head := stream.read(_LENGTH_BYTES)) == _LENGTH_BYTES:
        received.put(stream.read(int.from_bytes(head, "big")))
    runner.stop()
    os._exit(0)


class ItemRunner:
    """Replies to the items of one suite."""

    def __init__(self, job: ClusterJob) -> None:
        self._job = job
        if not job.redacts:
            os.environ[SWITCH] = "0"
        self._has_key = key_id(project_key(default_store_path().parent)) == job.key_id
        places = tuple(os.path.abspath(directory) for directory in job.agent.directories)
        self._candidate = WorkerCandidate(replace(job.agent, directories=places))
        self._pool = Pool(self._candidate, workers=1)

    def stop(self) -> None:
        """Stop everything that is running, and delete its files."""
        self._candidate.stop()
        self._pool.__exit__(None, None, None)

    def reply(self, item: Item) -> ItemReply:
        """Return the reply to one item."""
        try:
            self._refuse_other_versions()
            workspace = self._pool.new_directory()
            try:
                if isinstance(item, RunItem):
                    return self._run(item, workspace)
                return self._replay(item, workspace)
            finally:
                remove_tree(workspace)
        except ReplayKitError as error:
            return ItemReply(error=error_of(error, is_fatal=True))

    def _replay(self, item: ReplayItem, workspace: Path) -> ItemReply:
        if not Path(item.path).is_file():
            hint = "Links out of the directory, secrets and caches are not sent; see docs/cluster.md"
            raise UsageError(f"{item.path} is not in the bundle", hint=hint)
        case = self._load(FiledCase(id=item.id, path=item.path))
        if isinstance(case, Unusable):
            return ItemReply(error=error_of(case.error, is_fatal=False))
        case = with_options(case, self._job.world)
        try:
            self._refuse_redacted(() if self._has_key else calls_of(case))
            result = replay_once(case, self._candidate, workspace, self._job.timeout_s)
        except (InvalidFile, FormatTooNew) as error:
            return ItemReply(error=error_of(error, is_fatal=False))
        is_kept = self._job.keep.covers(result)
        return ItemReply(
            result=result,
            input_json=case.scenario.input_json,
            context_json=case.scenario.context_json,
            files=_files_in(workspace) if is_kept else (),
            is_kept=is_kept,
        )

    def _run(self, item: RunItem, workspace: Path) -> ItemReply:
        task = receive_task(io.BytesIO(item.task))
        assert task is not None  # the message is complete
        self._refuse_redacted(task.world.calls)
        attempt = self._candidate.run_task(task, item.consent, workspace)
        return ItemReply(attempt=attempt, files=_files_in(workspace))

    @cached_property
    def _load(self) -> Callable[[FiledCase], ReplayCase | Unusable]:
        """A loader for cases with the suite's configuration, whose plugins are imported first."""
        if self._job.config is None:
            return case_loader(None)
        file = Path(self._job.config)
        names = plugin_names(file)
        if names is not None:
            load_plugins(names)
        return case_loader(load_project(file))

    def _refuse_other_versions(self) -> None:
        job = self._job
        own = (__version__, platform.python_version())
        if (job.version, job.python) != own:
            message = f"a worker has ReplayKit {own[0]} on Python {own[1]}; this is {job.version} on {job.python}"
            raise UsageError(message, hint="Install the same versions on all workers.")

    def _refuse_redacted(self, calls: Iterable[AnyEvent] | Iterable[Call]) -> None:
        """Raise for a redacted tape if this worker lacks the key it was redacted with."""
        if self._has_key:
            return
        if any(isinstance(call, Call) and holds_placeholder(bytes(call.arguments_json)) for call in calls):
            message = "a tape is redacted, and the workers have another redaction key than this machine"
            raise UsageError(message, hint=f"Set {VARIABLE} on all workers, as a secret of the cluster.")


def _files_in(workspace: Path) -> tuple[WrittenLog, ...]:
    files = sorted(path for path in workspace.rglob("*") if path.is_file() and not path.is_symlink())
    return tuple(WrittenLog(file.relative_to(workspace).as_posix(), file.read_bytes()) for file in files)
