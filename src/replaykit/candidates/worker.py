"""The worker process: import the agent, and run each case in a process of its own with the tape behind the seam.

Each case runs in a fork of a process that has imported the agent and run nothing, so no case sees caches, counters or
event loops of another. Where forking is unsafe, a worker runs one case and ends. A fresh process is a worker with a
single task, which it has before it imports the agent. A process runs case after case only on explicit request.
"""

from __future__ import annotations

import contextlib
import gc
import mmap
import os
import stat
import sys
import threading
import warnings
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import IO, Any, NoReturn

from msgspec.structs import replace

from replaykit.candidates.agent_loader import load_agent, load_named
from replaykit.candidates.agent_run import AgentCall, AgentEntry
from replaykit.candidates.clock import ReplayClock
from replaykit.candidates.worker_protocol import (
    REPLY_FILE,
    TALK,
    TASK_FILE,
    Reply,
    Task,
    WorkerJob,
    receive,
    receive_task,
    send,
    send_reply,
)
from replaykit.errors import UsageError
from replaykit.handlers.recording.agent_call import finished
from replaykit.handlers.replay.handler import Replayer
from replaykit.handlers.replay.tape import Tape
from replaykit.handlers.replay.world import World
from replaykit.model.values import NULL, sayable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from replaykit.isolation.mounts import Plan


def main() -> None:
    """Serve tasks until the pipe ends. The agent's output never gets into the pipe."""
    tasks, replies = _pipes()
    job = receive(tasks, WorkerJob)
    if job is None:
        _leave()
    for log in job.logs:
        # Programs that the agent starts must not keep the pipes open.
        os.set_inheritable(log, False)
    _warm_up()
    files = OpenFiles()
    try:
        # A process that the import starts belongs to no case yet, so it is served nothing.
        closed = Replayer(Tape(()))
        entry = AgentEntry(load_named(job.spec, *job.directories, replayer=closed), job.spec, job.sort)
        reset = load_agent(job.reset, *job.directories) if job.reset else None
    except UsageError as error:
        send_reply(replies, Reply(reason=sayable(str(error)), last=True))
        _leave()
    reuses = job.reuses and not job.has_one_task
    forks = not reuses and not job.has_one_task and can_fork(files) and (not job.is_confined or _can_nest())
    if forks:
        from replaykit.isolation.process_tree import adopt_orphans  # noqa: PLC0415 (Linux only)

        # Processes that a case leaves behind become children of this one, which kills them.
        adopt_orphans()
        gc.collect()
        gc.freeze()  # a collection in a fork would copy every page of the imported modules
    nest = _Nest(replies, job) if forks and job.is_confined else None
    send_reply(replies, Reply())
    while (task := receive_task(tasks)) is not None:
        worker = _TaskWorker(task, entry, reset, replies)
        if reuses:
            _print_to(task, job)
            worker.run()
            continue
        if not forks:
            _print_to(task, job)
            worker.run(last=True)
            _leave()
        if nest is not None:
            nest.run(worker, task)
        else:
            _run_forked(worker, replies, enter=partial(_print_to, task, job))
    _leave()


def run_one() -> None:
    """Import the agent that the environment names, and run this process's only task."""
    tasks, replies = _channel()
    task = receive_task(tasks)
    if task is None:
        raise SystemExit("there is no task")  # the parent has gone
    tasks.close()
    gc.freeze()  # excludes existing objects from the agent's collections
    gc.enable()
    _TaskWorker(task, None, None, replies).run()
    _leave()


def _channel() -> tuple[IO[bytes], IO[bytes]]:
    """Open the channel that the environment names: two file descriptors, or files in a directory."""
    address = os.environ.pop(TALK)
    task, comma, reply = address.partition(",")
    if not comma:
        return open(f"{address}/{TASK_FILE}", "rb"), open(f"{address}/{REPLY_FILE}", "wb")
    os.set_inheritable(int(reply), False)
    return os.fdopen(int(task), "rb"), os.fdopen(int(reply), "wb")


def _warm_up() -> None:
    """Run an empty replay, which imports lazily loaded modules and saves each fork 10 ms."""
    AgentCall(World(case_id="", input_json=NULL), alone=True).run(lambda _: None)


def _can_nest() -> bool:
    """Return whether each task can have a nested sandbox."""
    from replaykit.isolation import Level, support  # noqa: PLC0415 (Linux only)

    return support().nested_level is Level.FULL


class _Nest:
    """Runs each case in a fork with a nested sandbox, and reports its isolation."""

    def __init__(self, replies: IO[bytes], job: WorkerJob) -> None:
        from pathlib import Path  # noqa: PLC0415 (slow to import)

        from replaykit.isolation import Policy  # noqa: PLC0415 (Linux only)

        self._replies = replies
        self._job = job
        self._policy = Policy(project=Path.cwd())
        self._plan: Plan | None = None

    def run(self, worker: _TaskWorker, task: Task) -> None:
        """Run one case."""
        from replaykit.isolation import Sandbox  # noqa: PLC0415 (Linux only)
        from replaykit.programs.isolation_level import isolation_of  # noqa: PLC0415

        with Sandbox(self._policy, nested=True, plan=self._plan) as sandbox:
            self._plan = sandbox.lasting_plan

            def enter() -> None:
                _print_to(task, self._job)
                sandbox.enter()

            _run_forked(worker, self._replies, enter)
            send(self._replies, isolation_of(sandbox.report()))


def _run_forked(worker: _TaskWorker, replies: IO[bytes], enter: Callable[[], None]) -> None:
    """Run one case in a fork, calling `enter` there first. If the fork dies without a reply, report how."""
    forked = ForkedTask()
    if forked.is_child:
        enter()
        worker.run(forked=forked)
        _leave()
    how = forked.wait()
    if forked.is_cut_off:
        os._exit(1)  # the pipe holds half a reply, so nothing after it could be read
    if not forked.has_replied:
        send_reply(replies, Reply(died=how))


class _Turn:
    """One task in progress. Only the first to call `take` may reply."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.call = AgentCall(task.world, alone=True)
        self.has_begun = False
        """True after the agent was reset."""
        self._taken = threading.Lock()

    def take(self, *, wait: bool) -> bool:
        """Claim the reply; return whether nobody else has.

        With `wait`, block while the clock replies, which ends the process.
        """
        return self._taken.acquire(blocking=wait)


class _TaskWorker:
    """Runs one task with a time limit. At the limit it sends what has happened so far and ends the process."""

    def __init__(
        self, task: Task, entry: AgentEntry | None, reset: Callable[..., Any] | None, replies: IO[bytes]
    ) -> None:
        """`entry` is None if the agent has yet to be imported, within the task's time limit.

        Everything that does not depend on the agent's run is computed here, before the fork: a fork copies each page it
        touches, which takes longer than the computation.
        """
        self._turn = _Turn(task)
        self._refusal = "" if entry is None else entry.refusal(task.world)
        self._entry = entry
        self._reset = reset
        self._replies = replies
        self._clock = ReplayClock()
        self._forked: ForkedTask | None = None
        self._last = False

    def run(self, *, forked: ForkedTask | None = None, last: bool = False) -> None:
        """Run the case in this process and send the reply. `last` means that the worker ends afterwards."""
        self._forked, self._last = forked, last
        process = os.getpid()
        turn = self._turn
        self._clock.start(turn.task.timeout_s, partial(self._out_of_time, turn))
        # Use a separate context, so that context variables set by a case do not leak.
        reply = copy_context().run(self._reply, turn)
        if os.getpid() != process:
            os._exit(0)  # this is a fork that the agent made; the original replies
        self._clock.cancel()
        turn.take(wait=True)
        if forked is None:
            self._clock.stop()  # the process may continue
        self._say(reply, turn.task)

    def _reply(self, turn: _Turn) -> Reply:
        if self._reset is not None:
            try:
                finished(self._reset())
            except BaseException as error:  # noqa: BLE001 (user code)
                return Reply(reason=sayable(f"the agent could not be reset: {type(error).__name__}: {error}"))
        world, call = turn.task.world, turn.call
        turn.has_begun = True
        entry, refused = self._entry, self._refusal
        if entry is None:
            try:
                entry = _imported(call.replayer)
            except UsageError as error:
                return Reply(reason=sayable(str(error)))
            refused = entry.refusal(world)
        if refused:
            return Reply(reason=sayable(refused))
        return Reply(run=entry.run(call, world), deviations=entry.deviations(call, world))

    def _out_of_time(self, turn: _Turn) -> None:
        limit, call = turn.task.timeout_s, turn.call
        if not turn.has_begun:
            reply = Reply(reason=f"the agent was not reset within {limit:g} s")
        else:
            run = call.so_far(failure=TimeoutError(f"no answer within {limit:g} s"))
            deviations = tuple(call.replayer.all_deviations())
            if self._entry is not None:
                deviations = self._entry.deviations(call, turn.task.world)
            reply = Reply(run=run, deviations=deviations)
        if turn.take(wait=False):
            self._last = True
            self._say(reply, turn.task)
            _leave()

    def _say(self, reply: Reply, task: Task) -> None:
        _flush()
        calls = task.world.calls
        if self._forked is None:
            send_reply(self._replies, replace(reply, last=self._last), calls)
            return
        self._forked.begin_reply()
        send_reply(self._replies, reply, calls)
        self._forked.end_reply()


def _imported(replayer: Replayer) -> AgentEntry:
    """Import the agent. Processes that its import starts belong to the replay."""
    spec = os.environ["REPLAYKIT_AGENT"]
    return AgentEntry(load_named(spec, replayer=replayer), spec)


def _pipes() -> tuple[IO[bytes], IO[bytes]]:
    """Take over stdin and stdout as the channel, and hide them from the agent."""
    tasks, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)  # until the first case, output goes to stderr
    os.close(nothing)
    return tasks, replies


def _print_to(task: Task, job: WorkerJob) -> None:
    """Redirect output to the logs of a task."""
    _flush()  # earlier output belongs to the earlier target
    for number, log in enumerate(job.logs, start=1):
        os.dup2(log, number)
    for number, name in enumerate(task.logs or (), start=1):
        log = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        os.dup2(log, number)
        os.close(log)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ValueError, OSError, AttributeError):  # the agent may have closed the stream
            stream.flush()


def _leave() -> NoReturn:
    _flush()
    os._exit(0)  # skips joining threads, which could hang


if sys.platform != "win32":
    import fcntl

_NOT_STARTED, _STARTED, _DONE = 0, 1, 2


class OpenFiles:
    """A snapshot of the open files and connections."""

    def __init__(self) -> None:
        self._before = _descriptors()

    def has_shared_state(self) -> bool:
        """Return whether anything opened since has a position or content that all forks would share."""
        return any(_is_shared(number) for number in _descriptors() - self._before)


def can_fork(files: OpenFiles) -> bool:
    """Return whether a fork of this process is equivalent to a process that has just imported the agent.

    Other systems than Linux do not reveal the threads of native libraries, or, like macOS, make forking unsafe. A fork
    lacks the other threads but keeps their locks held, and shares files, connections and child processes.
    """
    if sys.platform != "linux" or threading.active_count() > 1 or files.has_shared_state():
        return False
    from replaykit.isolation.process_tree import has_children  # noqa: PLC0415 (Linux only)

    if has_children():
        return False
    if _native_threads() == 1:
        return True
    # Libraries prepared for forking (OpenBLAS) end their threads before a fork and restart them when needed, so try
    # one.
    forked = ForkedTask()
    if forked.is_child:
        os._exit(0)
    forked.wait()
    return _native_threads() == 1


class ForkedTask:
    """A fork of this process. In the child, `is_child` is true."""

    def __init__(self) -> None:
        self._progress = mmap.mmap(-1, 1)  # shared with the child: an exit code says nothing about the reply
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about threads, which `can_fork` has checked
            self._pid = os.fork()
        self.is_child = self._pid == 0

    def begin_reply(self) -> None:
        """Note that the child starts writing its reply."""
        self._progress[0] = _STARTED

    def end_reply(self) -> None:
        """Note that the reply is complete."""
        self._progress[0] = _DONE

    @property
    def has_replied(self) -> bool:
        return self._progress[0] == _DONE

    @property
    def is_cut_off(self) -> bool:
        """Whether the child died while writing its reply."""
        return self._progress[0] == _STARTED

    def wait(self) -> str:
        """Wait for the child to end, kill the processes it left, and return how it ended."""
        from replaykit.isolation.process_tree import kill_descendants  # noqa: PLC0415 (Linux only)

        _, status = os.waitpid(self._pid, 0)
        kill_descendants()
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            return f"signal {-code}"
        return f"exit code {code}"


def _descriptors() -> set[int]:
    if sys.platform != "linux":
        return set()
    listed = map(int, os.listdir("/proc/self/fd"))
    return {number for number in listed if _is_open(number)}


def _is_open(number: int) -> bool:
    """Return False for the descriptor of the directory listing, which is closed by now."""
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _is_shared(number: int) -> bool:
    """Return whether forks would share the state of a descriptor: a connection, an event queue, a read position."""
    mode = os.fstat(number).st_mode
    if stat.S_ISREG(mode):
        return fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE != os.O_WRONLY
    return not (stat.S_ISCHR(mode) or stat.S_ISDIR(mode))


def _native_threads() -> int:
    return len(os.listdir("/proc/self/task"))
