"""The descendants of this process, and their end."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
from typing import NoReturn

from replaykit.isolation import kernel
from replaykit.isolation.renames import remove


def descendants(processes: int) -> list[int]:
    """Return all processes below this one."""
    pids: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        pid = waiting.pop()
        with contextlib.suppress(OSError), kernel.opened(f"{pid}/task", os.O_RDONLY, below=processes) as directory:
            for thread in os.listdir(directory):
                children = os.open(f"{thread}/children", os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
                with open(children, encoding="utf-8") as file:
                    waiting += map(int, file.read().split())
        pids.append(pid)
    return pids[1:]


def adopt_orphans() -> None:
    """Make this process the parent of its orphaned descendants."""
    kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)


def has_children() -> bool:
    """Return True if this process has a child, alive or unreaped."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def kill_descendants() -> None:
    """Kill all descendants. Orphans become children of this process, so in the end none is left."""
    if not has_children():
        return
    directory = os.open("/proc", os.O_PATH | os.O_CLOEXEC)
    while pids := descendants(directory):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)


class Keeper:
    """The process between a guardian and a tree without a process namespace: it ends the tree if the guardian dies.

    It has a session of its own, so that it survives when the guardian is killed with its process group. Orphans of the
    tree become its children, even if they have started a session of their own.
    """

    def __init__(self, caller: int, temporary: str | None) -> None:
        """Call it in the guardian. `temporary` is a directory to remove if the process that created it has ended."""
        self._temporary = temporary
        self._guardian = os.getpid()
        try:
            self._caller = os.pidfd_open(caller)
        except ProcessLookupError:
            self._caller = -1

    def descriptors(self) -> tuple[int, ...]:
        """Return the descriptors to keep open in the keeper."""
        return (self._caller,) if self._caller >= 0 else ()

    def close(self) -> None:
        """Close them in the other processes."""
        for descriptor in self.descriptors():
            os.close(descriptor)

    def fork(self) -> int:
        """Fork with all signals blocked; the child is the first process of the tree."""
        adopt_orphans()
        first = kernel.fork()
        if first:
            os.setsid()
        return first

    def keep(self, first: int) -> NoReturn:
        """Wait until the first process or the guardian ends, and kill all others."""
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGUSR1)
        status = None
        while status is None and os.getppid() == self._guardian:
            signal.sigwait([signal.SIGCHLD, signal.SIGUSR1])
            status = _status_of(first)
        kill_descendants()
        if self._temporary is not None and (self._caller < 0 or _has_ended(self._caller)):
            remove(self._temporary)
        if status is None:
            os._exit(70)
        end_like(status)


def _status_of(first: int) -> int | None:
    """Reap ended processes; return the status of the first process if it is among them."""
    result = None
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == first:
                result = status
            if not pid:
                break
    return result


def _has_ended(process: int) -> bool:
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(0))


def end_like(status: int) -> NoReturn:
    """End this process with the wait status of another one."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        os._exit(code)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler
        signal.signal(-code, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [-code])
    os.kill(os.getpid(), -code)
    os._exit(128 - code)
