"""A tape that is held, and the requests that are served inside of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from replaykit.handlers.chaos import under_chaos
from replaykit.handlers.replay.handler import Replayer
from replaykit.handlers.replay.tape import Tape
from replaykit.handlers.replay.world import World
from replaykit.middleware.background_work import BackgroundWork
from replaykit.middleware.messages import RequestLog
from replaykit.middleware.request_clock import PinnedMachine, unpinned
from replaykit.model.events import Call, ErrorInfo
from replaykit.seam.failures import describe

MAX_REQUESTS = 64  # in one tape


class ServedTape:
    """A world, and the requests that were served in it. Each begins at the beginning of the tape."""

    def __init__(self, world: World, size: int, clock: Callable[[], float]) -> None:
        self.size = size
        self._world = world
        self._clock = clock
        self._used = clock()
        self._served: list[ServedRequest] = []
        self._lock = threading.Lock()

    def begin(self, stragglers: BackgroundWork) -> ServedRequest | None:
        """Return a served request; None if the limit is reached."""
        with self._lock:
            self._used = self._clock()
            if len(self._served) >= MAX_REQUESTS:
                return None
            self._served.append(serving := ServedRequest(self._world, stragglers, self._touch))
        return serving

    def log(self) -> tuple[RequestLog, ...]:
        """Return the logs of its requests so far."""
        self._touch()
        return tuple(serving.taped() for serving in list(self._served))

    def is_idle_since(self, moment: float) -> bool:
        """True when it has not been used since then, and serves no request."""
        return self._used <= moment and not any(serving.running for serving in list(self._served))

    def _touch(self) -> None:
        self._used = self._clock()


class ServedRequest:
    """One request inside of a tape."""

    def __init__(self, world: World, stragglers: BackgroundWork, ended: Callable[[], None]) -> None:
        tape = Tape((call for call in world.calls if isinstance(call, Call)), name=world.case_id)
        self._replayer = Replayer(tape, world.rules, tools=world.tools, models=world.models)
        self._front = under_chaos(PinnedMachine(self._replayer, world.pins), world.chaos, recorded=tape.calls)
        self._unpinned = unpinned(world.pins)
        self._stragglers = stragglers
        self._ended = ended
        self._error: ErrorInfo | None = None
        self.running = True

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Calls made inside are answered from the tape."""
        try:
            with self._replayer.at_work(self._front, keeps_time=False) as session:
                self._stragglers.watch(session, self._replayer)
                yield
        except Exception as error:
            self._error = describe(error)
            raise
        finally:
            self.running = False
            self._ended()

    def taped(self) -> RequestLog:
        """Return the log of the request so far."""
        running, replayer = self.running, self._replayer  # asked first: what ends meanwhile is told as not ended yet
        deviations = (*replayer.all_deviations(), *self._unpinned)
        return RequestLog(events=tuple(replayer.events()), deviations=deviations, error=self._error, running=running)
