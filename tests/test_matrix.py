"""What `make test` leaves out of a matrix: no value of two parameters, no pair of values of more."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from tests.matrix import examples, matrix, sampled


def chosen(mark: pytest.MarkDecorator) -> list[tuple[Any, ...]]:
    """The rows that `make test` runs."""
    return [row.values for row in rows(mark) if not row.marks]


def rows(mark: pytest.MarkDecorator) -> list[Any]:
    return list(mark.args[1])


def test_two_parameters_are_run_with_every_value_of_each() -> None:
    mark = matrix(verb=["lint", "replay", "ci"], state=["none", "damaged"])

    assert len(rows(mark)) == 6
    assert len(chosen(mark)) == 3
    assert {verb for verb, _ in chosen(mark)} == {"lint", "replay", "ci"}
    assert {state for _, state in chosen(mark)} == {"none", "damaged"}


def test_three_parameters_are_run_with_every_pair_of_values() -> None:
    values = {"a": range(4), "b": range(3), "c": range(3)}

    mark = matrix(**values)

    assert len(rows(mark)) == 36
    assert len(chosen(mark)) < 18
    for one, other in itertools.combinations(range(3), 2):
        pairs = {(row[one], row[other]) for row in chosen(mark)}
        assert pairs == set(itertools.product(list(values.values())[one], list(values.values())[other]))


def test_every_combination_is_there_once() -> None:
    mark = matrix(a=[1, 2], b=[3, 4], c=[5, 6])

    assert sorted(row.values for row in rows(mark)) == sorted(itertools.product([1, 2], [3, 4], [5, 6]))


def test_a_sample_is_spread_over_its_values() -> None:
    assert chosen(sampled("n", range(100), count=4)) == [(0,), (25,), (50,), (75,)]
    assert chosen(sampled(("n", "m"), [(1, 2), (3, 4)], count=1)) == [(1, 2)]


def test_samples_of_the_same_values_may_start_anywhere() -> None:
    assert chosen(sampled("n", range(4), count=2, start=1)) == [(1,), (3,)]
    assert chosen(sampled("n", range(4), count=2, start=3)) == [(1,), (3,)]


def test_a_sample_of_a_few_values_is_all_of_them() -> None:
    assert chosen(sampled("n", [1, 2, 3], count=5)) == [(1,), (2,), (3,)]


@pytest.fixture
def own_profile() -> Iterator[None]:
    """Give other tests back the profile of Hypothesis that they run with."""
    before = settings.get_current_profile_name()
    yield
    settings.load_profile(before)


@pytest.mark.usefixtures("own_profile")
@pytest.mark.parametrize(("profile", "counts"), [("thorough", [1000, 12, 1]), ("quick", [250, 3, 1])])
def test_the_profile_says_how_many_examples_a_property_is_tried_with(profile: str, counts: list[int]) -> None:
    settings.load_profile(profile)

    assert [examples(1000), examples(12), examples(1)] == counts


def test_what_is_left_out_is_marked_exhaustive() -> None:
    (left_out,) = [row for row in rows(sampled("n", [1, 2], count=1)) if row.marks]

    assert [mark.name for mark in left_out.marks] == ["exhaustive"]
