"""`os.posix_spawn` and the like, done by a fork: the child's steps between the fork and the execution."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

NOT_ISOLATED = b"not isolated"
"""The message of a child that could not enter its sandbox."""
_FAILED = 127


def run_to_end(answer: int, enter: Callable[[], None], execute: Callable[[], Any]) -> NoReturn:
    """Enter a sandbox, then execute a program. Failures are written to `answer`, which the execution closes."""
    try:
        enter()
    except BaseException:  # noqa: BLE001 (the caller's code must not continue in this process)
        os.write(answer, NOT_ISOLATED)
        os._exit(_FAILED)
    try:
        execute()
    except OSError as error:
        os.write(answer, b"%d" % (error.errno or 1))
    finally:
        os._exit(_FAILED)


def execute(path: Any, argv: Any, env: Any, *, search: bool, file_actions: Any = None, **options: Any) -> None:
    """Apply the options of `os.posix_spawn`, and execute the program; `search` looks for it in `PATH`."""
    if options.get("setsid"):
        os.setsid()
    if options.get("setpgroup") is not None:
        os.setpgid(0, options["setpgroup"])
    if options.get("resetids"):
        os.setegid(os.getgid())
        os.seteuid(os.getuid())
    for number in options.get("setsigdef") or ():
        signal.signal(number, signal.SIG_DFL)
    if options.get("setsigmask") is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, options["setsigmask"])
    if options.get("scheduler") is not None:
        _schedule(*options["scheduler"])
    for action in file_actions or ():
        _act(*action)
    if search:
        os.execvpe(path, argv, env)
    os.execve(path, argv, env)


def execute_with(path: Any, argv: Sequence[Any], env: Mapping[Any, Any], descriptors: Iterable[int]) -> None:
    """Execute a program with these descriptors, besides the standard ones, and no others."""
    passed = {0, 1, 2, *descriptors}
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        try:
            os.set_inheritable(descriptor, descriptor in passed)
        except OSError:
            continue  # the descriptor of the listing itself
    os.execve(path, list(argv), env)


def _schedule(policy: int | None, parameters: Any) -> None:
    if policy is None:
        os.sched_setparam(0, parameters)
    else:
        os.sched_setscheduler(0, policy, parameters)


def _act(kind: int, *arguments: Any) -> None:
    if kind == os.POSIX_SPAWN_OPEN:
        target, path, flags, mode = arguments
        opened = os.open(path, flags, mode)
        if opened != target:
            os.dup2(opened, target)
            os.close(opened)
        os.set_inheritable(target, True)
    elif kind == os.POSIX_SPAWN_CLOSE:
        os.close(*arguments)
    elif kind == os.POSIX_SPAWN_DUP2:
        os.dup2(*arguments)
    elif kind == getattr(os, "POSIX_SPAWN_CLOSEFROM", None):  # since Python 3.14
        os.closerange(arguments[0], 1 << 20)
