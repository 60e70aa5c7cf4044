"""Inside a worker: import the agent, and run each case in a process of its own with the tape behind the seam.

A case runs in a fork of the process that has imported the agent and run nothing, so no case meets what another one has
left behind in caches, counters or loops. Where a fork is not safe, a worker runs one case and ends. A fresh process is
a worker with one task, which it has before it imports the agent. Only where a person asks for it does one process run
case after case.
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
    """Serve tasks until the pipe ends. What the agent prints never gets into the pipe."""
    tasks, replies = _pipes()
    job = receive(tasks, WorkerJob)
    if job is None:
        _leave()
    for log in job.logs:
        os.set_inheritable(log, False)
    _warm_up()
    files = OpenFiles()
    try:
        # Of processes that the import starts nobody knows yet which case they will be in: they are served nothing.
        closed = Replayer(Tape(()))
        entry = AgentEntry(load_named(job.spec, *job.directories, replayer=closed), job.spec, job.sort)
        reset = load_agent(job.reset, *job.directories) if job.reset else None
    except UsageError as error:
        send_reply(replies, Reply(reason=sayable(str(error)), last=True))
        _leave()
    reuses = job.reuses and not job.has_one_task
    forks = not reuses and not job.has_one_task and can_fork(files) and (not job.is_confined or _can_nest())
    if forks:
        from replaykit.isolation.process_tree import adopt_orphans  # noqa: PLC0415 (for Linux alone)

        adopt_orphans()
        gc.collect()
        gc.freeze()  # a collection in a fork would copy every page of what is imported
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
    """Import the agent that the environment names, and run it for the one task of this process."""
    tasks, replies = _channel()
    task = receive_task(tasks)
    if task is None:
        raise SystemExit("there is no task")  # whoever gave it has gone
    tasks.close()
    gc.freeze()  # what is there stays, and the agent's collections need not look at it
    gc.enable()
    _TaskWorker(task, None, None, replies).run()
    _leave()


def _channel() -> tuple[IO[bytes], IO[bytes]]:
    """Open the ends that the environment names: two file descriptors, or files in a directory."""
    address = os.environ.pop(TALK)
    task, comma, reply = address.partition(",")
    if not comma:
        return open(f"{address}/{TASK_FILE}", "rb"), open(f"{address}/{REPLY_FILE}", "wb")
    os.set_inheritable(int(reply), False)
    return os.fdopen(int(task), "rb"), os.fdopen(int(reply), "wb")


def _warm_up() -> None:
    """Replay nothing, to import what a replay imports late: 10 ms that each fork would spend otherwise."""
    AgentCall(World(case_id="", input_json=NULL), alone=True).run(lambda _: None)


def _can_nest() -> bool:
    """True in a sandbox in which each task can have one of its own."""
    from replaykit.isolation import Level, support  # noqa: PLC0415 (for Linux alone)

    return support().nested_level is Level.FULL


class _Nest:
    """Runs each case in a fork that has a sandbox of its own, and says what became of that."""

    def __init__(self, replies: IO[bytes], job: WorkerJob) -> None:
        from pathlib import Path  # noqa: PLC0415 (slow to import)

        from replaykit.isolation import Policy  # noqa: PLC0415 (for Linux alone)

        self._replies = replies
        self._job = job
        self._policy = Policy(project=Path.cwd())
        self._plan: Plan | None = None

    def run(self, worker: _TaskWorker, task: Task) -> None:
        """Run one case."""
        from replaykit.isolation import Sandbox  # noqa: PLC0415 (for Linux alone)
        from replaykit.programs.isolation_level import isolation_of  # noqa: PLC0415

        with Sandbox(self._policy, nested=True, plan=self._plan) as sandbox:
            self._plan = sandbox.lasting_plan

            def enter() -> None:
                _print_to(task, self._job)
                sandbox.enter()

            _run_forked(worker, self._replies, enter)
            send(self._replies, isolation_of(sandbox.report()))


def _run_forked(worker: _TaskWorker, replies: IO[bytes], enter: Callable[[], None]) -> None:
    """Run one case in a fork; if it dies without a reply, say how it ended. `enter` is called in the fork first."""
    forked = ForkedTask()
    if forked.is_child:
        enter()
        worker.run(forked=forked)
        _leave()
    how = forked.wait()
    if forked.is_cut_off:
        os._exit(1)  # half a reply stands in the pipe: nothing that follows could be read
    if not forked.has_replied:
        send_reply(replies, Reply(died=how))


class _Turn:
    """One task on its way: whoever speaks for it first is the only one."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.call = AgentCall(task.world, alone=True)
        self.has_begun = False
        """True when the agent was reset."""
        self._taken = threading.Lock()

    def take(self, *, wait: bool) -> bool:
        """True when nobody has spoken yet. Who waits for the clock waits for the end: it ends the process."""
        return self._taken.acquire(blocking=wait)


class _TaskWorker:
    """Runs one task under the clock: one that takes too long ends its process, and leaves what it did so far."""

    def __init__(
        self, task: Task, entry: AgentEntry | None, reset: Callable[..., Any] | None, replies: IO[bytes]
    ) -> None:
        """`entry` is None where the agent is still to be imported, inside of the time of its task.

        Whatever is known before the agent runs is found out here, before the fork: a fork copies each page that it
        works with, and that takes longer than the work.
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
        """Run the case in this process, and say how it ended; `last` when the worker ends with it."""
        self._forked, self._last = forked, last
        process = os.getpid()
        turn = self._turn
        self._clock.start(turn.task.timeout_s, partial(self._out_of_time, turn))
        # A context of its own: what a case leaves in context variables is gone with it.
        reply = copy_context().run(self._reply, turn)
        if os.getpid() != process:
            os._exit(0)  # the agent forked, and this is the copy: the original answers
        self._clock.cancel()
        turn.take(wait=True)
        if forked is None:
            self._clock.stop()  # the process may go on
        self._say(reply, turn.task)

    def _reply(self, turn: _Turn) -> Reply:
        if self._reset is not None:
            try:
                finished(self._reset())
            except BaseException as error:  # noqa: BLE001 (a user's function)
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
    """Import the agent; processes that it starts meanwhile belong to the replay."""
    spec = os.environ["REPLAYKIT_AGENT"]
    return AgentEntry(load_named(spec, replayer=replayer), spec)


def _pipes() -> tuple[IO[bytes], IO[bytes]]:
    """The two ends that were stdin and stdout; the agent gets neither."""
    tasks, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(2, 1)  # until the first case, what is printed goes where errors go
    os.close(nothing)
    return tasks, replies


def _print_to(task: Task, job: WorkerJob) -> None:
    """Print to the logs of a task from here on."""
    _flush()  # what was printed before belongs where it was printed to
    for number, log in enumerate(job.logs, start=1):
        os.dup2(log, number)
    for number, name in enumerate(task.logs or (), start=1):
        log = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        os.dup2(log, number)
        os.close(log)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ValueError, OSError, AttributeError):  # the agent may have closed it
            stream.flush()


def _leave() -> NoReturn:
    _flush()
    os._exit(0)  # stray threads cannot hold it


if sys.platform != "win32":
    import fcntl

_NOT_STARTED, _STARTED, _DONE = 0, 1, 2


class OpenFiles:
    """The files and connections that were open when this was made."""

    def __init__(self) -> None:
        self._before = _descriptors()

    def has_shared_state(self) -> bool:
        """True when one was opened since whose position or contents all forks would share."""
        return any(_is_shared(number) for number in _descriptors() - self._before)


def can_fork(files: OpenFiles) -> bool:
    """True when a fork of this process is as good as a process that has just imported the agent.

    Elsewhere than on Linux nobody can see the threads of native libraries, or macOS forbids it. A thread would be
    missing in the fork with its locks held, and a file, a connection or a child process would be one for all.
    """
    if sys.platform != "linux" or threading.active_count() > 1 or files.has_shared_state():
        return False
    from replaykit.isolation.process_tree import has_children  # noqa: PLC0415 (for Linux alone)

    if has_children():
        return False
    if _native_threads() == 1:
        return True
    # Libraries that are made for it (OpenBLAS) end their threads before a fork, and start them again when needed.
    forked = ForkedTask()
    if forked.is_child:
        os._exit(0)
    forked.wait()
    return _native_threads() == 1


class ForkedTask:
    """A fork of this process, made with the object; in the fork `is_child` is true."""

    def __init__(self) -> None:
        self._progress = mmap.mmap(-1, 1)  # shared by both: a reply cannot be told from its exit code
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Python's own, of threads that `can_fork` allows
            self._pid = os.fork()
        self.is_child = self._pid == 0

    def begin_reply(self) -> None:
        """Say that the fork writes its reply from here on."""
        self._progress[0] = _STARTED

    def end_reply(self) -> None:
        """Say that the reply is whole."""
        self._progress[0] = _DONE

    @property
    def has_replied(self) -> bool:
        return self._progress[0] == _DONE

    @property
    def is_cut_off(self) -> bool:
        """True when the fork died in the middle of its reply."""
        return self._progress[0] == _STARTED

    def wait(self) -> str:
        """Wait for the fork to end, kill what it has left behind, and return how it ended."""
        from replaykit.isolation.process_tree import kill_descendants  # noqa: PLC0415 (for Linux alone)

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
    """False for the listing itself, which is closed by now: its number goes to the next file."""
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _is_shared(number: int) -> bool:
    """True for a connection, a queue of events, and a file that is read: its position is one for all forks."""
    mode = os.fstat(number).st_mode
    if stat.S_ISREG(mode):
        return fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE != os.O_WRONLY
    return not (stat.S_ISCHR(mode) or stat.S_ISDIR(mode))


def _native_threads() -> int:
    return len(os.listdir("/proc/self/task"))
