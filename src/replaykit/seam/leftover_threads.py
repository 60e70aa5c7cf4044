"""End what a replay leaves behind: threads and tasks that would go on when its run is over.

What they did after the end of the recorded run is not in the recording. So they are ended where they wait, or where
they make their next call: they must neither take answers that belong to others nor do anything for real.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from replaykit.seam.hooks import hook
from replaykit.seam.own_code import Function
from replaykit.seam.scope import current


class RunOver(SystemExit):
    """Ends a thread of a replay that is over, without a word."""


def run_over() -> BaseException:
    """Return the exception that ends the task, or else the thread, that goes on here."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is not None and asyncio._get_running_loop() is not None:
        cancelled: BaseException = asyncio.CancelledError("the replay is over")
        return cancelled
    return RunOver("the replay is over")


def is_program_ending() -> bool:
    """Return True when the main thread has ended or failed: that interrupts what other threads are still waiting for.

    They end without a word then. A traceback that is printed while the interpreter shuts down can abort the process.
    """
    scope = current()
    return not threading.main_thread().is_alive() or (scope is not None and scope.session.is_ending)


@hook
def stopped(original: Function, *args: Any, **kwargs: Any) -> Any:
    """For what starts a thread or a pool's job: it would belong to no run, and do everything for real."""
    scope = current()
    if scope is not None and scope.session.over and scope.session.stops_when_over:
        is_worker = threading.get_ident() in scope.session.idle_threads  # it works for others, too
        if not is_worker:
            raise run_over()
    return original(*args, **kwargs)
