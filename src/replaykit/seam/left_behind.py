"""End what a replay leaves behind: threads and tasks that would go on when its run is over.

What they did after the end of the recorded run is not in the recording. So they are ended where they wait, or where
they make their next call: they must neither take answers that belong to others nor do anything for real.
"""

from __future__ import annotations

import sys


class RunOver(SystemExit):
    """Ends a thread of a replay that is over, without a word."""


def run_over() -> BaseException:
    """Return the exception that ends the task, or else the thread, that goes on here."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and asyncio._get_running_loop() is not None:
        cancelled: BaseException = asyncio.CancelledError("the replay is over")
        return cancelled
    return RunOver("the replay is over")
