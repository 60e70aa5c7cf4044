"""The clock and chance of one request.

A process-wide clock that stands still would stop it for all the other requests of the application. So what the case
holds still is given by `rk.now()`, `rk.uuid4()` and `rk.random()`, inside of the request, and by nothing else.
"""

from __future__ import annotations

import datetime as dt
import random
import time
import uuid
from hashlib import blake2b

from replaykit.handlers.replay.handler import Replayer
from replaykit.model.events import AnyEvent
from replaykit.model.pins import Clock, Pins
from replaykit.model.result import Deviation
from replaykit.model.values import Json, raw
from replaykit.seam.scope import CallAnswer, Outcome, PendingCall
from replaykit.seam.time_and_chance import NOW, RANDOM

UNPINNED = "unpinned"
"""The deviation of a run around which not all is held still that the case holds."""


class PinnedMachine:
    """Before a replayer: what the machine is asked, and the tape does not hold, is answered as the pins say."""

    def __init__(self, replayer: Replayer, pins: Pins) -> None:
        self._replayer = replayer
        self._pins = pins
        self._began = time.monotonic()
        self._numbers: dict[tuple[str, str], int] = {}

    def serve(self, call: PendingCall) -> CallAnswer | None:
        """The pinned time or chance; whatever else is asked goes to the replayer."""
        value = None
        if self._replayer.asks_machine_anew(call):
            value = self._now() if call.name == NOW else self._drawn(call)
        if value is None:
            return self._replayer.serve(call)
        outcome = Outcome(result_json=raw(value))
        self._replayer.settle(call, outcome, 0.0)
        return outcome

    def settle(self, call: PendingCall, outcome: Outcome, duration_s: float) -> None:
        """A call that was let through has ended."""
        self._replayer.settle(call, outcome, duration_s)

    def keep(self, event: AnyEvent) -> None:
        """Something happened that is not a call."""
        self._replayer.keep(event)

    def amend(self, step: str | None, state: Json) -> Json:
        """The state as it is."""
        return self._replayer.amend(step, state)

    def _now(self) -> dt.datetime | None:
        pins = self._pins
        if not pins.started_at or pins.clock is Clock.LIVE:
            return None
        passed = time.monotonic() - self._began if pins.clock is Clock.TICK else 0.0
        return dt.datetime.fromtimestamp(pins.started_at + passed, dt.UTC)

    def _drawn(self, call: PendingCall) -> float | uuid.UUID | None:
        """By the seed and the place of the call: the same whatever else is drawn at the same time."""
        if self._pins.seed is None:
            return None
        place = (call.path, call.name)
        number = self._numbers[place] = self._numbers.get(place, -1) + 1
        seed = blake2b(f"{self._pins.seed}/{call.name}/{call.path}/{number}".encode(), digest_size=16).digest()
        drawn = random.Random(seed)
        if call.name == RANDOM:
            return drawn.random()
        return uuid.UUID(int=drawn.getrandbits(128), version=4)


def unpinned(pins: Pins) -> tuple[Deviation, ...]:
    """Return deviations for pins that an application serving several requests at once cannot hold."""
    clock = bool(pins.started_at) and pins.clock is not Clock.LIVE
    pinned = [name for name, is_held in (("clock", clock), ("seed", pins.seed is not None)) if is_held]
    texts = []
    if pinned:
        verb = "are" if len(pinned) > 1 else "is"
        text = f"the case's {' and '.join(pinned)} {verb} held still for rk.now(), rk.uuid4() and rk.random() alone"
        texts.append(f"{text}: the agent serves other requests in the same process")
    if pins.environment:
        texts.append(f"not set in the agent's process: {', '.join(sorted(pins.environment))}")
    return tuple(Deviation(kind=UNPINNED, text=text) for text in texts)
