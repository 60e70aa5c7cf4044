"""Waits of threads in the kernel: whether they have a limit, if Linux shows it."""

from __future__ import annotations

import platform

_NO_LIMIT = 0
_FOREVER_MS = 0xFFFFFFFF
_WAITS_ON_FUTEX = (0, 9)  # FUTEX_WAIT and FUTEX_WAIT_BITSET
_FUTEX_COMMAND = 0x7F

# The numbers of system calls, with the argument that holds the limit.
_POINTERS = {
    "x86_64": {23: 4, 270: 4, 271: 2},  # select, pselect6, ppoll
    "aarch64": {72: 4, 73: 2},
}
_MILLISECONDS = {
    "x86_64": {7: 2, 232: 3, 281: 3},  # poll, epoll_wait, epoll_pwait
    "aarch64": {22: 3},
}
_FUTEX = {"x86_64": 202, "aarch64": 98}
_MACHINE = platform.machine()


def has_limit(tid: int) -> bool:
    """Return whether a thread waits for a file, a socket or a semaphore with a limit; False if that is unknown."""
    try:
        with open(f"/proc/self/task/{tid}/syscall", encoding="ascii") as file:
            words = file.read().split()
        number, *arguments = [int(word, 0) for word in words[:7]]
    except (OSError, ValueError):  # not on Linux, not permitted, or the thread is running
        return False
    if number == _FUTEX.get(_MACHINE):
        return arguments[1] & _FUTEX_COMMAND in _WAITS_ON_FUTEX and arguments[3] != _NO_LIMIT
    if (place := _POINTERS.get(_MACHINE, {}).get(number)) is not None:
        return arguments[place] != _NO_LIMIT
    if (place := _MILLISECONDS.get(_MACHINE, {}).get(number)) is not None:
        return arguments[place] & _FOREVER_MS != _FOREVER_MS
    return False
