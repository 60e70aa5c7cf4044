"""Numbers in texts: amounts, percentages and plain numbers, with what their digits may mean.

`1.234` is one and a bit in English and over a thousand in German, so a number has one or two readings. Each reading has
a tolerance: how far a source may be from it and still have been rounded to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct

from replaykit.redaction.lazy_patterns import lazy

Reading: TypeAlias = tuple[float, float]
"""A value, and its tolerance."""

_MAX_DIGITS = 40
_CURRENCY = (
    r"[$€£¥₹₽₩元円]|R\$|\b(?:USD|EUR|GBP|JPY|CNY|CHF|INR|BRL|PLN|CAD|AUD|SEK|NOK|DKK|RUB|zł|kr)\b"
    r"|\b(?:dollars?|euros?|pounds?|cents)\b"
)
_SCALES = {
    **dict.fromkeys(("k", "thousand", "tsd", "mille", "mil"), 3),
    **dict.fromkeys(("m", "mm", "mn", "mio", "million", "millions", "millionen", "millones", "millón"), 6),
    **dict.fromkeys(("milhões", "milhão", "milioni", "miljoen"), 6),
    **dict.fromkeys(("bn", "b", "billion", "billions", "mrd", "milliarden", "milliarde", "milliards"), 9),
    **dict.fromkeys(("miliardi", "miljard", "bilhões"), 9),
    **dict.fromkeys(("trillion", "trillions", "t"), 12),
    "lakh": 5,
    "crore": 7,
    "万": 4,
    "萬": 4,
    "億": 8,
    "亿": 8,
}
"""Words behind a number, and the power of ten that each stands for."""
_SHORT_SCALES = frozenset({"k", "m", "b", "t", "mm"})
"""Letters that are units as often: they scale amounts of money only."""
_PERCENT = r"%|percent\b|per cent\b|prozent\b|pour ?cent\b|por ciento\b|por cento\b|procent\b|パーセント"
_NOT_IN_A_WORD = r"(?<![^\W\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff])(?<!\.)"
"""Not right behind a letter; but Chinese, Japanese and Korean set no blank between a word and a number."""
_NUMBER = lazy(
    rf"(?P<before>(?:{_CURRENCY})\s?)?(?P<sign>(?<![\w)])[-−+])?{_NOT_IN_A_WORD}"
    rf"(?P<digits>\d+(?:[.,'’\u00a0\u202f]\d+|[ \u00a0\u202f]\d{{3}}(?!\d))*)"
    rf"(?P<scale>\s?(?:{'|'.join(sorted(_SCALES, key=len, reverse=True))})\b|[万萬億亿])?"
    rf"(?P<percent>\s?(?:{_PERCENT}))?(?P<after>\s?(?:{_CURRENCY}))?",
    re.IGNORECASE,
)
_ORDINAL = lazy(r"(?:st|nd|rd|th|er|ème|º|ª)\b", re.IGNORECASE)


class NumberText(Struct, frozen=True, kw_only=True):
    """A number as a text has it."""

    text: str
    start: int
    digits: str
    """Its digits and separators alone."""
    readings: tuple[Reading, ...]
    is_percent: bool
    is_money: bool


def read_numbers(text: str) -> Iterator[NumberText]:
    """Give the numbers of a text in order; ordinals such as `21st` are none."""
    for found in _NUMBER.finditer(text):
        is_money = bool(found["before"] or found["after"])
        power = _power(found["scale"] or "", is_money=is_money)
        readings = tuple(_readings(found["digits"], power))
        if not readings or _ORDINAL.match(text, found.end("digits")):
            continue
        sign = -1 if found["sign"] in ("-", "−") else 1
        blanks = len(found[0]) - len(found[0].lstrip())
        yield NumberText(
            text=found[0].strip(),
            start=found.start() + blanks,
            digits=found["digits"],
            readings=tuple((sign * value, tolerance) for value, tolerance in readings),
            is_percent=bool(found["percent"]),
            is_money=is_money,
        )


def _power(scale: str, *, is_money: bool) -> int:
    word = scale.strip().lower()
    if word in _SHORT_SCALES and not is_money:
        return 0
    return _SCALES.get(word, 0)


def _readings(digits: str, power: int) -> Iterator[Reading]:
    """Give what digits with separators may mean."""
    plain = re.sub(r"['’ \u00a0\u202f]", "", digits)
    if len(plain) > _MAX_DIGITS:
        return
    separators = [letter for letter in plain if letter in ".,"]
    if not separators:
        yield _scaled(plain, "", power)
        return
    whole, _, fraction = plain.rpartition(separators[-1])
    is_mixed = len(set(separators)) > 1
    if is_mixed or len(separators) == 1:
        yield _scaled(re.sub(r"[.,]", "", whole), fraction, power)
    groups = re.split(r"[.,]", plain)
    # India groups by two digits, but the last group has three everywhere.
    are_thousands = all(len(group) in (2, 3) for group in groups[1:]) and len(groups[-1]) == 3
    if are_thousands and not is_mixed:
        yield _scaled("".join(groups), "", power)


def _scaled(whole: str, fraction: str, power: int) -> Reading:
    value = float(f"{whole or 0}.{fraction or 0}") * 10.0**power
    if fraction or power:
        return value, 0.5000001 * 10.0 ** (power - len(fraction))
    # Of a round number two digits are meant: 1,200 may stand for 1,187.
    zeros = len(whole) - len(whole.rstrip("0"))
    rounded = min(zeros, len(whole) - 2)
    return value, 0.5 * 10.0**rounded if rounded >= 2 else 0.0
