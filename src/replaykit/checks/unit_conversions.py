"""Unit conversions: what a quantity may be in another unit, and its parts, such as hours and minutes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
_MPG_TO_LITRES = (235.2146, 282.481)
"""Miles per gallon times litres per 100 km is one of these."""


_PARTED = (0.3048, 30.48, 304.8, 0.45359237, 453.59237, 6.35029, 60, 3600, 86_400, 24, 7, 12, 1440, 60_000, 1000)
"""Divisors that lead to units which are given in two parts: feet and inches, pounds and ounces, hours and minutes."""


def converted(values: Iterable[float]) -> Iterator[float]:
    """Give each value in every other unit that it might be meant in, its sign left out."""
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
    """Give what each value is in two parts, such as hours and minutes: 12,600 seconds are 3 hours and 30 minutes."""
    for value in values:
        for whole in (abs(value), *(abs(value) / unit for unit in _PARTED)):
            fraction = whole % 1
            if whole >= 1 and fraction:
                yield float(int(whole))
                yield from (fraction * unit for unit in (7, 12, 14, 16, 24, 60))
