"""A lock that ends with the process that holds it, however that ends."""

from __future__ import annotations

import os


def locked(file: int, *, without_locks: bool = False) -> bool:
    """Take the lock of a file; False when somebody has it. `without_locks` is the answer where the file system has
    none."""
    if os.name != "posix":
        return True
    import fcntl  # noqa: PLC0415 (not on every system)

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return without_locks
    return True
