"""The current time in arguments, compared as "now" on both sides.

A text or number that *is* the current time, in a common format, differs in every execution. If no call on a tape
matches exactly, such moments are masked on both sides: on the tape, those between the start of the recorded run and the
begin of the call; in the candidate's call, those between its own start and now. If that does not help, moments at a
round distance from now are masked as well, each with its distance: "since yesterday", "expires in an hour".
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from functools import cached_property

from replaykit.handlers.replay.call_index import CallIndex
from replaykit.handlers.replay.traceback_texts import FRAMES, without_frames
from replaykit.model.events import Call

NOW = b"<now>"
_SECOND_S = 1.0  # formats without fractions round down to the second
_FORMS = re.compile(
    rb"(?P<iso>(?<!\d)\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?(?!\d))"
    rb"|(?P<compact>(?<!\d)20\d{6}[T_-]?\d{6}(?!\d))"
    rb"|(?P<clock>(?<![\d:])\d\d:\d\d:\d\d(?:\.\d{1,9})?(?![\d:]))"
    rb"|(?P<epoch>(?<![\d.])1\d{9}(?:\.\d{1,9})?(?![\d.]))"
    rb"|(?P<epoch_ms>(?<![\d.])1\d{12}(?:\.\d{1,6})?(?![\d.]))"
    rb"|(?P<epoch_us>(?<![\d.])1\d{15}(?![\d.]))"
    rb"|(?P<epoch_ns>(?<![\d.])1\d{18}(?![\d.]))"
)

# Distances are multiples of five minutes. If several fit, the roundest is meant: weeks, days, hours, quarters.
_ROUND_S = (7 * 86_400, 86_400, 3_600, 900, 300)
# A moment at a distance is computed at most this long before the call: the longer, the more fixed times look like one.
_RECENTLY_S = 30.0
_PER_SECOND = {"epoch": 1, "epoch_ms": 1_000, "epoch_us": 1_000_000, "epoch_ns": 1_000_000_000}


def without_moments(text: bytes, start: float, end: float, *, at_a_distance: bool = False) -> bytes:
    """Replace every moment between two others, in seconds since the epoch, with `NOW`; if `at_a_distance`, also those
    at a round distance from the last of these."""

    def replaced(found: re.Match[bytes]) -> bytes:
        moments = _moments(found, start)
        if any(start - _SECOND_S <= moment <= end + _SECOND_S for moment in moments):
            return NOW
        if at_a_distance and moments:
            distance_s = _distance_s(moments[0], max(start, end - _RECENTLY_S), end)
            if distance_s:
                return b"<now%+d>" % distance_s
        return found[0]

    return _FORMS.sub(replaced, text)


def _distance_s(moment: float, start: float, end: float) -> int:
    """Return the roundest distance of a moment from one between two others; 0 if none is round."""
    least, most = moment - end - _SECOND_S, moment - start + _SECOND_S
    for unit_s in _ROUND_S:
        distance_s = math.ceil(least / unit_s) * unit_s
        if distance_s and distance_s <= most:
            return distance_s
    return 0


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
        if found.lastgroup == "compact":
            digits = "".join(filter(str.isdigit, text))
            return _without_zone(dt.datetime.strptime(digits, "%Y%m%d%H%M%S"))
        time = dt.time.fromisoformat(text)
        days = [dt.datetime.fromtimestamp(start, dt.UTC).date() + dt.timedelta(days=d) for d in (-1, 0, 1)]
        return [moment for day in days for moment in _without_zone(dt.datetime.combine(day, time))]
    except (ValueError, OverflowError, OSError):
        return []


def _without_zone(moment: dt.datetime) -> list[float]:
    return [moment.timestamp(), moment.replace(tzinfo=dt.UTC).timestamp()]


def without_circumstances(text: bytes, start: float, end: float, *, at_a_distance: bool = False) -> bytes:
    """Replace the frames of tracebacks, and every moment between two others."""
    return without_moments(without_frames(text), start, end, at_a_distance=at_a_distance)


def has_moments(without: bytes) -> bool:
    """Return whether a moment was replaced."""
    return b"<now" in without


def has_circumstances(without: bytes) -> bool:
    """Return whether anything was replaced."""
    return has_moments(without) or FRAMES in without


class NowIndex:
    """The calls of a tape with a traceback or with the time at which they were made, indexed without those."""

    def __init__(
        self,
        calls: list[Call],
        started_at: float,
        key_of: Callable[[Call], tuple[str, str, bytes]],
        used: bytearray,
        *,
        at_a_distance: bool,
    ) -> None:
        self._used = used
        self._places: list[tuple[str, str, str, bytes] | None] = []
        for call in calls:
            path, name, arguments = key_of(call)
            began_at = _begin_of(call, started_at)
            without = without_circumstances(arguments, started_at, began_at, at_a_distance=at_a_distance)
            if has_circumstances(without):
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
