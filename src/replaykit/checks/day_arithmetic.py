"""Day arithmetic: the days and durations that somebody comes to who counts from days and times that are known."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Sequence

from replaykit.checks.figure_dates import Day, as_date
from replaykit.redaction.lazy_patterns import lazy

_MAX_MOMENTS = 12
_EPOCH_SECONDS = (1e8, 4.2e9)
_MAX_DAYS = 31
_MAX_WEEKS = 53
_NOON = 12
_MOMENT = lazy(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?")
_CLOCK = lazy(r"\b(\d{1,2}):(\d{2})(?::(\d{2}))?\s?([ap])?", re.IGNORECASE)


def epoch_day(number: float) -> dt.date | None:
    """Return the day of a count of seconds or milliseconds since 1970; None for a number that is none."""
    seconds = number / 1000 if number > _EPOCH_SECONDS[1] else number
    if not _EPOCH_SECONDS[0] <= seconds <= _EPOCH_SECONDS[1]:
        return None
    return dt.datetime.fromtimestamp(seconds, dt.UTC).date()


def dates_of(day: Day, known: Sequence[dt.date]) -> Iterator[dt.date]:
    """Give the date; of a day without a year, that of every year around those known."""
    if day[0] is not None:
        years = {day[0]}
    else:
        years = {day.year + shift for day in known for shift in (-1, 0, 1)}
    for year in years:
        date = as_date((year, *day[1:]))
        if date is not None:
            yield date


def is_around(day: dt.date, known: dt.date) -> bool:
    """True for a day near a known one, its anniversary, whole weeks from it, or a day of months like it."""
    apart = abs((day - known).days)
    if apart <= _MAX_DAYS or (day.month, day.day) == (known.month, known.day):
        return True
    is_weeks = min(apart % 7, -apart % 7) <= 1
    is_month_end = day.day == 1 or (day + dt.timedelta(days=1)).day == 1
    is_like = is_weeks or is_month_end or abs(day.day - known.day) <= 1
    return is_like and apart <= 7 * _MAX_WEEKS


def shifted(day: dt.date, spans: Iterable[int]) -> Iterator[dt.date]:
    """Give the days so many days, weeks, months and years before and after the day."""
    for span in spans:
        for days in (span, 7 * span, -span, -7 * span):
            yield day + dt.timedelta(days=days)
        for months in (span, -span, 12 * span, -12 * span):
            yield _months_later(day, months)


def days_apart(days: Sequence[dt.date]) -> Iterator[float]:
    """Give how long it is from each day to each other one, in days, workdays, weeks, months and years."""
    for index, day in enumerate(days):
        for other in days[index + 1 :]:
            apart = abs((day - other).days)
            yield from (apart, apart + 1, apart / 7, apart / 30.4375, apart / 365.25)
            yield from (apart // 7, apart // 30.4375, apart // 365.2425, _workdays(day, other))


def moments_apart(texts: Iterable[str]) -> Iterator[float]:
    """Give how long it is from each moment or time of day to each other one, in seconds, minutes and hours."""
    moments: list[float] = []
    clocks: list[float] = []
    for text in texts:
        for found in _MOMENT.finditer(text):
            moment = _parsed(found[0])
            if moment is not None:
                moments.append(moment.timestamp())
                clocks.append(moment.replace(tzinfo=dt.UTC).timestamp())
        clocks += (_seconds_of_day(found) for found in _CLOCK.finditer(text))
    for group in (moments[:_MAX_MOMENTS], clocks[:_MAX_MOMENTS]):
        for index, day in enumerate(group):
            for other in group[index + 1 :]:
                apart = abs(day - other)
                yield from (apart, apart / 60, apart / 3600)


def _months_later(day: dt.date, months: int) -> dt.date:
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return dt.date(max(year, 1), month + 1, min(day.day, 28))


def _workdays(day: dt.date, other: dt.date) -> int:
    first, last = sorted((day, other))
    weeks, rest = divmod((last - first).days + 1, 7)
    return weeks * 5 + sum((first.weekday() + day) % 7 < 5 for day in range(rest))


def _seconds_of_day(found: re.Match[str]) -> float:
    hour = int(found[1])
    if (found[4] or "").lower() == "p" and hour < _NOON:
        hour += _NOON
    return 3600.0 * hour + 60 * int(found[2]) + int(found[3] or 0)


def _parsed(text: str) -> dt.datetime | None:
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is not None:
        return moment
    return moment.replace(tzinfo=dt.UTC)
