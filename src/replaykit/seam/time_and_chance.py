"""Time and randomness as calls: recorded where the agent asks for them, and served again.

They are exchanges with the machine, not tools: no assertion counts them.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from replaykit.model.pins import NOW, RANDOM, UUID4
from replaykit.model.values import decode
from replaykit.seam.foreign_threads import scope_of_call
from replaykit.seam.scope import EXCHANGE, CallAnswer, pending_call, wall_time
from replaykit.seam.through import through

T = TypeVar("T")


def now() -> dt.datetime:
    """Return the current time in UTC; in a replay, the recorded one.

    >>> rk.now().tzname()
    'UTC'
    """
    return _through_seam(NOW, lambda: dt.datetime.now(dt.UTC))


def uuid4() -> uuid.UUID:
    """Return a random UUID; in a replay, the recorded one.

    >>> rk.uuid4().version
    4
    """
    return _through_seam(UUID4, uuid.uuid4)


def random() -> float:
    """Return a number from 0 up to 1; in a replay, the recorded one.

    >>> 0 <= rk.random() < 1
    True
    """
    from random import random as draw  # noqa: PLC0415 (slow to import; few agents use it)

    return _through_seam(RANDOM, draw)


def _through_seam(name: str, live: Callable[[], T]) -> T:
    scope = scope_of_call(name)
    if scope is None:
        return live()
    call = pending_call(EXCHANGE, name, b"null", scope, wall_time(), effects="none")
    value: T = through(scope, call, live, _unpack)
    return value


def _unpack(answer: CallAnswer) -> Any:
    return decode(answer.result_json)
