"""A lock that ends with the process that holds it, however that ends."""

from __future__ import annotations

import os


def locked(file: int) -> bool:
    """Take the lock of a file; False when somebody has it."""
    if os.name != "posix":
        return True
    import fcntl  # noqa: PLC0415 (not on every system)

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
