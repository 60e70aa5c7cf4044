"""Derivations: figures that follow from those of the sources by one step of arithmetic."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeAlias

from replaykit.checks.figures import Figure
from replaykit.checks.grounding_sources import SourceView

Derivation: TypeAlias = Literal["sum", "difference", "product", "ratio", "percent", "count"]
ALL: tuple[Derivation, ...] = ("sum", "difference", "product", "ratio", "percent", "count")
MAX_NUMBERS = 400
"""Arithmetic is tried with this many numbers; a run that holds more makes almost any figure follow from some two."""
_MAX_TRIPLES = 120
_COUNTS = range(2, 13)


def is_derived(figure: Figure, sources: SourceView, allowed: Sequence[Derivation]) -> bool:
    """True when one of the allowed operations on numbers of the sources gives the figure."""
    if not allowed:
        return False
    numbers = _SourceNumbers([value for value, _where in sources.numbers if value][-MAX_NUMBERS:])
    for value, tolerance in zip(figure.values, figure.tolerances, strict=True):
        target = abs(value)
        margin = max(min(tolerance, 0.005 * target), 0.006 if target != int(target) else 1e-6)
        if "count" in allowed and target == int(target) and target <= sources.longest_list:
            return True
        if any(_OPERATIONS[name](target, margin, numbers) for name in allowed if name in _OPERATIONS):
            return True
    return False


class _SourceNumbers:
    """Sorted numbers that can be asked whether one is near a value."""

    def __init__(self, values: list[float]) -> None:
        self.values = sorted(set(values))

    def has(self, value: float, margin: float) -> bool:
        index = bisect_left(self.values, value - margin)
        return index < len(self.values) and self.values[index] <= value + margin

    def __iter__(self) -> Iterator[float]:
        return iter(self.values)


def _is_sum(target: float, margin: float, numbers: _SourceNumbers) -> bool:
    smaller = [number for number in numbers if number <= target + margin]
    if _has_pair(target, margin, smaller, numbers):
        return True
    few = smaller[-_MAX_TRIPLES:]
    return any(_has_pair(target - number, margin, few, numbers) for number in few if number < target)


def _has_pair(target: float, margin: float, addends: Sequence[float], numbers: _SourceNumbers) -> bool:
    return any(numbers.has(target - number, margin) for number in addends if number < target)


def _is_difference(target: float, margin: float, numbers: _SourceNumbers) -> bool:
    return any(numbers.has(number + target, margin) for number in numbers)


def _is_product(target: float, margin: float, numbers: _SourceNumbers) -> bool:
    if any(numbers.has(target / number, margin / number) for number in numbers if number > 1):
        return True
    # So many of each: three passengers at a fare, or at the sum or the difference of two.
    return any(
        numbers.has(target / count, margin / count)
        or _has_pair(target / count, margin / count, numbers.values, numbers)
        or _is_difference(target / count, margin / count, numbers)
        for count in _COUNTS
    )


def _is_ratio(target: float, margin: float, numbers: _SourceNumbers) -> bool:
    return target > 0 and any(numbers.has(number / target, margin * number / target**2) for number in numbers)


def _is_percent(target: float, margin: float, numbers: _SourceNumbers) -> bool:
    """A share of two numbers in percent, a change in percent, or so many percent of a number."""
    share, change = target / 100, 1 + target / 100
    return target > 0 and (
        _is_ratio(share, margin / 100, numbers)
        or any(numbers.has(number * change, margin * number / 100) for number in numbers)
        or any(numbers.has(100 * target / number, 100 * margin / number) for number in numbers if number <= 100)
    )


_OPERATIONS: dict[str, Callable[[float, float, _SourceNumbers], bool]] = {
    "sum": _is_sum,
    "difference": _is_difference,
    "product": _is_product,
    "ratio": _is_ratio,
    "percent": _is_percent,
}
