"""Pairing: match each thing of one list with a thing of its own in another, as many as can be."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


def paired(lefts: Sequence[A], rights: Sequence[B], fits: Callable[[A, B], bool]) -> dict[int, int]:
    """The largest set of pairs that fit, as indexes of the left to indexes of the right; each is in one pair at most.

    Taking the first that fits is not enough: it may be the only one that fits a later left. So a left that finds all
    its rights taken asks for the shortest chain of exchanges that frees one.
    """
    options = [[j for j, right in enumerate(rights) if fits(left, right)] for left in lefts]
    taken: dict[int, int] = {}
    for left in range(len(lefts)):
        _augment(left, options, taken)
    return {left: right for right, left in taken.items()}


def _augment(start: int, options: list[list[int]], taken: dict[int, int]) -> None:
    came_from: dict[int, int] = {}
    waiting = deque([start])
    while waiting:
        left = waiting.popleft()
        for right in options[left]:
            if right in came_from:
                continue
            came_from[right] = left
            if right not in taken:
                _exchange(right, start, came_from, taken)
                return
            waiting.append(taken[right])


def _exchange(right: int, start: int, came_from: dict[int, int], taken: dict[int, int]) -> None:
    """Give each right along the chain to the left that asked for it."""
    before = {left: r for r, left in taken.items()}
    while True:
        left = came_from[right]
        taken[right] = left
        if left == start:
            return
        right = before[left]
