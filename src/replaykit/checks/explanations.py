"""Explanations: whether a figure might follow from the sources at all, by a short calculation, a unit or the calendar.

`derivations` asks for one named step of arithmetic. This module gives the benefit of the doubt: a figure that it cannot
explain comes from nowhere. The more numbers a run holds, the more can be explained; past `MAX_NUMBERS` every number is.
It asks no clock: the same run has to get the same answer again.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice

from replaykit.checks.day_arithmetic import dates_of, days_apart, epoch_day, is_around, moments_apart, shifted
from replaykit.checks.failures import result_failure
from replaykit.checks.figure_dates import as_date
from replaykit.checks.figures import Figure, plain_key, url_key
from replaykit.checks.grounding_sources import SourceView
from replaykit.checks.source_columns import Columns
from replaykit.checks.unit_conversions import converted, parts
from replaykit.redaction.lazy_patterns import lazy

MAX_NUMBERS = 90
"""With more numbers than this, two steps of arithmetic lead to almost any figure."""
_MAX_PRODUCTS = 25
_FEW_NUMBERS = 12
_MAX_DATES = 12
_MAX_DURATIONS = 40
_MAX_TOTALS = 60
_MAX_ROWS = 40
_MAX_PLAIN_DIGITS = 9
_COUNTS = tuple(map(float, (*range(2, 13), 24, 30, 31, 52, 60, 100, 365, 1000, 1024, 3600)))
_WHOLE = 0.999
"""The largest difference of a whole number from the number it was rounded from: 437 items are on 19 pages of 24."""
_MAX_YEARS = 40
_YEARS = range(1000, 3000)
_SHORTENED_YEARS = range(1900, 2101)
_MAX_SPAN = 1000
_MAX_SPANS = 30
_LONG_ROW = 6
_MIN_WORD = 4
_SHORT_PIECE = 2
_MAX_PLAIN_SEGMENTS = 2
_NUMBER_WORD = lazy(r"[a-z]+", re.IGNORECASE)
_SMALL_WORDS = {
    "one": 1.0, "two": 2.0, "three": 3.0, "four": 4.0, "five": 5.0, "six": 6.0, "seven": 7.0, "eight": 8.0, "nine": 9.0,
    "ten": 10.0, "eleven": 11.0, "twelve": 12.0, "thirteen": 13.0, "fourteen": 14.0, "fifteen": 15.0, "sixteen": 16.0,
    "seventeen": 17.0, "eighteen": 18.0, "nineteen": 19.0,
}  # fmt: skip
_TENS = {
    "twenty": 20.0, "thirty": 30.0, "forty": 40.0, "fifty": 50.0, "sixty": 60.0, "seventy": 70.0, "eighty": 80.0,
    "ninety": 90.0,
}  # fmt: skip
_OTHER_WORDS = {"dozen": 12.0, "half": 0.5, "quarter": 0.25, "third": 1 / 3, "pair": 2.0, "double": 2.0, "triple": 3.0}
_COMPOUND = lazy(
    r"\b(twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)[ -](one|two|three|four|five|six|seven|eight|nine)\b",
    re.IGNORECASE,
)
_RELATIVE_DAY = lazy(
    r"\b(?:today|tonight|tomorrow|yesterday|next|last|this (?:week|month|year|morning|afternoon|evening)|ago|now"
    r"|monday|tuesday|wednesday|thursday|friday|saturday|sunday|weekend|heute|morgen|gestern|nächste\w*|demain|aujourd'hui"
    r"|upcoming|prochaine?|mañana|hoy|próxim\w+|domani|oggi|amanhã|hoje|завтра|сегодня)\b|明日|今日|来週|明天|今天|下周|내일|오늘",
    re.IGNORECASE,
)
_OTHER_BASE = lazy(r"\b0(?:x[0-9a-fA-F]{1,12}|b[01]{1,40}|o[0-7]{1,14})\b")
_PIECE = lazy(r"[^\W\d_]+|\d+")


class Explanations:
    """Everything that follows from the sources of a figure."""

    def __init__(self, sources: SourceView, stated: Sequence[float] = ()) -> None:
        self._sources = sources
        self._stated = stated
        """Numbers that the answer itself gives and that are explained: results that others are worked out from."""
        # The numbers of an error message are no data: a status, a port, a line.
        self._telling = [one for one in sources.sources if result_failure(one.text) is None]

    def explain(self, figure: Figure) -> bool:
        """True when the figure may follow from the sources; False when it comes from nowhere."""
        if figure.kind == "number":
            return self._explains_number(figure)
        if figure.kind == "date":
            return self._explains_date(figure)
        if figure.kind == "url":
            return self._explains_url(figure.text)
        if figure.kind == "id":
            return self._has_pieces(figure.text)
        if figure.kind == "name":
            return self._explains_name(figure.text)
        return False

    def _explains_number(self, figure: Figure) -> bool:
        if len(self._numbers) > MAX_NUMBERS or self._is_part_of_row(figure):
            return True
        return any(
            self._leads_to(target, margin, is_percent=figure.is_percent)
            for value, tolerance in zip(figure.values, figure.tolerances, strict=True)
            for target, margin in _targets(abs(value), tolerance, figure)
        )

    def _leads_to(self, target: float, margin: float, *, is_percent: bool) -> bool:
        if not target:
            return True
        if target == int(target) and target <= self._sources.longest_list:
            return True
        ways: tuple[Callable[[float, float], bool], ...] = (
            self._direct.has,
            self._columns.has_subset_sum,
            self._in_two_steps,
            self._is_sum_of_products,
            self._is_moment,
        )
        if any(way(target, margin) for way in ways):
            return True
        return is_percent and self._is_yearly_growth(target, margin)

    @cached_property
    def _numbers(self) -> list[float]:
        """The numbers that the sources hold, in digits and in words."""
        found = set(self._stated)
        for source in self._telling:
            found.update(source.numbers)
            found.update(float(int(text, 0)) for text in _OTHER_BASE.findall(source.text)[:MAX_NUMBERS])
            found.update(_numbers_in_words(source.text[: source.readable_chars]))
        found.discard(0.0)
        return sorted(found)

    @cached_property
    def _digits(self) -> list[float]:
        """Every row of digits as a number: parts of ids, dates and times among them, and years in two digits."""
        rows = {row for source in self._telling for row in source.digits}
        found = {float(row) for row in rows if 0 < len(row) <= _MAX_PLAIN_DIGITS}
        return sorted({*found, *(number % 100 for number in found if number in _SHORTENED_YEARS)})

    @cached_property
    def _terms(self) -> list[float]:
        """The quantities that arithmetic begins with: numbers of the sources, totals of columns, and durations."""
        if len(self._durations) <= _MAX_DURATIONS:
            durations = self._durations
        else:
            durations = []
        return sorted({*self._numbers, *self._totals, *durations} - {0.0})

    @cached_property
    def _totals(self) -> list[float]:
        return [abs(total) for total in islice(self._columns.totals(), _MAX_TOTALS)]

    @cached_property
    def _multipliers(self) -> list[float]:
        """Multipliers of a quantity besides other quantities: discounts, taxes, squares, compound interest."""
        found: set[float] = set()
        for number in self._numbers:
            if number <= 100:
                found.update((number / 100, 1 - number / 100, 1 + number / 100))
            if number < 1:
                found.update((1 - number, 1 + number))
        if len(self._numbers) <= _FEW_NUMBERS:
            found.update(_powers(self._numbers))
        return sorted(found - {0.0})

    @cached_property
    def _columns(self) -> Columns:
        return Columns(source.text[: source.readable_chars] for source in self._telling)

    @cached_property
    def _direct(self) -> _Sorted:
        """Values that need no arithmetic but a unit: the numbers, totals, durations and sizes of the sources."""
        values = [*self._terms, *self._durations]
        circles = [part * value for value in self._numbers for part in (math.pi, math.pi * value, math.pi * value / 4)]
        rows = self._digits[-_MAX_ROWS:]
        apart = [abs(one - other) for one in rows for other in rows]
        squares = [value * value for value in self._numbers]
        converted_values = converted([*self._terms, *circles, *squares])
        return _Sorted([*values, *self._sizes, *self._digits, *apart, *converted_values, *parts(values)])

    @cached_property
    def _sizes(self) -> list[float]:
        """Return the numbers of characters, words and lines of each source."""
        texts = [source.text for source in self._telling]
        return [float(size) for text in texts for size in (len(text), len(text.split()), text.count("\n") + 1)]

    @cached_property
    def _of_two(self) -> _Sorted:
        """Return the results of one step of arithmetic on two quantities, or of one and a multiplier."""
        found: list[float] = []
        for index, one in enumerate(self._terms):
            for other in self._terms[index + 1 :]:
                found += (one + other, other - one, one * other, one / other, other / one)
            for factor in self._multipliers:
                found += (one * factor, one / factor)
        return _Sorted(found)

    @cached_property
    def _of_one(self) -> _Sorted:
        """Return the results of one step on a quantity and a common count: twelve months, two of them."""
        found = [value for one in self._terms for count in _COUNTS for value in (one * count, one / count)]
        found += [value for one in self._terms for value in (one + 1, abs(one - 1), 1 / one)]
        return _Sorted(found)

    def _in_two_steps(self, target: float, margin: float) -> bool:
        known = (self._of_two, self._of_one)
        if any(values.has(target, margin) for values in known):
            return True
        for term in self._terms:
            before = (
                (target + term, margin),
                (abs(target - term), margin),
                (target / term, margin / term),
                (target * term, margin * term),
                (term / target, margin * term / target**2),
            )
            if any(values.has(*one) for one in before for values in known):
                return True
        return any(
            self._of_two.has(target * factor, margin * factor) or self._of_two.has(target / factor, margin / factor)
            for factor in (*_COUNTS, *self._multipliers)
        )

    def _is_sum_of_products(self, target: float, margin: float) -> bool:
        """True for so many of one and so many of another."""
        products = self._products
        return any(products.has(target - one, margin) for one in products.values if one < target)

    @cached_property
    def _products(self) -> _Sorted:
        numbers = self._numbers if len(self._numbers) <= _MAX_PRODUCTS else []
        return _Sorted(one * other for index, one in enumerate(numbers) for other in numbers[index:])

    def _is_yearly_growth(self, target: float, margin: float) -> bool:
        """True for the percentage by which one number grows into another in some years."""
        numbers = _Sorted(self._numbers)
        for years in range(2, _MAX_YEARS + 1):
            growth = (1 + target / 100) ** years
            slack = years * margin / 100 * growth
            if any(numbers.has(number * growth, number * slack) for number in numbers.values):
                return True
        return False

    def _is_moment(self, target: float, _margin: float) -> bool:
        """True for a count of seconds or milliseconds since 1970 that falls on a day of the sources."""
        day = epoch_day(target)
        return day is not None and any(abs((day - known).days) <= 1 for known in self._days)

    def _is_part_of_row(self, figure: Figure) -> bool:
        """True for digits out of a longer row, as of a telephone number or an account."""
        digits = re.sub(r"\D", "", figure.text)
        if len(digits) < 3:
            return False
        rows = (row for source in self._sources.sources for row in source.digits if len(row) >= _LONG_ROW)
        return any(digits in row for row in rows)

    @cached_property
    def _days(self) -> list[dt.date]:
        found = [date for day, _where in self._sources.days if (date := as_date(day)) is not None]
        found = [day for day in found if day.year in _YEARS]
        found += [day for number in self._numbers_of_moments() if (day := epoch_day(number)) is not None]
        return list(dict.fromkeys(found))[:_MAX_DATES]

    def _numbers_of_moments(self) -> Iterator[float]:
        for source in self._sources.sources:
            yield from (float(row) for row in source.digits if len(row) in (9, 10, 12, 13))

    @cached_property
    def _durations(self) -> list[float]:
        texts = [source.text for source in self._telling]
        return [*days_apart(self._days), *moments_apart(texts)]

    def _explains_date(self, figure: Figure) -> bool:
        known = self._days
        if not known:
            return any(_RELATIVE_DAY.search(source.text) for source in self._sources.sources)
        days = [date for day in figure.days for date in dates_of(day, known)]
        return any(self._is_reachable(day) for day in days)

    def _is_reachable(self, day: dt.date) -> bool:
        if any(is_around(day, known) for known in self._days):
            return True
        return any(other in self._days_further for other in (day, *shifted(day, self._spans)))

    @cached_property
    def _spans(self) -> list[int]:
        """The whole numbers that may count days, weeks, months or years."""
        return [int(number) for number in self._numbers if number == int(number) and number <= _MAX_SPAN][:_MAX_SPANS]

    @cached_property
    def _days_further(self) -> set[dt.date]:
        days = {*self._days, *(other for day in self._days for other in shifted(day, self._spans))}
        return {day + dt.timedelta(days=shift) for day in days for shift in (-1, 0, 1)}

    def _explains_url(self, text: str) -> bool:
        """True for an address on a known host whose particulars are known too, and for one without particulars."""
        host, *segments = [piece for piece in re.split(r"[/?&=#]", url_key(text) + _query(text)) if piece]
        particular = [piece for piece in segments if any(letter.isdigit() for letter in piece)]
        if self._sources.holds_text(plain_key(host)):
            return all(self._has_pieces(piece) for piece in particular)
        return not particular and len(segments) <= _MAX_PLAIN_SEGMENTS

    def _has_pieces(self, text: str) -> bool:
        """True when the sources hold each run of letters or digits."""
        pieces = [piece.casefold() for piece in _PIECE.findall(text)]
        long = [piece for piece in pieces if len(piece) > _SHORT_PIECE]
        if not long:
            return False
        digits = "".join(piece for piece in pieces if piece.isdigit())
        if len(digits) >= _LONG_ROW and any(digits in row for source in self._sources.sources for row in source.digits):
            return True
        return all(self._sources.holds_text(piece) for piece in long)

    def _explains_name(self, text: str) -> bool:
        words = [plain_key(word) for word in text.split()]
        return any(len(word) >= _MIN_WORD and self._sources.holds_text(word) for word in words)


def _powers(numbers: list[float]) -> Iterator[float]:
    """Give squares, roots and compound interest; of few numbers only, since they lead far."""
    for number in numbers:
        for one in (number, number / 100, number / 1000):
            yield from (one * one, one**0.5)
    for rate in numbers:
        shares = [share for share in (rate, rate / 100) if share < 1]
        for years in numbers:
            if years == int(years) and 1 < years <= _MAX_YEARS:
                yield from ((1 + share) ** years for share in shares)


class _Sorted:
    """Values that can be asked whether one is near a target."""

    def __init__(self, values: Iterable[float]) -> None:
        self.values = sorted(set(values))

    def has(self, target: float, margin: float) -> bool:
        reach = max(margin, 1e-9 * abs(target))
        index = bisect_left(self.values, target - reach)
        return index < len(self.values) and self.values[index] <= target + reach


def _targets(value: float, tolerance: float, figure: Figure) -> Iterator[tuple[float, float]]:
    """Give the values that a figure may stand for, each with how far its origin may be from it."""
    is_whole = value == int(value) and not tolerance
    margin = _WHOLE if is_whole else 2 * tolerance
    yield value, margin
    if figure.is_percent:
        yield value / 100, margin / 100
        yield 1 + value / 100, margin / 100
        yield abs(1 - value / 100), margin / 100


def _numbers_in_words(text: str) -> Iterator[float]:
    for found in _COMPOUND.finditer(text):
        yield _TENS[found[1].lower()] + _SMALL_WORDS[found[2].lower()]
    for word in {found[0].lower() for found in _NUMBER_WORD.finditer(text)}:
        for names in (_SMALL_WORDS, _TENS, _OTHER_WORDS):
            if word in names:
                yield names[word]


def _query(text: str) -> str:
    _address, mark, query = text.partition("?")
    return mark + query.casefold()
