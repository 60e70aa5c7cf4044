"""A disk that is full for a while: a limit on the size of this process's files."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from typing import TypeVar

from replaykit.errors import StoreFull

T = TypeVar("T")
UNLIMITED = resource.getrlimit(resource.RLIMIT_FSIZE)


def limit_files(size: int) -> None:
    """Let no file of this process grow beyond a size; without one where it is 0."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, UNLIMITED[1]) if size else UNLIMITED)


def insist(action: Callable[[], T]) -> T:
    """Do something, if need be once more: somebody makes room meanwhile."""
    try:
        return action()
    except StoreFull:
        limit_files(0)
        return action()


def acknowledge(file: int, line: str) -> None:
    """Write a line to the file of acknowledgements, which the limit on the size of files may stop as well."""
    try:
        os.write(file, line.encode())
    except OSError:
        limit_files(0)
        os.write(file, line.encode())
