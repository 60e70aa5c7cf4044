"""Read dates in texts in one shape, and derive days and durations from them.

`2024-03-12`, `12/03/2024`, `March 12, 2024`, `12. März` and `2024年3月12日` mean the same.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import combinations
from typing import TypeAlias

from replaykit.redaction.lazy_patterns import lazy

Day: TypeAlias = tuple[int | None, int, int]
"""Year (None if unknown), month and day."""

_MONTHS = (
    "january jan januar janvier enero janeiro gennaio januari stycznia января",
    "february feb februar février febrero fevereiro febbraio februari lutego февраля",
    "march mar märz mars marzo março maart marca марта",
    "april apr avril abril aprile kwietnia апреля",
    "may mai mayo maio maggio mei maja мая",
    "june jun juni juin junio junho giugno czerwca июня",
    "july jul juli juillet julio julho luglio lipca июля",
    "august aug août agosto augustus sierpnia августа",
    "september sep sept septembre septiembre setembro settembre września сентября",
    "october oct oktober okt octobre octubre outubro ottobre października октября",
    "november nov novembre noviembre novembro listopada ноября",
    "december dec dezember dez décembre diciembre dezembro dicembre grudnia декабря",
)
_MONTH: dict[str, int] = {}
for _number, _month_names in enumerate(_MONTHS, 1):
    _MONTH.update(dict.fromkeys(_month_names.split(), _number))
_NAMES = "|".join(sorted(_MONTH, key=len, reverse=True))
_DATE = lazy(
    rf"(?<![\d.])(?P<iso>(?P<iy>\d{{4}})[-/.](?P<im>\d{{1,2}})[-/.](?P<id>\d{{1,2}}))(?![\d])"
    rf"|(?<![\d.])(?P<num>(?P<n1>\d{{1,2}})(?P<sep>[-/.])(?P<n2>\d{{1,2}})(?P=sep)(?P<ny>\d{{4}}|\d{{2}}))(?![\d])"
    rf"|(?P<cjk>(?:(?P<cy>\d{{4}})年)?(?P<cm>\d{{1,2}})月(?P<cd>\d{{1,2}})日)"
    rf"|\b(?P<mdy>(?P<m1>{_NAMES})\.?\s+(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?\b(?!\s*%)(?:(?:,|\s+of)?\s+(?P<y1>\d{{4}}))?)"
    rf"|\b(?P<dmy>(?P<d2>\d{{1,2}})(?:st|nd|rd|th|er|\.|º)?\s+(?:of\s+|de\s+)?(?P<m2>{_NAMES})\b\.?(?:,?\s+(?:de\s+)?(?P<y2>\d{{4}}))?)",
    re.IGNORECASE,
)
_SHORT_YEAR = 100
_LAST_MONTH, _LAST_DAY = 12, 31


def date_spans(text: str) -> Iterator[tuple[int, int, tuple[Day, ...]]]:
    """Yield the span of each date, and the days it may mean: `03/04/2024` has two readings."""
    for found in _DATE.finditer(text):
        days = tuple(filter(_is_possible, _days(found)))
        if days:
            yield found.start(), found.end(), days


def is_same_day(day: Day, other: Day) -> bool:
    """Return whether both may be the same day; an unknown year matches any."""
    return day[1:] == other[1:] and (day[0] == other[0] or day[0] is None or other[0] is None)


def as_date(day: Day) -> dt.date | None:
    """Return the day as a date; None without a year, or if the day does not exist."""
    year, month, day_of_month = day
    if year is None:
        return None
    try:
        return dt.date(year, month, day_of_month)
    except ValueError:
        return None


def _days(found: re.Match[str]) -> Iterator[Day]:
    if found["iso"]:
        yield _day(found["iy"], found["im"], found["id"])
    elif found["num"]:
        year = found["ny"]
        if int(year) < _SHORT_YEAR:
            year = str(2000 + int(year))
        yield _day(year, found["n2"], found["n1"])
        yield _day(year, found["n1"], found["n2"])
    elif found["cjk"]:
        yield _day(found["cy"], found["cm"], found["cd"])
    elif found["mdy"]:
        yield _day(found["y1"], found["m1"], found["d1"])
    else:
        yield _day(found["y2"], found["m2"], found["d2"])


def _day(year: str | None, month: str, day: str) -> Day:
    number = _MONTH.get(month.lower()) or int(month)
    return (None if year is None else int(year)), number, int(day)


def _is_possible(day: Day) -> bool:
    return 1 <= day[1] <= _LAST_MONTH and 1 <= day[2] <= _LAST_DAY


_MAX_MOMENTS = 12
_EPOCH_SECONDS = (1e8, 4.2e9)
_MAX_DAYS = 31
_MAX_WEEKS = 53
_NOON = 12
_MOMENT = lazy(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?")
_CLOCK = lazy(r"\b(\d{1,2}):(\d{2})(?::(\d{2}))?\s?([ap])?", re.IGNORECASE)


def epoch_day(number: float) -> dt.date | None:
    """Return the day of a Unix time in seconds or milliseconds; None if the number is out of range."""
    seconds = number / 1000 if number > _EPOCH_SECONDS[1] else number
    if not _EPOCH_SECONDS[0] <= seconds <= _EPOCH_SECONDS[1]:
        return None
    return dt.datetime.fromtimestamp(seconds, dt.UTC).date()


def dates_of(day: Day, known: Sequence[dt.date]) -> Iterator[dt.date]:
    """Yield the date, or, without a year, the dates in all years around the known ones."""
    years: set[int] = set()
    if day[0] is not None:
        years.add(day[0])
    else:
        for around in known:
            years.update((around.year - 1, around.year, around.year + 1))
    for year in years:
        date = as_date((year, *day[1:]))
        if date is not None:
            yield date


def is_around(day: dt.date, known: dt.date) -> bool:
    """Return whether a day is near a known one, its anniversary, weeks from it, or on a similar day of a month."""
    apart = abs((day - known).days)
    if apart <= _MAX_DAYS or (day.month, day.day) == (known.month, known.day):
        return True
    is_weeks = min(apart % 7, -apart % 7) <= 1
    is_month_end = day.day == 1 or (day + dt.timedelta(days=1)).day == 1
    is_like = is_weeks or is_month_end or abs(day.day - known.day) <= 1
    return is_like and apart <= 7 * _MAX_WEEKS


def shifted(day: dt.date, spans: Iterable[int]) -> Iterator[dt.date]:
    """Yield the days that are so many days, weeks, months and years before and after a day."""
    for span in spans:
        for days in (span, 7 * span, -span, -7 * span):
            yield day + dt.timedelta(days=days)
        for months in (span, -span, 12 * span, -12 * span):
            yield _months_later(day, months)


def days_apart(days: Sequence[dt.date]) -> Iterator[float]:
    """Yield the intervals between all days, in days, workdays, weeks, months and years."""
    for day, other in combinations(days, 2):
        apart = abs((day - other).days)
        yield from (apart, apart + 1, apart / 7, apart / 30.4375, apart / 365.25)
        yield from (apart // 7, apart // 30.4375, apart // 365.2425, _workdays(day, other))


def moments_apart(texts: Iterable[str]) -> Iterator[float]:
    """Yield the intervals between all moments and times of day, in seconds, minutes and hours."""
    moments: list[float] = []
    clocks: list[float] = []
    for text in texts:
        for found in _MOMENT.finditer(text):
            with suppress(ValueError):
                parsed = dt.datetime.fromisoformat(found[0])
                clock = parsed.replace(tzinfo=dt.UTC)
                clocks.append(clock.timestamp())
                moments.append((parsed if parsed.tzinfo else clock).timestamp())
        clocks += map(_seconds_of_day, _CLOCK.finditer(text))
    for group in (moments[:_MAX_MOMENTS], clocks[:_MAX_MOMENTS]):
        for moment, other in combinations(group, 2):
            apart = abs(moment - other)
            yield from (apart, apart / 60, apart / 3600)


def _months_later(day: dt.date, months: int) -> dt.date:
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return dt.date(max(year, 1), month + 1, min(day.day, 28))


def _workdays(day: dt.date, other: dt.date) -> int:
    first, last = sorted((day, other))
    weeks, rest = divmod((last - first).days + 1, 7)
    return weeks * 5 + sum((first.weekday() + extra) % 7 < 5 for extra in range(rest))


def _seconds_of_day(found: re.Match[str]) -> float:
    hour = int(found[1])
    if (found[4] or "").lower() == "p" and hour < _NOON:
        hour += _NOON
    return 3600.0 * hour + 60 * int(found[2]) + int(found[3] or 0)
