"""Alignment: which item of one sequence is which item of the other."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.travel.align import Gap, Pair, align, gaps, rising

LONG = 10_000
KEYS = st.lists(st.integers(0, 4), max_size=12)
DISTINCT = st.lists(st.integers(), unique=True, max_size=300)


def longest(a: list[int], b: list[int]) -> int:
    """The length of the longest common subsequence, the slow way."""
    row = [0] * (len(b) + 1)
    for x in a:
        above, row = row, [0]
        for j, y in enumerate(b):
            row.append(above[j] + 1 if x == y else max(above[j + 1], row[j]))
    return row[-1]


def assert_valid(pairs: list[Pair], a: list[int], b: list[int]) -> None:
    assert all(a[i] == b[j] for i, j in pairs)
    assert all(i < next_i and j < next_j for (i, j), (next_i, next_j) in pairwise(pairs))


@given(KEYS, KEYS)
def test_of_short_sequences_as_many_items_are_paired_as_can_be(a: list[int], b: list[int]) -> None:
    pairs = align(a, b)

    assert_valid(pairs, a, b)
    assert len(pairs) == longest(a, b)


@given(DISTINCT, st.randoms())
def test_of_distinct_items_all_that_are_left_after_removing_some_are_paired(a: list[int], rng: random.Random) -> None:
    b = [item for item in a if rng.random() < 0.6]

    assert [a[i] for i, _ in align(a, b)] == b
    assert [a[j] for _, j in align(b, a)] == b


@given(st.lists(st.integers(0, 3), min_size=210, max_size=400), st.integers(0, 40), st.randoms())
def test_a_long_sequence_with_few_edits_is_solved_exactly(a: list[int], edits: int, rng: random.Random) -> None:
    b = list(a)
    for _ in range(edits):
        place = rng.randrange(len(b))
        b[place : place + rng.randrange(2)] = [rng.randrange(4)] * rng.randrange(2)

    pairs = align(a, b)

    assert_valid(pairs, a, b)
    assert len(pairs) == longest(a, b)


@given(st.lists(st.integers(0, 30), max_size=600), st.lists(st.integers(0, 30), max_size=600))
def test_whatever_the_sequences_the_pairs_are_equal_items_in_order(a: list[int], b: list[int]) -> None:
    assert_valid(align(a, b), a, b)


def test_the_finer_key_decides_between_equally_good_ways() -> None:
    poll, pending, done = 1, 10, 11

    pairs = align([poll] * 3, [poll] * 5, [pending, pending, done], [pending] * 4 + [done])

    assert pairs == [(0, 0), (1, 1), (2, 4)]


def test_the_finer_key_decides_in_the_middle_as_well() -> None:
    pairs = align([1] * 3, [1] * 4, [10, 11, 12], [13, 14, 11, 15])

    assert len(pairs) == 3
    assert (1, 2) in pairs


def test_the_finer_key_never_costs_a_pair() -> None:
    f, g = 1, 2

    pairs = align([f, g, f], [f, g, f], [10, 20, 11], [11, 20, 10])

    assert pairs == [(0, 0), (1, 1), (2, 2)]


def test_the_finer_key_never_costs_a_pair_in_long_sequences_either() -> None:
    answers = list(range(300))

    assert len(align([0] * 300, [0] * 300, answers, answers[50:] + answers[:50])) == 300


def test_the_finer_key_decides_in_long_sequences_too() -> None:
    kinds = [10] * 300 + [11] + [10] * 300 + [11] + [10] * 300 + [11]
    longer = [10] * 350 + [11] + [10] * 300 + [11] + [10] * 320 + [11]

    pairs = align([1] * len(kinds), [1] * len(longer), kinds, longer)

    assert len(pairs) == len(kinds)
    assert all(kinds[i] == longer[j] for i, j in pairs)


def test_pairs_are_looked_for_only_within_the_given_gaps() -> None:
    assert align([1, 2, 3, 1], [1, 2, 3, 1], within=[Gap(1, 2, 0, 4), Gap(3, 4, 3, 4)]) == [(1, 1), (3, 3)]


def test_gaps_lie_between_pairs_where_both_sides_have_something() -> None:
    assert gaps([(2, 1), (3, 4)], Gap(0, 6, 0, 6)) == [Gap(0, 2, 0, 1), Gap(4, 6, 5, 6)]


@given(st.lists(st.integers(0, 50), max_size=60))
def test_a_rising_choice_is_rising_and_as_long_as_can_be(numbers: list[int]) -> None:
    chosen = rising(numbers)

    assert all(i < j and numbers[i] < numbers[j] for i, j in pairwise(chosen))
    assert len(chosen) == longest(numbers, sorted(set(numbers)))


def shuffled(items: list[int]) -> list[int]:
    return random.Random(1).sample(items, len(items))


def with_insertions(items: list[int], count: int) -> list[int]:
    rng, longer = random.Random(2), list(items)
    for _ in range(count):
        longer.insert(rng.randrange(len(longer)), rng.choice(items))
    return longer


FEW = random.Random(3).choices(range(5), k=LONG)
ALL = list(range(LONG))


@pytest.mark.parametrize(
    ("a", "b", "at_least"),
    [
        pytest.param(ALL, [-1, *ALL], LONG, id="one more at the front"),
        pytest.param([-1, *[0, 1] * (LONG // 2)], [*[0, 1] * (LONG // 2), -1], LONG, id="one moved across a loop"),
        pytest.param([0] * LONG, [0] * (LONG // 2), LONG // 2, id="all alike, half of them"),
        pytest.param(FEW, with_insertions(FEW, 500), LONG, id="few keys, many insertions"),
        pytest.param(ALL, ALL[::-1], 1, id="backwards"),
        pytest.param(ALL, shuffled(ALL), 150, id="shuffled"),
        pytest.param(FEW, shuffled(FEW), LONG // 4, id="few keys, shuffled"),
        pytest.param(ALL, [-n for n in ALL], 1, id="nothing in common"),
    ],
)
def test_long_sequences_take_little_time_and_give_up_little(
    a: list[int], b: list[int], at_least: int, within: Any
) -> None:
    pairs = within(2, lambda: align(a, b))

    assert_valid(pairs, a, b)
    assert len(pairs) >= at_least
