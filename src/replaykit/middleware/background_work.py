"""Background work of a request: tasks and threads that go on when it has ended.

Their tools are still answered from the tape, or stopped: they know where they come from. Connections are watched only
while a request is served; so one guard stays up for those that come later, as long as there are tapes.
"""

from __future__ import annotations

import weakref
from contextlib import ExitStack
from typing import TYPE_CHECKING

from replaykit.seam.guard import Guard, permits
from replaykit.seam.scope import RunSession, current

if TYPE_CHECKING:
    from replaykit.handlers.replay.handler import Replayer


class BackgroundWork(Guard):
    """Stops connections from a session that is over."""

    def __init__(self, owner: object) -> None:
        self._replayers: weakref.WeakKeyDictionary[RunSession, Replayer] = weakref.WeakKeyDictionary()
        standing = ExitStack()
        standing.enter_context(self.standing())
        weakref.finalize(owner, standing.close).atexit = False

    def watch(self, session: RunSession, replayer: Replayer) -> None:
        """Stop connections of this session after its end as well."""
        self._replayers[session] = replayer

    def forbids(self, host: str, port: int) -> bool:
        """True for a connection from a session that is over, to a place that its rules do not name."""
        replayer = self._left_behind()
        return replayer is not None and not permits({name.lower() for name in replayer.rules.network}, host, port)

    def _tell(self, text: str) -> None:
        replayer = self._left_behind()
        if replayer is not None:
            replayer.stopped(text)

    def _left_behind(self) -> Replayer | None:
        scope = current()
        if scope is not None and scope.session.over:
            return self._replayers.get(scope.session)
        return None
