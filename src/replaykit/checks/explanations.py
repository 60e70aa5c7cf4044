"""Explain figures: decide whether one may follow from the sources by a short calculation, a unit or the calendar.

`grounding.is_derived` accepts one named step of arithmetic. This module gives the benefit of the doubt: only a figure
that it cannot explain has no source. The more numbers a run holds, the more can be explained; beyond `MAX_NUMBERS`,
every number can. It uses no clock, so that the same run always gets the same result.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, combinations, combinations_with_replacement, islice, product

from replaykit.checks.failures import result_failure
from replaykit.checks.figure_dates import as_date, dates_of, days_apart, epoch_day, is_around, moments_apart, shifted
from replaykit.checks.figures import Figure, plain_key, url_key
from replaykit.checks.grounding_sources import SMALL_NUMBERS, TENS, SortedNumbers, SourceView
from replaykit.checks.source_columns import Columns
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
_WHOLE = 0.999  # how much rounding to a whole number may change: 437 items fill 19 pages of 24
_MAX_YEARS = 40
_YEARS = range(1000, 3000)
_ONE_DAY = dt.timedelta(days=1)
_SHORTENED_YEARS = range(1900, 2101)
_MAX_SPAN = 1000
_MAX_SPANS = 30
_LONG_ROW = 6
_MIN_WORD = 4
_SHORT_PIECE = 2
_MAX_PLAIN_SEGMENTS = 2
_NUMBER_WORD = lazy(r"[a-z]+", re.IGNORECASE)
_OTHER_WORDS = {"dozen": 12.0, "half": 0.5, "quarter": 0.25, "third": 1 / 3, "pair": 2.0, "double": 2.0, "triple": 3.0}
_WORD_VALUES = {**SMALL_NUMBERS, **TENS, **_OTHER_WORDS}
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
        # Explained numbers of the answer itself: results that others may be computed from.
        self._stated = stated
        # Numbers in error messages are not data: a status, a port, a line.
        self._telling = [source for source in sources.sources if result_failure(source.text) is None]

    def explain(self, figure: Figure) -> bool:
        """Return whether the figure may follow from the sources."""
        if figure.kind == "number":
            return self._explains_number(figure)
        if figure.kind == "date":
            return self._explains_date(figure)
        if figure.kind == "url":
            return self._explains_url(figure.text)
        if figure.kind == "id":
            return self._has_pieces(figure.text)
        if figure.kind == "name":
            words = map(plain_key, figure.text.split())
            return any(len(word) >= _MIN_WORD and self._sources.holds_text(word) for word in words)
        return False

    def _explains_number(self, figure: Figure) -> bool:
        if len(self._numbers) > MAX_NUMBERS or self._is_part_of_row(figure):
            return True
        for value, tolerance in zip(figure.values, figure.tolerances, strict=True):
            for target, margin in _targets(abs(value), tolerance, figure):
                if self._leads_to(target, margin, is_percent=figure.is_percent):
                    return True
        return False

    def _leads_to(self, target: float, margin: float, *, is_percent: bool) -> bool:
        if target == int(target) and target <= self._sources.longest_list:
            return True
        return (
            not target
            or self._direct.has(target, margin)
            or self._columns.has_subset_sum(target, margin)
            or self._in_two_steps(target, margin)
            or self._is_sum_of_products(target, margin)
            or self._is_moment(target)
            or (is_percent and self._is_yearly_growth(target, margin))
        )

    @cached_property
    def _numbers(self) -> list[float]:
        """The numbers in the sources, in digits and in words."""
        found = set(self._stated)
        for source in self._telling:
            found.update(source.numbers)
            for text in _OTHER_BASE.findall(source.text)[:MAX_NUMBERS]:
                found.add(float(int(text, 0)))
            found.update(_numbers_in_words(source.text[: source.readable_chars]))
        found.discard(0.0)
        return sorted(found)

    @cached_property
    def _digits(self) -> list[float]:
        """All sequences of digits as numbers, including parts of ids, dates and times, and two-digit years."""
        found: set[float] = set()
        for source in self._telling:
            for row in source.digits:
                if 0 < len(row) <= _MAX_PLAIN_DIGITS:
                    number = float(row)
                    found.add(number)
                    if number in _SHORTENED_YEARS:
                        found.add(number % 100)
        return sorted(found)

    @cached_property
    def _terms(self) -> list[float]:
        """The operands of arithmetic: numbers of the sources, totals of columns, and durations."""
        found = set(self._numbers)
        for total in islice(self._columns.totals(), _MAX_TOTALS):
            found.add(abs(total))
        if len(self._durations) <= _MAX_DURATIONS:
            found.update(self._durations)
        return sorted(found - {0.0})

    @cached_property
    def _multipliers(self) -> list[float]:
        """Factors other than quantities: discounts, taxes, squares, compound interest."""
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
    def _direct(self) -> _Values:
        """Values that need no arithmetic but a unit: the numbers, totals, durations and sizes of the sources."""
        values = [*self._terms, *self._durations]
        areas: list[float] = []
        for value in self._numbers:
            areas += (math.pi * value, math.pi * value * value, math.pi * value / 4 * value, value * value)
        sizes: list[float] = []
        for source in self._telling:
            sizes += (len(source.text), len(source.text.split()), source.text.count("\n") + 1)
        rows = self._digits[-_MAX_ROWS:]
        apart = [abs(number - other) for number, other in product(rows, rows)]
        converted_values = converted([*self._terms, *areas])
        return _Values([*values, *sizes, *self._digits, *apart, *converted_values, *parts(values)])

    @cached_property
    def _of_two(self) -> _Values:
        """The results of one operation on two quantities, or on a quantity and a factor."""
        found: list[float] = []
        for term, other in combinations(self._terms, 2):
            found += (term + other, other - term, term * other, term / other, other / term)
        for term, factor in product(self._terms, self._multipliers):
            found += (term * factor, term / factor)
        return _Values(found)

    @cached_property
    def _of_one(self) -> _Values:
        """The results of one operation on a quantity and a common count, such as twelve months."""
        found: list[float] = []
        for term in self._terms:
            found += (term + 1, abs(term - 1), 1 / term)
            for count in _COUNTS:
                found += (term * count, term / count)
        return _Values(found)

    def _in_one_step(self, target: float, margin: float) -> bool:
        return self._of_two.has(target, margin) or self._of_one.has(target, margin)

    def _in_two_steps(self, target: float, margin: float) -> bool:
        if self._in_one_step(target, margin):
            return True
        for term in self._terms:
            if (
                self._in_one_step(target + term, margin)
                or self._in_one_step(abs(target - term), margin)
                or self._in_one_step(target / term, margin / term)
                or self._in_one_step(target * term, margin * term)
                or self._in_one_step(term / target, margin * term / target**2)
            ):
                return True
        for factor in (*_COUNTS, *self._multipliers):
            if self._of_two.has(target * factor, margin * factor) or self._of_two.has(target / factor, margin / factor):
                return True
        return False

    def _is_sum_of_products(self, target: float, margin: float) -> bool:
        """Return whether the target is a sum of two products: some of one price, and some of another."""
        products = self._products
        return any(products.has(target - value, margin) for value in products.values if value < target)

    @cached_property
    def _products(self) -> _Values:
        numbers = self._numbers if len(self._numbers) <= _MAX_PRODUCTS else []
        return _Values(number * other for number, other in combinations_with_replacement(numbers, 2))

    def _is_yearly_growth(self, target: float, margin: float) -> bool:
        """Return whether this is the yearly growth in percent from one number to another."""
        numbers = _Values(self._numbers)
        for years in range(2, _MAX_YEARS + 1):
            growth = (1 + target / 100) ** years
            slack = years * margin / 100 * growth
            if any(numbers.has(number * growth, number * slack) for number in numbers.values):
                return True
        return False

    def _is_moment(self, target: float) -> bool:
        """Return whether this is a Unix time in seconds or milliseconds on a day of the sources."""
        day = epoch_day(target)
        return day is not None and any(abs((day - known).days) <= 1 for known in self._days)

    def _is_part_of_row(self, figure: Figure) -> bool:
        """Return whether these are digits from a longer sequence, such as a telephone number or an account."""
        digits = re.sub(r"\D", "", figure.text)
        return len(digits) >= 3 and any(digits in row for row in self._rows if len(row) >= _LONG_ROW)

    @cached_property
    def _rows(self) -> list[str]:
        """All sequences of digits in the sources."""
        return list(chain.from_iterable(source.digits for source in self._sources.sources))

    @cached_property
    def _days(self) -> list[dt.date]:
        found: dict[dt.date, None] = {}
        for day, _where in self._sources.days:
            date = as_date(day)
            if date is not None and date.year in _YEARS:
                found[date] = None
        for row in self._rows:
            moment = epoch_day(float(row)) if len(row) in (9, 10, 12, 13) else None
            if moment is not None:
                found[moment] = None
        return list(found)[:_MAX_DATES]

    @cached_property
    def _durations(self) -> list[float]:
        return [*days_apart(self._days), *moments_apart(source.text for source in self._telling)]

    def _explains_date(self, figure: Figure) -> bool:
        if not self._days:
            return any(_RELATIVE_DAY.search(source.text) for source in self._sources.sources)
        for day in figure.days:
            if any(map(self._is_reachable, dates_of(day, self._days))):
                return True
        return False

    def _is_reachable(self, day: dt.date) -> bool:
        if any(is_around(day, known) for known in self._days):
            return True
        return not self._days_further.isdisjoint((day, *shifted(day, self._spans)))

    @cached_property
    def _spans(self) -> list[int]:
        """The whole numbers that may count days, weeks, months or years."""
        return [int(number) for number in self._numbers if number == int(number) and number <= _MAX_SPAN][:_MAX_SPANS]

    @cached_property
    def _days_further(self) -> set[dt.date]:
        found: set[dt.date] = set()
        for known in self._days:
            for day in (known, *shifted(known, self._spans)):
                found.update((day - _ONE_DAY, day, day + _ONE_DAY))
        return found

    def _explains_url(self, text: str) -> bool:
        """Return whether a URL has a known host and known specific parts, or no specific parts at all."""
        _address, mark, query = text.partition("?")
        host, *segments = filter(None, re.split(r"[/?&=#]", url_key(text) + mark + query.casefold()))
        particular = [piece for piece in segments if any(map(str.isdigit, piece))]
        if self._sources.holds_text(plain_key(host)):
            return all(map(self._has_pieces, particular))
        return not particular and len(segments) <= _MAX_PLAIN_SEGMENTS

    def _has_pieces(self, text: str) -> bool:
        """Return whether the sources hold each part of letters or digits."""
        pieces = _PIECE.findall(text.casefold())
        long = [piece for piece in pieces if len(piece) > _SHORT_PIECE]
        if not long:
            return False
        digits = "".join(filter(str.isdigit, pieces))
        if len(digits) >= _LONG_ROW and any(digits in row for row in self._rows):
            return True
        return all(map(self._sources.holds_text, long))


def _powers(numbers: list[float]) -> Iterator[float]:
    """Yield squares, roots and compound interest; used only for few numbers, since it yields many."""
    for number in numbers:
        for scaled in (number, number / 100, number / 1000):
            yield from (scaled * scaled, scaled**0.5)
    for rate, years in product(numbers, numbers):
        if years == int(years) and 1 < years <= _MAX_YEARS:
            for share in (rate, rate / 100):
                if share < 1:
                    yield (1 + share) ** years


class _Values(SortedNumbers):
    """Sorted values with tolerance for rounding."""

    def has(self, target: float, margin: float) -> bool:
        return super().has(target, max(margin, 1e-9 * abs(target)))


def _targets(value: float, tolerance: float, figure: Figure) -> Iterator[tuple[float, float]]:
    """Yield the values that a figure may stand for, with their tolerances."""
    is_whole = value == int(value) and not tolerance
    margin = _WHOLE if is_whole else 2 * tolerance
    yield value, margin
    if figure.is_percent:
        yield value / 100, margin / 100
        yield 1 + value / 100, margin / 100
        yield abs(1 - value / 100), margin / 100


def _numbers_in_words(text: str) -> Iterator[float]:
    for found in _COMPOUND.finditer(text.lower()):
        yield TENS[found[1]] + SMALL_NUMBERS[found[2]]
    for word in set(_NUMBER_WORD.findall(text.lower())) & _WORD_VALUES.keys():
        yield _WORD_VALUES[word]


_FACTORS = (
    # Lengths, areas and volumes.
    *(2.54, 0.3048, 0.9144, 1.609344, 1.852, 39.37008, 25.4, 30.48, 12, 3, 5280, 1760),
    *(0.09290304, 0.83612736, 0.40468564, 4046.8564, 43560, 2.589988, 640, 10_000, 6.4516),
    *(3.785412, 4.54609, 0.946353, 0.473176, 0.568261, 236.588, 240, 29.5735, 28.4131, 14.7868, 4.92892, 28.3168),
    # Weights, energy, power, pressure, speed.
    *(0.45359237, 28.349523, 31.103477, 6.35029, 16, 14, 907.18474, 1016.0469, 0.2),
    *(4.184, 1.055056, 3.6, 0.7456999, 0.7354988, 6.894757, 14.50377, 1.01325, 760, 7.50062, 33.8639),
    *(0.44704, 1.94384, 0.514444, 0.0174533),
    # Time and data.
    *(60, 3600, 86_400, 24, 1440, 7, 168, 30, 30.4375, 365, 365.25, 52, 52.1775, 12, 4.348),
    *(8, 1024, 1024**2, 1024**3, 1024**4, 1.024, 1.048576, 1.073741824, 1.099511628),
    # Powers of ten: cents, kilo, mega, per mille, basis points.
    *(10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e12),
)
_MPG_TO_LITRES = (235.2146, 282.481)  # miles per gallon times litres per 100 km is one of these


# Divisors for units given in two parts: feet and inches, pounds and ounces, hours and minutes.
_PARTED = (0.3048, 30.48, 304.8, 0.45359237, 453.59237, 6.35029, 60, 3600, 86_400, 24, 7, 12, 1440, 60_000, 1000)


def converted(values: Iterable[float]) -> Iterator[float]:
    """Yield the absolute value in every other unit that it may be meant in."""
    for value in values:
        for factor in _FACTORS:
            yield abs(value * factor)
            yield abs(value / factor)
        for celsius in (value, -value):
            yield abs(celsius * 9 / 5 + 32)
            yield abs((celsius - 32) * 5 / 9)
            yield abs(celsius + 273.15)
            yield abs(celsius - 273.15)
        if value:
            yield from (abs(constant / value) for constant in _MPG_TO_LITRES)


def parts(values: Iterable[float]) -> Iterator[float]:
    """Yield each value in two parts, such as hours and minutes: 12,600 seconds are 3 hours and 30 minutes."""
    for value in values:
        for whole in (abs(value), *(abs(value) / unit for unit in _PARTED)):
            fraction = whole % 1
            if whole >= 1 and fraction:
                yield float(int(whole))
                yield from (fraction * unit for unit in (7, 12, 14, 16, 24, 60))
