"""Count the iterations of event loops: calls that end in the same burst of a loop do so again in a replay."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def counted(original: Callable[[Any], None]) -> Callable[[Any], None]:
    """For `BaseEventLoop._run_once`."""

    def run_once(loop: Any) -> None:
        try:
            waits, iterations = loop._replaykit_turn
        except AttributeError:  # its first iteration
            waits, iterations = 0, 0
        if loop._ready:
            loop._replaykit_turn = (waits, iterations + 1)
        else:  # it waits for a timer, a file or another thread
            loop._replaykit_turn = (waits + 1, 0)
        original(loop)

    return run_once


def counted_loop() -> Any:
    """Return the event loop that runs in this thread; None where none does."""
    events = sys.modules.get("asyncio.events")
    return None if events is None else events._get_running_loop()


def turn_of(loop: Any) -> tuple[int, int] | None:
    """Return how often a loop has waited, and its iterations since; None for one that is not counted, and for None."""
    return getattr(loop, "_replaykit_turn", None)
