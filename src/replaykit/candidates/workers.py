"""Workers: processes that import an agent once and fork for each case. One that hangs or dies is replaced."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import weakref
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

from msgspec import MsgspecError
from msgspec.structs import replace

from replaykit.candidates.attempt import Attempt, reported_on, served_from
from replaykit.candidates.clock import ReplayClock
from replaykit.candidates.confinement import boundary_for, confined_tree, with_isolation, without_sandbox
from replaykit.candidates.evidence import new_workspace
from replaykit.candidates.output_log import in_files, worker_logs
from replaykit.candidates.process import kill_group, last_lines, timed_out_run
from replaykit.candidates.worker_protocol import Reply, Task, WorkerJob, receive, receive_reply, send, send_task
from replaykit.candidates.worlds import world_of
from replaykit.cases.case import ReplayCase
from replaykit.model.isolation import Consent, Isolation, WrittenFile
from replaykit.model.values import sayable
from replaykit.programs.plan import hash_seed

LOAD_TIMEOUT_S = 120.0
"""The time limit for importing an agent."""
_KEPT_BYTES = 1 << 16
_GRACE_S = 5.0  # extra time for a worker that cannot end a task at its time limit
_MAIN = "from replaykit.candidates.worker import main; main()"


class WorkerCandidate:
    """A Python agent that runs in one worker per parallel case. Use it in a `with` block, or call `stop`."""

    def __init__(self, job: WorkerJob) -> None:
        self.label = job.spec
        self.job = job
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()
        self._cannot_load = ""
        self._stopped = threading.Event()
        weakref.finalize(self, _end, self._all)  # for users who never call `stop`

    def __enter__(self) -> WorkerCandidate:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def run(self, case: ReplayCase, workspace: Path, timeout_s: float) -> Attempt:
        """Run the case in an idle worker, starting one if necessary."""
        return self.run_task(Task(world=world_of(case), timeout_s=timeout_s), case.scenario.consent, workspace)

    def run_task(self, task: Task, consent: Consent, workspace: Path) -> Attempt:
        """Run a task in an idle worker, starting one if necessary."""
        if self._cannot_load:  # a new worker could not load it either
            return Attempt(reason=self._cannot_load)
        worker = self._take(hash_seed(task.world.pins, os.environ), consent)
        if worker is None:
            return Attempt(reason="the workers were stopped")
        with worker.printing_into(workspace) as logs:
            attempt = worker.run(replace(task, logs=logs), consent)
        if not attempt.run and not attempt.reason:
            attempt = Attempt(reason=worker.how_it_died(workspace))
        self._cannot_load = self._cannot_load or worker.cannot_load
        self._give_back(worker)
        return attempt

    def _take(self, hashes: str, consent: Consent) -> _Worker | None:
        """Return a worker with the hash seed and boundary that the case needs; None after `stop`."""
        boundary = boundary_for(consent)
        with self._lock:
            if self._stopped.is_set():
                return None
            for worker in self._idle:
                if (worker.hashes, worker.boundary) == (hashes, boundary):
                    self._idle.remove(worker)
                    return worker
        # Outside of the lock, because starting a process takes long. `stop` may come meanwhile.
        worker = _Worker(self.job, hashes, consent)
        with self._lock:
            if not self._stopped.is_set():
                self._all.add(worker)
                return worker
        worker.end()  # the worker was started during `stop`
        return None

    def _give_back(self, worker: _Worker) -> None:
        with self._lock:
            if worker.usable:
                self._idle.append(worker)
                return
            self._all.discard(worker)
        worker.end()

    def stop(self) -> None:
        """End all workers. No new ones start."""
        with self._lock:
            self._stopped.set()
            self._idle.clear()
        _end(self._all)


def _end(workers: set[_Worker]) -> None:
    while workers:
        workers.pop().end()


class _Worker:
    """One worker process. `usable` until it dies or is ended."""

    def __init__(self, job: WorkerJob, hashes: str, consent: Consent) -> None:
        self.hashes = hashes
        self.boundary = boundary_for(consent)
        """What this worker may reach. It serves any case with the same boundary."""
        self._cleanup = contextlib.ExitStack()
        self._confined = self._cleanup.enter_context(confined_tree(consent))
        self._logs = worker_logs()
        self._process = self._confined.start(
            [sys.executable, "-c", _MAIN],
            env={**os.environ, "PYTHONHASHSEED": hashes},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=() if self._logs is None else self._logs.sinks,
            start_new_session=os.name == "posix",
        )
        assert self._process.stdin is not None  # all three are pipes
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._tasks, self._replies = self._process.stdin, self._process.stdout
        self._loading = _Loading(self._process.stderr)
        self._spec = job.spec
        self._job: WorkerJob | None = replace(
            job,
            is_confined=self.boundary is not None,
            # Files really written by one task are visible inside the sandbox, and the layer of another task cannot hide
            # them.
            has_one_task=self.boundary is not None and bool(consent.write or consent.keep_writes),
            logs=() if self._logs is None else self._logs.sinks,
        )
        self._reuses = job.reuses
        self._written_before: frozenset[WrittenFile] = frozenset()
        self._count_before = 0
        self._timed_out = False
        self._died = ""
        self._clock = ReplayClock()
        self.usable = True
        self.cannot_load = ""
        """The reason why the agent could not be loaded."""

    def run(self, task: Task, consent: Consent) -> Attempt:
        """Run one task, loading the agent before the first.

        If the worker dies, the attempt has neither run nor reason.
        """
        self._died = ""
        if self._job is not None:
            loaded = self._exchange(self._job, LOAD_TIMEOUT_S)
            self._job = None
            if loaded is None:
                late = f"it took more than {LOAD_TIMEOUT_S:g} s"
                if self._timed_out:
                    why = late
                else:
                    why = self._how_it_ended(self._loading.last_lines())
                self.cannot_load = f"the agent {self._spec!r} cannot be loaded: {why}"
            else:
                self.cannot_load = loaded.reason
            if self.cannot_load:
                return Attempt(reason=self.cannot_load)
        reply = self._exchange(task, task.timeout_s + _GRACE_S)
        attempt = self._attempt(task, reply)
        if consent.keep_writes:
            self._confined.keep_writes(new_workspace(Path(consent.keep_writes), task.world.case_id))
        if self.boundary is None:
            isolation = without_sandbox(consent)
        else:
            isolation = self._isolation_of_task(reply)
        return with_isolation(attempt, isolation)

    def _isolation_of_task(self, reply: Reply | None) -> Isolation:
        """Return the isolation of a task: of its nested sandbox, or of a worker with a single task."""
        if self._reuses:
            return self._isolation_since()
        if reply is None or reply.last:
            return self._confined.isolation()
        try:
            nested = receive(self._replies, Isolation)
        except (OSError, ValueError, MsgspecError):
            nested = None
        if nested is None:
            self.usable = False
            return self._confined.isolation()
        outer = self._confined.isolation(lists_written=False)
        notes = tuple(dict.fromkeys((*outer.notes, *nested.notes)))
        written = {"written": nested.written, "written_count": nested.written_count}
        return replace(outer, **written, notes=notes)

    def _isolation_since(self) -> Isolation:
        """Return the isolation of a task in a sandbox that earlier tasks have also written to."""
        whole = self._confined.isolation()
        written = tuple(file for file in whole.written if file not in self._written_before)
        count = whole.written_count - self._count_before
        self._written_before, self._count_before = frozenset(whole.written), whole.written_count
        return replace(whole, written=written, written_count=max(count, len(written)))

    def _attempt(self, task: Task, reply: Reply | None) -> Attempt:
        if reply is not None and reply.died:
            self._died = reply.died
            return Attempt()
        if reply is not None:
            evidence = served_from(task.world, reply.run, reply.deviations)
            return Attempt(run=reply.run, deviations=reply.deviations, reason=reply.reason, evidence=evidence)
        if self._timed_out:
            run = timed_out_run(task.timeout_s)
            return Attempt(run=run, evidence=reported_on(task.world, run))
        return Attempt()

    def printing_into(self, workspace: Path) -> AbstractContextManager[tuple[str, str] | None]:
        """Write what the agent prints during the block to the workspace. The logs are complete when the block ends.

        Yields the names of the files that the agent must open itself, if any.
        """
        if self._logs is None:
            return in_files(workspace)
        return self._logs.into(workspace)

    def how_it_died(self, workspace: Path) -> str:
        """Return why there is neither a run nor a reason. The logs must be complete."""
        printed = last_lines(workspace / "stderr.log")
        if self._died:
            how = _in_words(self._died, printed)
        else:
            how = self._how_it_ended(printed)
        return f"the agent's process died while it ran this case: {how}"

    def _exchange(self, message: WorkerJob | Task, timeout_s: float) -> Reply | None:
        """Send a message and return the reply; None if the worker died, or was ended at the time limit."""
        self._clock.start(timeout_s, self._out_of_time)
        reply = None
        try:
            if isinstance(message, Task):
                send_task(self._tasks, message)
                reply = receive_reply(self._replies, message.world.calls)
            else:
                send(self._tasks, message)
                reply = receive_reply(self._replies)
        except (OSError, ValueError, MsgspecError):
            pass  # the worker died or sent garbage, so it is not used again
        finally:
            self._clock.cancel()
        self.usable = reply is not None and not reply.last and not self._timed_out
        return reply

    def _out_of_time(self) -> None:
        self._timed_out = True
        kill_group(self._process)

    def _how_it_ended(self, printed: str) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_GRACE_S)
        self.end()
        code = self._process.returncode
        return _in_words(f"signal {-code}" if code < 0 else f"exit code {code}", printed)

    def end(self) -> None:
        """End the process and its process group."""
        self.usable = False
        self._clock.stop()
        kill_group(self._process)
        for stream in (self._tasks, self._replies):
            with contextlib.suppress(OSError):
                stream.close()
        if self._logs is not None:
            self._logs.close()
        self._cleanup.close()


def _in_words(how: str, printed: str) -> str:
    return sayable(f"{how}\n{printed}" if printed else how)


class _Loading(threading.Thread):
    """Collects what a process prints before its first case. Cases have logs of their own."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(name="replaykit-loading", daemon=True)
        self._stream = stream
        self._last_output = b""
        self.start()

    def run(self) -> None:
        with self._stream:
            while data := os.read(self._stream.fileno(), _KEPT_BYTES):
                self._last_output = (self._last_output + data)[-_KEPT_BYTES:]

    def last_lines(self) -> str:
        """Return the last lines that an ended process printed."""
        self.join(_GRACE_S)
        lines = self._last_output.decode(errors="replace").splitlines()
        return "\n".join(line for line in lines[-5:] if line.strip())
