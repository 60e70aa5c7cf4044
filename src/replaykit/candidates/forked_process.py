"""A fork for each case: whether the process may be forked, and what became of one."""

from __future__ import annotations

import mmap
import os
import stat
import sys
import threading
import warnings

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
    missing in the fork with its locks held, and a file or connection would be one for all.
    """
    if sys.platform != "linux" or threading.active_count() > 1 or files.has_shared_state():
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
        """Wait for the fork to end, and return how it ended."""
        _, status = os.waitpid(self._pid, 0)
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
