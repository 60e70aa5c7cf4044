"""Virtual clocks across forks: the child's clock starts again, and no thread holds its lock at the fork.

Python calls functions registered to run before a fork in reverse order. `seam.processes` imports this module before it
registers its own preparations, so that the locks are taken after those: they start threads, which look at the clock.
"""

from __future__ import annotations

import os
from typing import Any, Protocol


class ForkableClock(Protocol):
    """The clock of a replay."""

    @property
    def mutex(self) -> Any:
        """The lock that the clock's threads share."""

    def renew(self) -> None:
        """Continue in a forked child."""


standing: list[ForkableClock] = []
"""The clocks that are in place."""
# Mutexes that a fork holds: the child lacks any other thread that could release them.
_held: list[Any] = []


def _hold() -> None:
    for clock in standing:
        mutex = clock.mutex
        mutex.acquire()
        _held.append(mutex)


def _release() -> None:
    while _held:
        _held.pop().release()


def _renew() -> None:
    _held.clear()
    for clock in standing:
        clock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hold, after_in_child=_renew, after_in_parent=_release)
