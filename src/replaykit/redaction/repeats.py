"""Estimate from a pattern's structure how many steps a search may take at worst.

Python tries alternatives one after another. `CUST-\\d+-[A-Z]+` is fine: no dash is a digit, so there is one way to
match. `[a-z]*[a-z0-9]*x` can match in as many ways as the text has letters, from each letter on, and `(a|aa)+b` doubles
them with every second letter.

The estimate follows the pattern from left to right. It counts in how many ways a search can reach a place, and which
earlier repeats could have ended elsewhere. If the next part shares no character with such a repeat, its end is settled;
another repeat that shares one multiplies the ways. The estimate mostly errs on the high side.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Iterator, Sequence
from re import _constants as ops  # type: ignore[attr-defined]  # the parser of `re` has no public name
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

MAX_STEPS = 120_000_000
"""The limit for a search in one window. A step takes Python two to ten nanoseconds; in groups, three times as long."""
_TOO_MANY = 1e30
_GROUP_WEIGHT = 3
_MAX_WORK = 20_000
_LONGEST_HEAD = 64
_OTHER = 1 << 128  # stands for all characters beyond ASCII
_ALL = (_OTHER << 1) - 1
_REPEATS = (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT)
_SHARED = (
    "two of its repeats can take the same text",
    "give them an end, as in {0,20}, or put between them what neither takes",
)
_NESTED = "it repeats a group that repeats something itself", "repeat one of them, as in [a-z]+ for ([a-z]+)+"
_ALTERNATIVES = (
    "it repeats a group with alternatives that can take the same text",
    "write a set, as in [ab]+ for (a|b|ab)+",
)
_LONG = "its repeats are too long", "give them an end, as in {0,64}"
_Items = Sequence[tuple[Any, Any]]
_Run = list[tuple[int, int]]  # consecutive characters: a set of characters, and how many of them


def refuse_slow_pattern(pattern: str, flags: int, window: int) -> None:
    """Raise a `ValueError` for a Python pattern that may take too long to search `window` characters."""
    estimate = _Estimate(window)
    estimate.sequence(parser.parse(pattern, flags).data, flags)
    if estimate.steps > MAX_STEPS:
        reason, instead = estimate.reason
        raise ValueError(f"{reason}, which can take Python forever; {instead}")


class _Open(NamedTuple):
    """A repeat that could have ended elsewhere: its characters, its number of possible ends, and whether it is a
    group."""

    chars: int
    ends: float
    is_group: bool = False

    def at_distance(self, distance: int) -> _Open:
        """Return the repeat with the ends that remain if what follows occurs only every `distance` characters."""
        return self if self.is_group else self._replace(ends=max(1.0, self.ends / distance))


class _Estimate:
    """The state of a search at one place of the pattern, over all texts."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.steps = 0.0
        self.work = 0
        self.weight = 1
        """The weight of a step: groups take longer than single characters."""
        self.starts = self.window
        """The number of positions at which a match can have begun."""
        self.ways = 1.0
        """The number of ways that lead here from one start, for one end of the last repeat."""
        self.open: dict[int, _Open] = {}
        """Repeats whose end is not settled, numbered."""
        self.repeats = 0
        self.last = _ALL
        """The characters that may precede this place."""
        self.before = [_ALL]
        """The characters that may precede some earlier places, in order."""
        self.reach = 1
        """The greatest distance of a match from its start."""
        self.spacing = 1
        """The least distance between two occurrences of the characters before this place."""
        self.has_varied = False
        self.reason = _LONG

    def sequence(self, items: _Items, flags: int) -> None:
        run: _Run = []
        self._count(len(items))
        for operation, argument in items:
            chars = _chars(operation, argument, flags)
            if chars is not None:
                run.append((chars, 1))
                continue
            least, most, repeated = _repeated_chars(operation, argument, flags)
            if repeated is None:
                self._fixed(run)
                run = []
                self._composite(operation, argument, flags)
                continue
            if least:
                run.append((repeated, least))
            if most > least:
                self._fixed(run)
                run = []
                self._variable(repeated, most - least)
        self._fixed(run)

    def _count(self, operations: int) -> None:
        """Limit the work of the estimate itself: nested groups double it."""
        self.work += operations
        if self.work > _MAX_WORK:
            raise ValueError("it has too many groups and alternatives; make several rules of it")

    def _arrivals(self) -> float:
        ends = max((repeat.ends for repeat in self.open.values()), default=1.0)
        return min(_TOO_MANY, self.weight * self.starts * self.ways * ends)

    def _fixed(self, run: _Run) -> None:
        """Process characters that must occur."""
        if not run:
            return
        at_first, starts = self.open, self.starts
        masks = [chars for chars, count in run for _ in range(min(count, self.window))]
        self._count(len(masks))
        distance = 1
        for place, chars in enumerate(masks[:_LONGEST_HEAD], 1):
            self.steps += self._arrivals()
            distance = _least_distance(masks[:place], distance)
            self.open = {
                number: repeat.at_distance(distance)
                for number, repeat in at_first.items()
                if number in self.open and repeat.chars & chars
            }
            if not self.has_varied:
                self.starts = min(starts, self.window // distance + 1)
        self.steps += self._arrivals() * len(masks[_LONGEST_HEAD:])
        for chars in {*masks[_LONGEST_HEAD:]}:
            self.open = {number: repeat for number, repeat in self.open.items() if repeat.chars & chars}
        self.reach += len(masks)
        self.before = [self.last, *(chars for chars, _ in run)]
        self.last = masks[-1]
        self.spacing = distance

    def _variable(self, chars: int, count: int) -> None:
        """Process up to `count` of these characters."""
        self.has_varied = True
        ends = float(min(count, self.window) + 1)
        met = {number: repeat for number, repeat in self.open.items() if repeat.chars & chars}
        choices = sum(repeat.ends for repeat in met.values())
        if not all(chars & other for other in self.before):
            # It cannot begin inside itself: each start takes another part of the text.
            ends = min(float(self.window), ends * max(1.0, choices), self.window / self.starts * self.reach)
        elif choices > 1:
            self._multiply(min(choices, ends))
            ends = max(choices, ends)
            self.open = {number: repeat for number, repeat in self.open.items() if number not in met}
        self._add(_Open(chars, ends))
        self.reach += count
        self.last |= chars
        self.before = [self.last]
        self.spacing = 1

    def _add(self, repeat: _Open) -> None:
        self.repeats += 1
        self.open[self.repeats] = repeat

    def _multiply(self, factor: float) -> None:
        self.ways = min(_TOO_MANY, self.ways * factor)
        if self.reason is _LONG:
            self.reason = _SHARED

    def _composite(self, operation: Any, argument: Any, flags: int) -> None:
        if operation is ops.SUBPATTERN:
            _, added, removed, body = argument
            self.sequence(body.data, (flags | added) & ~removed)
        elif operation is ops.ATOMIC_GROUP:
            self.sequence(argument.data, flags)
        elif operation is ops.BRANCH:
            self._branch([branch.data for branch in argument[1]], flags)
        elif operation in _REPEATS:
            least, most, body = argument
            self._group(least, most, body, flags)
        elif operation is ops.AT:
            self._anchor(argument, flags)
        else:
            raise ValueError(f"Python's {str(operation).lower()} is not known here")

    def _anchor(self, place: Any, flags: int) -> None:
        is_first = place is ops.AT_BEGINNING_STRING or (place is ops.AT_BEGINNING and not flags & re.MULTILINE)
        self.steps += self._arrivals()
        if is_first and not self.has_varied:
            self.starts = 1

    def _branch(self, branches: list[_Items], flags: int) -> None:
        before = self._place()
        behind = []
        for branch in branches:
            self._go_to(before)
            self.sequence(branch, flags)
            behind.append(self._place())
        self._go_to(_merged(behind))
        self.spacing = 1
        self._count(len(branches) ** 2 // 100)
        self.ways *= _most_alike([list(_head(branch, flags)) for branch in branches])

    def _group(self, least: int, most: int, body: Any, flags: int) -> None:
        """Process a repeated group. If repeating it once multiplies the ways, every repetition does."""
        before, spacing, weight = self._place(), self.spacing, self.weight
        self.weight = _GROUP_WEIGHT if most > 1 else weight
        self.sequence(body.data, flags)
        width = self.reach - before.reach
        if most > 1:
            self._take_again(body.data, most, flags)
        if most == 1 and width < spacing:  # its presence settles the ends before it
            self._add(_Open(_all_chars(body.data, flags), 2.0, is_group=True))
        elif most > least:
            around = sum(repeat.ends for number, repeat in self.open.items() if number in before.open)
            self.open = {number: repeat for number, repeat in self.open.items() if number not in before.open}
            ends = min(most, self.window) - least + 1
            self._multiply(max(1.0, min(around, ends)))
            self._add(_Open(_all_chars(body.data, flags), max(around, ends), is_group=True))
        self.has_varied = self.has_varied or most > least
        self.reach = before.reach + width * min(most, self.window)
        if least == 0:
            self._go_to(_merged([before, self._place()]))
        self.before = [self.last]
        self.spacing = 1
        self.weight = weight

    def _take_again(self, items: _Items, most: int, flags: int) -> None:
        once = self.ways
        self.sequence(items, flags)
        growth = self.ways / once
        if growth > 1:
            self.ways = min(_TOO_MANY, once * _power(growth, min(most, self.window) - 1))
            self.steps += self._arrivals()
            self.reason = _NESTED if _has_repeat(items) else _ALTERNATIVES

    def _place(self) -> _RepeatPlace:
        return _RepeatPlace(
            self.starts, self.ways, dict(self.open), self.has_varied, self.last, self.before, self.reach
        )

    def _go_to(self, place: _RepeatPlace) -> None:
        self.starts, self.ways, _, self.has_varied, self.last, self.before, self.reach = place
        self.open = dict(place.open)


class _RepeatPlace(NamedTuple):
    """The state of an estimate, without its step count."""

    starts: int
    ways: float
    open: dict[int, _Open]
    has_varied: bool
    last: int
    before: list[int]
    reach: int


def _merged(places: list[_RepeatPlace]) -> _RepeatPlace:
    """Return the worst of several states that lead to the same place."""
    repeats: dict[int, _Open] = {}
    last = functools.reduce(operator.or_, (place.last for place in places))
    for place in places:
        for number, repeat in place.open.items():
            repeats[number] = max(repeat, repeats.get(number, repeat))
    return _RepeatPlace(
        starts=max(place.starts for place in places),
        ways=max(place.ways for place in places),
        open=repeats,
        has_varied=any(place.has_varied for place in places),
        last=last,
        before=[last],
        reach=max(place.reach for place in places),
    )


def _power(base: float, exponent: int) -> float:
    try:
        return min(_TOO_MANY, base**exponent)
    except OverflowError:
        return _TOO_MANY


def _chars(operation: Any, argument: Any, flags: int) -> int | None:
    """Return the characters that a single-character operation takes; None for any other operation."""
    if operation is ops.LITERAL:
        return _with_cases(_char(argument), flags)
    if operation is ops.NOT_LITERAL:
        return _ALL & ~_with_cases(_char(argument), flags) | _OTHER
    if operation is ops.ANY:
        return _ALL if flags & re.DOTALL else _ALL & ~_char(ord("\n"))
    if operation is ops.IN:
        return _set(argument, flags)
    return None


def _set(members: _Items, flags: int) -> int:
    chars, is_negated = 0, False
    for operation, argument in members:
        if operation is ops.NEGATE:
            is_negated = True
        elif operation is ops.LITERAL:
            chars |= _char(argument)
        elif operation is ops.RANGE:
            first, last = argument
            chars |= sum(_char(code) for code in range(first, min(last, 127) + 1))
            chars |= _OTHER if last > 127 else 0
        else:
            chars |= _CATEGORIES[argument]
    chars = _with_cases(chars, flags)
    return _ALL & ~chars | _OTHER if is_negated else chars


def _char(code: int) -> int:
    return 1 << code if code < 128 else _OTHER


def _matching(pattern: str) -> int:
    return sum(1 << code for code in range(128) if re.fullmatch(pattern, chr(code), re.ASCII))


_CATEGORIES = {
    ops.CATEGORY_DIGIT: _matching(r"\d"),
    ops.CATEGORY_NOT_DIGIT: _matching(r"\D") | _OTHER,
    ops.CATEGORY_SPACE: _matching(r"\s"),
    ops.CATEGORY_NOT_SPACE: _matching(r"\S") | _OTHER,
    ops.CATEGORY_WORD: _matching(r"\w"),
    ops.CATEGORY_NOT_WORD: _matching(r"\W") | _OTHER,
}
_UPPER, _LOWER = _matching("[A-Z]"), _matching("[a-z]")
_BETWEEN_CASES = ord("a") - ord("A")


def _with_cases(chars: int, flags: int) -> int:
    if not flags & re.IGNORECASE:
        return chars
    return chars | (chars & _UPPER) << _BETWEEN_CASES | (chars & _LOWER) >> _BETWEEN_CASES


def _repeated_chars(operation: Any, argument: Any, flags: int) -> tuple[int, int, int | None]:
    """Return least and most repetitions of one character, and which; None as characters for anything else."""
    if operation not in _REPEATS:
        return 0, 0, None
    least, most, body = argument
    items, inner = body.data, flags
    while len(items) == 1 and items[0][0] is ops.SUBPATTERN:
        _, added, removed, group = items[0][1]
        items, inner = group.data, (inner | added) & ~removed
    if len(items) != 1:
        return least, most, None
    inner_operation, inner_argument = items[0]
    return least, most, _chars(inner_operation, inner_argument, inner)


def _least_distance(masks: list[int], distance: int) -> int:
    """Return the least distance between two occurrences of these characters, `distance` or more."""
    while any(not one & other for one, other in zip(masks, masks[distance:], strict=False)):
        distance += 1
    return distance


def _head(items: _Items, flags: int) -> Iterator[int]:
    """Yield the characters at the first places of a branch, as far as they are certain."""
    for operation, argument in items:
        chars = _chars(operation, argument, flags)
        if chars is not None:
            yield chars
            continue
        least, most, repeated = _repeated_chars(operation, argument, flags)
        if repeated is not None:
            yield from [repeated] * min(least, _LONGEST_HEAD)
            if most == least:
                continue
        elif operation is ops.SUBPATTERN and _is_plain(argument[3].data):
            yield from _head(argument[3].data, (flags | argument[1]) & ~argument[2])
            continue
        elif operation is ops.SUBPATTERN:
            yield from _head(argument[3].data, (flags | argument[1]) & ~argument[2])
        elif operation is ops.BRANCH:
            heads = [list(_head(branch.data, flags)) for branch in argument[1]]
            for masks in zip(*heads, strict=False):
                yield functools.reduce(operator.or_, masks)
        return


def _is_plain(items: _Items) -> bool:
    return all(operation in (ops.LITERAL, ops.NOT_LITERAL, ops.ANY, ops.IN) for operation, _ in items)


def _most_alike(heads: list[list[int]]) -> int:
    """Return how many of the branches can match at the same position."""
    return max(sum(_are_alike(one, other) for other in heads) for one in heads)


def _are_alike(one: list[int], other: list[int]) -> bool:
    return all(first & second for first, second in zip(one, other, strict=False))


def _has_repeat(items: _Items) -> bool:
    return any(
        operation in _REPEATS or any(map(_has_repeat, _inside(operation, argument))) for operation, argument in items
    )


def _all_chars(items: _Items, flags: int) -> int:
    """Return every character that these operations can take."""
    chars = 0
    for operation, argument in items:
        inner = (flags | argument[1]) & ~argument[2] if operation is ops.SUBPATTERN else flags
        chars |= _chars(operation, argument, flags) or 0
        for part in _inside(operation, argument):
            chars |= _all_chars(part, inner)
    return chars


def _inside(operation: Any, argument: Any) -> list[_Items]:
    if operation is ops.SUBPATTERN:
        return [argument[3].data]
    if operation is ops.ATOMIC_GROUP:
        return [argument.data]
    if operation is ops.BRANCH:
        return [branch.data for branch in argument[1]]
    if operation in _REPEATS:
        return [argument[2].data]
    return []
