"""The current time in arguments, compared as "now" on both sides.

A text or number that *is* the current time, in a common format, differs in every execution. If no call on a tape
matches exactly, such moments are masked on both sides: on the tape, those between the start of the recorded run and the
begin of the call; in the candidate's call, those between its own start and now. If that does not help, dates with a
time at a round distance from now are masked as well, each with its distance: "since yesterday", "in an hour". Both
sides must then be equally far from now. Numbers and times of day stay, because ids and appointments look like them.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

from replaykit.handlers.replay.call_index import CallIndex
from replaykit.handlers.replay.traceback_texts import FRAMES, without_frames
from replaykit.model.events import Call

NOW = b"\0now"
"""What stands for the current time, with its distance if there is one. JSON contains no such byte."""
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
_FARTHEST_S = 366 * 86_400.0
_SAME_DISTANCE_S = 2.0
# A moment at a distance is computed at most this long before the call: the longer, the more fixed times look like one.
_RECENTLY_S = 30.0
_PER_SECOND = {"epoch": 1, "epoch_ms": 1_000, "epoch_us": 1_000_000, "epoch_ns": 1_000_000_000}


class Masked(NamedTuple):
    """Arguments without their circumstances."""

    text: bytes
    distances_s: tuple[float, ...] = ()
    """How far each moment at a distance is from now, exactly."""

    @property
    def has_moments(self) -> bool:
        """Whether a moment was masked."""
        return NOW in self.text

    @property
    def has_circumstances(self) -> bool:
        """Whether anything was masked."""
        return self.has_moments or FRAMES in self.text

    def is_as_far_as(self, other: Masked) -> bool:
        """Return whether the moments at a distance are equally far from now in both."""
        pairs = zip(self.distances_s, other.distances_s, strict=True)  # equal texts have equally many
        return all(abs(one - another) <= _SAME_DISTANCE_S for one, another in pairs)


def without_moments(text: bytes, start: float, end: float, *, at_a_distance: bool = False) -> Masked:
    """Replace every moment between two others, in seconds since the epoch, with `NOW`; if `at_a_distance`, also dates
    with a time at a round distance from the last of these."""
    distances_s: list[float] = []

    def replaced(found: re.Match[bytes]) -> bytes:
        moments = _moments(found, start)
        if any(start - _SECOND_S <= moment <= end + _SECOND_S for moment in moments):
            return NOW
        if at_a_distance and found.lastgroup == "iso" and moments:
            distance_s = _distance_s(moments[0], max(start, end - _RECENTLY_S), end)
            if distance_s:
                distances_s.append(moments[0] - end)
                return NOW + b"%+d" % distance_s
        return found[0]

    return Masked(_FORMS.sub(replaced, text), tuple(distances_s))


def _distance_s(moment: float, start: float, end: float) -> int:
    """Return the roundest distance of a moment from one between two others; 0 if none is round."""
    least, most = moment - end - _SECOND_S, moment - start + _SECOND_S
    if max(abs(least), abs(most)) > _FARTHEST_S:
        return 0
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


def without_circumstances(text: bytes, start: float, end: float, *, at_a_distance: bool = False) -> Masked:
    """Replace the frames of tracebacks, and every moment between two others."""
    return without_moments(without_frames(text), start, end, at_a_distance=at_a_distance)


_NOTHING = Masked(b"")


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
        self._masked: list[Masked] = []
        for call in calls:
            path, name, arguments = key_of(call)
            began_at = _begin_of(call, started_at)
            masked = without_circumstances(arguments, started_at, began_at, at_a_distance=at_a_distance)
            if masked.has_circumstances:
                self._places.append((path, call.kind, name, masked.text))
                self._masked.append(masked)
            else:
                self._places.append(None)
                self._masked.append(_NOTHING)
        self.by_path = CallIndex(self._places, used)
        """The calls by path, kind, name and arguments."""

    def fits(self, index: int, masked: Masked) -> bool:
        """Return whether a call with the same text is as far from the moments in it."""
        return self._masked[index].is_as_far_as(masked)

    @cached_property
    def anywhere(self) -> CallIndex:
        """The calls by kind, name and arguments."""
        return CallIndex([None if place is None else place[1:] for place in self._places], self._used)


def _begin_of(call: Call, started_at: float) -> float:
    if call.span is not None:
        return started_at + call.span.begin_s
    return call.at or started_at
