"""The current time in arguments, compared as "now" on both sides.

A text or number that *is* the current time, in a common format, differs in every execution. If no call on a tape
matches exactly, such moments are masked on both sides: on the tape, those between the start of the recorded run and the
begin of the call; in the candidate's call, those between its own start and now.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from functools import cached_property

from replaykit.handlers.replay.call_index import CallIndex
from replaykit.model.events import Call

NOW = b"<now>"
_SECOND_S = 1.0  # formats without fractions round down to the second
_FORMS = re.compile(
    rb"(?P<iso>(?<!\d)\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?(?!\d))"
    rb"|(?P<clock>(?<![\d:])\d\d:\d\d:\d\d(?:\.\d{1,9})?(?![\d:]))"
    rb"|(?P<epoch>(?<![\d.])1\d{9}(?:\.\d{1,9})?(?![\d.]))"
    rb"|(?P<epoch_ms>(?<![\d.])1\d{12}(?:\.\d{1,6})?(?![\d.]))"
    rb"|(?P<epoch_us>(?<![\d.])1\d{15}(?![\d.]))"
    rb"|(?P<epoch_ns>(?<![\d.])1\d{18}(?![\d.]))"
)

_PER_SECOND = {"epoch": 1, "epoch_ms": 1_000, "epoch_us": 1_000_000, "epoch_ns": 1_000_000_000}


def without_moments(text: bytes, start: float, end: float) -> bytes:
    """Replace every moment between two others, in seconds since the epoch, with `NOW`."""

    def replaced(found: re.Match[bytes]) -> bytes:
        is_now = any(start - _SECOND_S <= moment <= end + _SECOND_S for moment in _moments(found, start))
        if is_now:
            return NOW
        return found[0]

    return _FORMS.sub(replaced, text)


def _moments(found: re.Match[bytes], start: float) -> list[float]:
    """Return the possible meanings of a matched text. Without a zone, it may be local time or UTC."""
    text = found[0].decode()
    if found.lastgroup in _PER_SECOND:
        return [float(text) / _PER_SECOND[found.lastgroup]]
    try:
        if found.lastgroup == "iso":
            moment = dt.datetime.fromisoformat(text.replace(",", "."))
            if moment.tzinfo:
                return [moment.timestamp()]
            return _without_zone(moment)
        time = dt.time.fromisoformat(text)
        days = [dt.datetime.fromtimestamp(start, dt.UTC).date() + dt.timedelta(days=d) for d in (-1, 0, 1)]
        return [moment for day in days for moment in _without_zone(dt.datetime.combine(day, time))]
    except (ValueError, OverflowError, OSError):
        return []


def _without_zone(moment: dt.datetime) -> list[float]:
    return [moment.timestamp(), moment.replace(tzinfo=dt.UTC).timestamp()]


class NowIndex:
    """The calls of a tape that contain the time at which they were made, indexed without it."""

    def __init__(
        self,
        calls: list[Call],
        started_at: float,
        key_of: Callable[[Call], tuple[str, str, bytes]],
        used: bytearray,
    ) -> None:
        self._used = used
        self._places: list[tuple[str, str, str, bytes] | None] = []
        for call in calls:
            path, name, arguments = key_of(call)
            without = without_moments(arguments, started_at, _begin_of(call, started_at))
            if NOW in without:
                self._places.append((path, call.kind, name, without))
            else:
                self._places.append(None)
        self.by_path = CallIndex(self._places, used)
        """The calls by path, kind, name and arguments."""

    @cached_property
    def anywhere(self) -> CallIndex:
        """The calls by kind, name and arguments."""
        return CallIndex([None if place is None else place[1:] for place in self._places], self._used)


def _begin_of(call: Call, started_at: float) -> float:
    if call.span is not None:
        return started_at + call.span.begin_s
    return call.at or started_at
