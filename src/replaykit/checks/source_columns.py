"""Find numbers in sources that belong together, such as prices in a list or a table column, and their totals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import combinations, islice
from operator import mul

from replaykit.checks.figures import read_numbers
from replaykit.model.nesting import decode_json
from replaykit.model.values import Json

_MAX_COLUMNS = 60
_MAX_ROWS = 400
_MAX_SUBSET_COLUMNS = 20
_MAX_SUBSET_ROWS = 48
_MAX_SUBSET_TOTAL = 2_000_000
_MAX_WIDTH = 64
_MAX_JSON_CHARS = 1_000_000
_MIN_ROWS = 2
_MAX_LINES = 2_000


class Columns:
    """The columns of a run's sources."""

    def __init__(self, texts: Iterable[str]) -> None:
        by_name: defaultdict[str, list[float]] = defaultdict(list)
        for number, text in enumerate(texts):
            for name, values in _columns_of(text, str(number)):
                by_name[name] += values
        usable = (values[:_MAX_ROWS] for values in by_name.values() if len(values) >= _MIN_ROWS)
        self.columns = list(islice(usable, _MAX_COLUMNS))

    def totals(self) -> Iterator[float]:
        """Yield the usual figures of columns: sum, mean, median, range, and the total of quantities times prices."""
        for values in self.columns:
            total = sum(values)
            mean = total / len(values)
            spread = sum((value - mean) ** 2 for value in values)
            yield from (total, mean, _median(values), max(values) - min(values), float(len(values)))
            yield from ((spread / len(values)) ** 0.5, (spread / (len(values) - 1)) ** 0.5)
        for column, other in combinations(self.columns, 2):
            if len(column) == len(other):
                yield sum(map(mul, column, other))

    def has_subset_sum(self, target: float, margin: float) -> bool:
        """Return whether some of a column's values have the target as their sum or mean."""
        return any(sums.has(target, margin) for sums in self._subset_sums)

    @cached_property
    def _subset_sums(self) -> list[_SubsetSums]:
        return list(map(_SubsetSums, self.columns[:_MAX_SUBSET_COLUMNS]))


def _median(values: Sequence[float]) -> float:
    """Return the median; importing `statistics` takes longer than this whole module."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


class _SubsetSums:
    """All sums of subsets of some values."""

    def __init__(self, values: Sequence[float]) -> None:
        sizes = [abs(value) for value in values if value][:_MAX_SUBSET_ROWS]
        self._scale = 100 if any(value != int(value) for value in sizes) else 1
        scaled = [round(value * self._scale) for value in sizes]
        self._count = len(scaled)
        self._total = sum(scaled)
        self._bytes = b""
        if self._total <= _MAX_SUBSET_TOTAL:
            reachable = 1  # bit n is set if a subset adds up to n
            for value in scaled:
                reachable |= reachable << value
            self._bytes = reachable.to_bytes(self._total // 8 + 1, "little")

    def has(self, target: float, margin: float) -> bool:
        """Return whether a subset has the target as its sum or mean."""
        for count in range(1, self._count + 1):
            lowest = round((target - margin) * count * self._scale)
            if self._reaches(lowest, round((target + margin) * count * self._scale)):
                return True
        return False

    def _reaches(self, lowest: int, highest: int) -> bool:
        if not self._bytes or lowest > self._total:
            return False
        first = max(1, lowest)
        last = min(highest, self._total, first + _MAX_WIDTH)
        return any(self._bytes[place >> 3] >> (place & 7) & 1 for place in range(first, last + 1))


def _columns_of(text: str, source: str) -> Iterator[tuple[str, list[float]]]:
    """Yield the columns of a text: in JSON by member names, otherwise by position in the line."""
    if text.lstrip()[:1] in ("{", "[") and len(text) <= _MAX_JSON_CHARS:
        try:
            value = decode_json(text)
        except ValueError:
            pass
        else:
            yield from _json_columns(value, source)
            return
    lines = []
    for line in text.splitlines()[:_MAX_LINES]:
        lines.append([number.readings[0][0] for number in read_numbers(line)])
    for place in range(min(8, max(map(len, lines), default=0))):
        long_lines = [line for line in lines if len(line) > place]
        yield f"{source}>{place}", [line[place] for line in long_lines]
        yield f"{source}<{place}", [line[-1 - place] for line in long_lines]
    if len(lines) == 1:
        yield f"{source}-", lines[0]


def _json_columns(value: Json, source: str) -> Iterator[tuple[str, list[float]]]:
    """Yield the numbers of each list and object; members of the same name form one column across all sources."""
    stack = [("", value)]
    count = 0
    while stack:
        name, item = stack.pop()
        if isinstance(item, dict):
            inner = [(str(key), value) for key, value in item.items()]
        elif isinstance(item, list):
            inner = [(name, value) for value in item]
        else:
            number = _number(item)
            if number is not None:
                yield name, [number]
            continue
        numbers = [number for _name, value in inner if (number := _number(value)) is not None]
        if len(numbers) >= _MIN_ROWS:
            count += 1
            yield f"{source}/{count}", numbers
        stack += reversed(inner)


def _number(value: Json) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and len(value) <= 20:
        for number in read_numbers(value):
            if number.text == value.strip():
                return number.readings[0][0]
    return None
