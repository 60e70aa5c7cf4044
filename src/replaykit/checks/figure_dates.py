"""Dates in texts: `2024-03-12`, `12/03/2024`, `March 12, 2024`, `12. März`, `2024年3月12日`, in one shape."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from typing import TypeAlias

from replaykit.redaction.lazy_patterns import lazy

Day: TypeAlias = tuple[int | None, int, int]
"""Year (None where it is not said), month and day."""

_MONTHS = (
    ("january", "jan", "januar", "janvier", "enero", "janeiro", "gennaio", "januari", "stycznia", "января"),
    ("february", "feb", "februar", "février", "febrero", "fevereiro", "febbraio", "februari", "lutego", "февраля"),
    ("march", "mar", "märz", "mars", "marzo", "março", "maart", "marca", "марта"),
    ("april", "apr", "avril", "abril", "aprile", "kwietnia", "апреля"),
    ("may", "mai", "mayo", "maio", "maggio", "mei", "maja", "мая"),
    ("june", "jun", "juni", "juin", "junio", "junho", "giugno", "czerwca", "июня"),
    ("july", "jul", "juli", "juillet", "julio", "julho", "luglio", "lipca", "июля"),
    ("august", "aug", "août", "agosto", "augustus", "sierpnia", "августа"),
    ("september", "sep", "sept", "septembre", "septiembre", "setembro", "settembre", "września", "сентября"),
    ("october", "oct", "oktober", "okt", "octobre", "octubre", "outubro", "ottobre", "października", "октября"),
    ("november", "nov", "novembre", "noviembre", "novembro", "listopada", "ноября"),
    ("december", "dec", "dezember", "dez", "décembre", "diciembre", "dezembro", "dicembre", "grudnia", "декабря"),
)
_MONTH = {name: number for number, names in enumerate(_MONTHS, 1) for name in names}
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
    """Give each date's place in the text, and the days it may mean: `03/04/2024` is one of two."""
    for found in _DATE.finditer(text):
        days = tuple(day for day in _days(found) if 1 <= day[1] <= _LAST_MONTH and 1 <= day[2] <= _LAST_DAY)
        if days:
            yield found.start(), found.end(), days


def is_same_day(one: Day, other: Day) -> bool:
    """True when both may be the same day; a year that one does not say is no difference."""
    return one[1:] == other[1:] and (one[0] == other[0] or one[0] is None or other[0] is None)


def as_date(day: Day) -> dt.date | None:
    """Return the day as a date; None without a year, or for a day that there is not."""
    if day[0] is None:
        return None
    try:
        return dt.date(day[0], day[1], day[2])
    except ValueError:
        return None


def _days(found: re.Match[str]) -> Iterator[Day]:
    if found["iso"]:
        yield int(found["iy"]), int(found["im"]), int(found["id"])
    elif found["num"]:
        year = int(found["ny"])
        year += 2000 if year < _SHORT_YEAR else 0
        yield year, int(found["n2"]), int(found["n1"])
        yield year, int(found["n1"]), int(found["n2"])
    elif found["cjk"]:
        yield int(found["cy"]) if found["cy"] else None, int(found["cm"]), int(found["cd"])
    elif found["mdy"]:
        yield _year(found["y1"]), _MONTH[found["m1"].lower()], int(found["d1"])
    else:
        yield _year(found["y2"]), _MONTH[found["m2"].lower()], int(found["d2"])


def _year(text: str | None) -> int | None:
    if text is None:
        return None
    return int(text)
