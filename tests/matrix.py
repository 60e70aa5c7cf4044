"""Tests with many parameters or examples: `make test` runs a part of them, and `make test-all` the rest as well.

Parameters that `make test` leaves out have the mark `exhaustive`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import settings

THOROUGH = 60
"""Examples of a property that says nothing of their number, with `make test-all`."""
QUICK = THOROUGH // 4

Combination = tuple[int, ...]
"""One index into the values of each parameter."""


def matrix(**parameters: Iterable[Any]) -> pytest.MarkDecorator:
    """Run a test with every combination of these values.

    `make test` runs a part of them: with two parameters every value of each, with more every pair of values.
    """
    values = [list(each) for each in parameters.values()]
    combinations = list(itertools.product(*(range(len(each)) for each in values)))
    chosen = covering(combinations, size=min(2, len(values) - 1))
    return pytest.mark.parametrize(
        tuple(parameters),
        [
            _param(
                *(column[index] for column, index in zip(values, combination, strict=True)),
                is_chosen=combination in chosen,
            )
            for combination in combinations
        ],
    )


def sampled(names: str | Sequence[str], values: Iterable[Any], *, count: int, start: int = 0) -> pytest.MarkDecorator:
    """Run a test with each of these values; `make test` runs `count` of them, evenly spread from number `start` on.

    Tests with the same few values start at different ones, so that each value is run with some of the tests.
    """
    rows = list(values)
    count = min(count, len(rows))
    chosen = {(start + number * len(rows) // count) % len(rows) for number in range(count)}
    params = []
    for number, row in enumerate(rows):
        row_values = [row] if isinstance(names, str) else row
        params.append(_param(*row_values, is_chosen=number in chosen))
    return pytest.mark.parametrize(names, params)


def examples(count: int) -> int:
    """Return how many examples of a property to try: `count` with `make test-all`, a quarter of it with `make test`."""
    if settings.default.max_examples >= THOROUGH:
        return count
    return max(1, count * QUICK // THOROUGH)


def covering(combinations: Sequence[Combination], *, size: int) -> set[Combination]:
    """Return a few combinations that hold every `size` values of different parameters that stand in one of them."""
    missing = {values for combination in combinations for values in _together(combination, size)}
    chosen: set[Combination] = set()
    while missing:
        best = max(combinations, key=lambda one: len(missing.intersection(_together(one, size))))
        chosen.add(best)
        missing.difference_update(_together(best, size))
    return chosen


def _together(combination: Combination, size: int) -> Iterable[tuple[tuple[int, int], ...]]:
    return itertools.combinations(enumerate(combination), size)


def _param(*values: Any, is_chosen: bool) -> Any:
    return pytest.param(*values, marks=() if is_chosen else pytest.mark.exhaustive)
