"""A tape that an application holds, and the requests that are served from it.

A frozen process-wide clock would stop it for the application's other requests too. So only `rk.now()`, `rk.uuid4()` and
`rk.random()` follow the pins of a case, and only inside its request.
"""

from __future__ import annotations

import datetime as dt
import random
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from hashlib import blake2b

from replaykit.handlers.chaos import under_chaos
from replaykit.handlers.replay.handler import Replayer
from replaykit.handlers.replay.tape import Tape
from replaykit.handlers.replay.world import World
from replaykit.middleware.messages import RequestLog
from replaykit.model.events import AnyEvent, Call, ErrorInfo
from replaykit.model.pins import NOW, RANDOM, Clock, Pins
from replaykit.model.result import Deviation
from replaykit.model.values import Json, raw
from replaykit.seam.failures import describe
from replaykit.seam.guard import Guard, permits
from replaykit.seam.scope import CallAnswer, Outcome, PendingCall, RunSession, current


class BackgroundWork(Guard):
    """Stops connections of tasks and threads that outlive their request.

    Their tool calls still find the tape, because they carry their scope. Connections, though, are guarded only while a
    request is served; so one guard stays in place for as long as there are tapes.
    """

    def __init__(self, owner: object) -> None:
        self._replayers: weakref.WeakKeyDictionary[RunSession, Replayer] = weakref.WeakKeyDictionary()
        standing = ExitStack()
        standing.enter_context(self.standing())
        weakref.finalize(owner, standing.close).atexit = False

    def watch(self, session: RunSession, replayer: Replayer) -> None:
        """Stop the connections of this session even after it has ended."""
        self._replayers[session] = replayer

    def forbids(self, host: str, port: int) -> bool:
        """True for a connection of a finished session to a place that its rules do not name."""
        replayer = self._finished_replayer()
        return replayer is not None and not permits({name.lower() for name in replayer.rules.network}, host, port)

    def _tell(self, text: str) -> None:
        replayer = self._finished_replayer()
        if replayer is not None:
            replayer.stopped(text)

    def _finished_replayer(self) -> Replayer | None:
        scope = current()
        if scope is not None and scope.session.over:
            return self._replayers.get(scope.session)
        return None


UNPINNED = "unpinned"
"""The deviation of a run that ignores some of the case's pins."""


class PinnedMachine:
    """A handler before the replayer that answers machine calls that are not on the tape as the pins say."""

    def __init__(self, replayer: Replayer, pins: Pins) -> None:
        self._replayer = replayer
        self._pins = pins
        self._began = time.monotonic()
        self._numbers: dict[tuple[str, str], int] = {}

    def serve(self, call: PendingCall) -> CallAnswer | None:
        """Return the pinned time or random value; pass any other call to the replayer."""
        value = None
        if self._replayer.asks_machine_anew(call):
            value = self._now() if call.name == NOW else self._drawn(call)
        if value is None:
            return self._replayer.serve(call)
        outcome = Outcome(result_json=raw(value))
        self._replayer.settle(call, outcome, 0.0)
        return outcome

    def settle(self, call: PendingCall, outcome: Outcome, duration_s: float) -> None:
        self._replayer.settle(call, outcome, duration_s)

    def keep(self, event: AnyEvent) -> None:
        self._replayer.keep(event)

    def amend(self, step: str | None, state: Json) -> Json:
        return self._replayer.amend(step, state)

    def _now(self) -> dt.datetime | None:
        pins = self._pins
        if not pins.started_at or pins.clock is Clock.LIVE:
            return None
        elapsed = time.monotonic() - self._began if pins.clock is Clock.TICK else 0.0
        return dt.datetime.fromtimestamp(pins.started_at + elapsed, dt.UTC)

    def _drawn(self, call: PendingCall) -> float | uuid.UUID | None:
        """Return a value drawn from the seed and the place of the call, so that concurrent calls do not affect it."""
        if self._pins.seed is None:
            return None
        place = (call.path, call.name)
        number = self._numbers[place] = self._numbers.get(place, -1) + 1
        seed = blake2b(f"{self._pins.seed}/{call.name}/{call.path}/{number}".encode(), digest_size=16).digest()
        generator = random.Random(seed)
        if call.name == RANDOM:
            return generator.random()
        return uuid.UUID(int=generator.getrandbits(128), version=4)


def unpinned(pins: Pins) -> tuple[Deviation, ...]:
    """Return deviations for pins that an application serving several requests at once cannot hold."""
    pinned = []
    if pins.started_at and pins.clock is not Clock.LIVE:
        pinned.append("clock")
    if pins.seed is not None:
        pinned.append("seed")
    texts = []
    if pinned:
        verb = "are" if len(pinned) > 1 else "is"
        text = f"the case's {' and '.join(pinned)} {verb} frozen only for rk.now(), rk.uuid4() and rk.random()"
        texts.append(f"{text}: the agent serves other requests in the same process")
    if pins.environment:
        texts.append(f"not set in the agent's process: {', '.join(sorted(pins.environment))}")
    return tuple(Deviation(kind=UNPINNED, text=text) for text in texts)


MAX_REQUESTS = 64  # in one tape


class ServedTape:
    """A world and the requests served in it, each from the start of the tape."""

    def __init__(self, world: World, size: int, clock: Callable[[], float]) -> None:
        self.size = size
        self._world = world
        self._clock = clock
        self._used = clock()
        self._served: list[ServedRequest] = []
        self._lock = threading.Lock()

    def begin(self, stragglers: BackgroundWork) -> ServedRequest | None:
        """Start a request; None if the tape has served as many as it may."""
        with self._lock:
            self._used = self._clock()
            if len(self._served) >= MAX_REQUESTS:
                return None
            self._served.append(serving := ServedRequest(self._world, stragglers, self._touch))
        return serving

    def log(self) -> tuple[RequestLog, ...]:
        """Return the logs of all requests so far."""
        self._touch()
        return tuple(serving.taped() for serving in list(self._served))

    def is_idle_since(self, moment: float) -> bool:
        """True if the tape was not used since then and serves no request."""
        return self._used <= moment and not any(serving.running for serving in list(self._served))

    def _touch(self) -> None:
        self._used = self._clock()


class ServedRequest:
    """One request inside a tape."""

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
        """Answer the calls made inside the block from the tape."""
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
        # `running` is read first: a request that ends meanwhile is reported as still running, and asked about again.
        running = self.running
        deviations = (*self._replayer.all_deviations(), *self._unpinned)
        return RequestLog(
            events=tuple(self._replayer.events()), deviations=deviations, error=self._error, running=running
        )
