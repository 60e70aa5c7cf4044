"""Align two sequences: find the items that correspond, in order.

Items are numbers. Each has a key, which has to agree, and a finer key, which decides between equally good alignments: a
poll that answers "done" is paired with the poll that answered "done". The cheapest steps come first:

1. pair equal beginnings and ends;
2. drop keys that the other side does not have;
3. solve a small rest exactly, with a table;
4. solve a large rest with few edits exactly, after Myers (1986);
5. cut any other rest at keys, or at several keys in a row, that occur once on both sides, as in patience diff (or else
   at the n-th occurrences of repeated ones), and solve the pieces again.

So the time for two runs of 10,000 calls is nearly linear in their length, whatever they hold. Pure and deterministic.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias, TypeVar

Pair: TypeAlias = tuple[int, int]
"""An item of the first sequence and the corresponding item of the second."""

K = TypeVar("K", bound=Hashable)

_CELLS = 40_000  # the largest table that is filled
_EDITS = 200  # Myers' algorithm is given up after so many insertions and deletions
_WINDOWS = (3, 8)  # lengths of key sequences that are compared as one, where single keys are repeated
_MIN_POSSIBLE_SHARE = 0.9  # the share of pairs that a cut must leave possible
_DEPTH = 24  # cuts inside a piece before its anchors are accepted as they are


class Gap(NamedTuple):
    """A stretch of both sequences, each from its start up to, not including, its end."""

    a_start: int
    a_end: int
    b_start: int
    b_end: int


class _Keys(NamedTuple):
    a: Sequence[int]
    b: Sequence[int]
    fine_a: Sequence[int]
    fine_b: Sequence[int]


def align(
    a: Sequence[int],
    b: Sequence[int],
    fine_a: Sequence[int] | None = None,
    fine_b: Sequence[int] | None = None,
    *,
    within: Iterable[Gap] | None = None,
) -> list[Pair]:
    """Return pairs of items with equal keys, increasing on both sides: all or nearly all that are possible.

    Equal finer keys imply equal keys. `within` restricts the pairs to these gaps.
    """
    keys = _Keys(a, b, fine_a or a, fine_b or b)
    if within is None:
        within = [Gap(0, len(a), 0, len(b))]
    todo = [(gap, 0) for gap in within]
    pairs: list[Pair] = []
    while todo:
        gap, depth = todo.pop()
        gap = _trim(keys, gap, pairs)
        items_a, items_b = _shared(keys, gap)
        if not items_a:
            continue
        piece_pairs = _exactly(keys, items_a, items_b)
        if piece_pairs is None:
            piece_pairs = _anchors(keys, items_a, items_b)
            if depth < _DEPTH:
                todo.extend((piece, depth + 1) for piece in gaps(piece_pairs, gap))
        pairs.extend(piece_pairs)
    return sorted(pairs)


def gaps(pairs: Iterable[Pair], around: Gap) -> list[Gap]:
    """Return the gaps between the pairs in which both sides have items."""
    between, (i, j) = [], (around.a_start, around.b_start)
    for next_i, next_j in chain(pairs, [(around.a_end, around.b_end)]):
        if i < next_i and j < next_j:
            between.append(Gap(i, next_i, j, next_j))
        i, j = next_i + 1, next_j + 1
    return between


def rising(numbers: Sequence[int]) -> list[int]:
    """Return the positions of a longest strictly increasing subsequence."""
    tails: list[int] = []  # the smallest last number of a subsequence of each length
    ends: list[int] = []  # the position of that number
    before: list[int] = []
    for position, number in enumerate(numbers):
        length = bisect_left(tails, number)
        before.append(ends[length - 1] if length else -1)
        tails[length : length + 1] = [number]
        ends[length : length + 1] = [position]
    chosen, position = [], ends[-1] if ends else -1
    while position >= 0:
        chosen.append(position)
        position = before[position]
    return chosen[::-1]


def _trim(keys: _Keys, gap: Gap, pairs: list[Pair]) -> Gap:
    """Pair the equal beginnings and ends, and return the rest."""
    fine_a, fine_b = keys.fine_a, keys.fine_b
    i, a_end, j, b_end = gap
    while i < a_end and j < b_end and fine_a[i] == fine_b[j]:
        pairs.append((i, j))
        i, j = i + 1, j + 1
    while i < a_end and j < b_end and fine_a[a_end - 1] == fine_b[b_end - 1]:
        a_end, b_end = a_end - 1, b_end - 1
        pairs.append((a_end, b_end))
    return Gap(i, a_end, j, b_end)


def _shared(keys: _Keys, gap: Gap) -> tuple[list[int], list[int]]:
    """Return the items of both sides whose keys occur on the other side too."""
    a, b = keys.a, keys.b
    both = set(a[gap.a_start : gap.a_end]).intersection(b[gap.b_start : gap.b_end])
    items_a = [i for i in range(gap.a_start, gap.a_end) if a[i] in both]
    return items_a, [j for j in range(gap.b_start, gap.b_end) if b[j] in both]


def _exactly(keys: _Keys, items_a: list[int], items_b: list[int]) -> list[Pair] | None:
    """Return the most pairs possible, and among those the most equal finer keys; None if that is too costly."""
    if len(items_a) * len(items_b) <= _CELLS:
        return _by_table(keys, items_a, items_b)
    plain = _few_edits([keys.a[i] for i in items_a], [keys.b[j] for j in items_b])
    if plain is None:
        return None
    fine = _few_edits([keys.fine_a[i] for i in items_a], [keys.fine_b[j] for j in items_b])
    pairs = [(items_a[i], items_b[j]) for i, j in fine or ()]
    for piece in gaps(fine, Gap(0, len(items_a), 0, len(items_b))) if fine is not None else ():
        pairs += _by_table(keys, items_a[piece.a_start : piece.a_end], items_b[piece.b_start : piece.b_end])
    if len(pairs) >= len(plain):
        return pairs
    return [(items_a[i], items_b[j]) for i, j in plain]


def _by_table(keys: _Keys, items_a: list[int], items_b: list[int]) -> list[Pair]:
    """Return the longest common subsequence; among several, the one with the most equal finer keys."""
    pair_worth = min(len(items_a), len(items_b)) + 1  # more than all finer keys together
    column = [(keys.b[j], keys.fine_b[j]) for j in items_b]
    row = [0] * (len(items_b) + 1)
    table = [row]
    for i in items_a:
        key, fine, above, left, row = keys.a[i], keys.fine_a[i], row, 0, [0]
        for j, (other, other_fine) in enumerate(column):
            best = above[j + 1] if above[j + 1] >= left else left
            if key == other:
                worth = above[j] + pair_worth + (fine == other_fine)
                best = worth if worth > best else best
            row.append(best)
            left = best
        table.append(row)
    return _walk_back(table, items_a, items_b)


def _walk_back(table: list[list[int]], items_a: list[int], items_b: list[int]) -> list[Pair]:
    """Return the pairs that lead to the last cell of the table."""
    pairs, i, j = [], len(items_a), len(items_b)
    while i and j:
        worth = table[i][j]
        if worth == table[i - 1][j]:
            i -= 1
        elif worth == table[i][j - 1]:
            j -= 1
        else:
            i, j = i - 1, j - 1
            pairs.append((items_a[i], items_b[j]))
    return pairs[::-1]


def _few_edits(a: list[int], b: list[int]) -> list[Pair] | None:
    """Return the longest common subsequence by Myers' greedy algorithm; None if it takes more than a few edits."""
    if abs(len(a) - len(b)) > _EDITS:
        return None
    size_a, size_b = len(a), len(b)
    reach = {1: 0}  # how far into `a` each diagonal has come
    history = []
    for edits in range(_EDITS + 1):
        history.append(reach)
        reach = dict(reach)
        for diagonal in range(-edits, edits + 1, 2):
            below, beside = reach.get(diagonal + 1, -1), reach.get(diagonal - 1, -1)
            i = below if below > beside else beside + 1
            j = i - diagonal
            while i < size_a and j < size_b and a[i] == b[j]:
                i, j = i + 1, j + 1
            reach[diagonal] = i
            if i >= size_a and j >= size_b:
                return _retrace(history, size_a, size_b)
    return None


def _retrace(history: list[dict[int, int]], i: int, j: int) -> list[Pair]:
    """Return the pairs on the path that Myers' search took to the end."""
    pairs = []
    for reach in reversed(history):
        diagonal = i - j
        below, beside = reach.get(diagonal + 1, -1), reach.get(diagonal - 1, -1)
        start = below if below > beside else beside + 1
        while i > start and j > 0:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        i, j = (i, j - 1) if below > beside else (i - 1, j)
    return pairs[::-1]


def _anchors(keys: _Keys, items_a: list[int], items_b: list[int]) -> list[Pair]:
    """Return pairs to cut at: keys that occur once on both sides, unless such a cut would separate too many pairs."""
    a, b = [keys.a[i] for i in items_a], [keys.b[j] for j in items_b]
    fine_a, fine_b = [keys.fine_a[i] for i in items_a], [keys.fine_b[j] for j in items_b]
    best = nth = _in_order({key: place for place, key in enumerate(_occurrences(b))}, _occurrences(a))
    cuts = [_once(a, b), *(_once(_windows(fine_a, size), _windows(fine_b, size)) for size in _WINDOWS)]
    for cut in sorted(cuts, key=len, reverse=True):
        pieces = gaps(cut, Gap(0, len(a), 0, len(b)))
        possible = len(cut) + sum(min(piece.a_end - piece.a_start, piece.b_end - piece.b_start) for piece in pieces)
        if len(cut) >= len(nth) or (cut and possible >= _MIN_POSSIBLE_SHARE * min(len(a), len(b))):
            best = cut
            break
    return [(items_a[i], items_b[j]) for i, j in best]


def _once(a: Sequence[K], b: Sequence[K]) -> list[Pair]:
    """Return pairs of keys that occur once on both sides, as many as are possible in order."""
    count_a, count_b = Counter(a), Counter(b)
    places = {key: place for place, key in enumerate(b) if count_b[key] == 1 and count_a.get(key) == 1}
    return _in_order(places, a)


def _windows(keys: list[int], size: int) -> list[tuple[int, ...]]:
    """Return each key with those that follow it: where every key is repeated, sequences may still be unique."""
    return list(zip(*(keys[start:] for start in range(size)), strict=False))


def _in_order(places: dict[K, int], keys: Iterable[K]) -> list[Pair]:
    """Return the longest choice of keys whose positions and places both increase."""
    candidates = [(position, places[key]) for position, key in enumerate(keys) if key in places]
    return [candidates[n] for n in rising([place for _, place in candidates])]


def _occurrences(keys: Iterable[int]) -> list[Pair]:
    """Return each key with the number of its earlier occurrences."""
    seen: Counter[int] = Counter()
    occurrences = []
    for key in keys:
        occurrences.append((key, seen[key]))
        seen[key] += 1
    return occurrences
