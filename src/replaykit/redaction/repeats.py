"""Repeats in patterns: two open-ended ones that can take the same text make a search cubic, which takes minutes.

`CUST-\\d+-[A-Z]+` is fine: no dash is a digit. `[a-z]*[a-z0-9]*x` is not.
"""

from __future__ import annotations

import re

_PARTS = re.compile(
    r"(?P<open>\((?:\?[^:)>]*[:>])?)|(?P<close>\))|(?P<bar>\|)|(?P<anchor>\\[bBAZ]|[\^$])"
    r"|(?P<count>[*+?]|\{\d+(?:,\d*)?\})|(?P<item>\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.)",
    re.DOTALL,
)
_COUNT = re.compile(r"\{(\d+)(,?)(\d*)\}")
_MANY = 64
_ANYTHING = "(?s:.)"
_ASCII = [chr(code) for code in range(128)]


def refuse_adjacent_repeats(pattern: str) -> None:
    """A `ValueError` for a pattern in Python's syntax with two open-ended repeats that can take the same text."""
    _Walk(pattern).run()


class _Walk:
    """A walk over the parts. `open` is what the open-ended repeats take that nothing has ended yet."""

    def __init__(self, pattern: str) -> None:
        self.parts = list(_PARTS.finditer(pattern))
        self.open: set[str] = set()
        self.groups: list[tuple[set[str], set[str]]] = []  # `open` before each group, and behind its branches

    def run(self) -> None:
        for place, part in enumerate(self.parts):
            count = self.parts[place + 1]["count"] if place + 1 < len(self.parts) else None
            if part["open"]:
                self.groups.append((set(self.open), set()))
            elif part["bar"]:
                self._end_branch()
            elif part["close"]:
                self._close(count)
            elif part["item"]:
                self._item(part["item"], count)

    def _end_branch(self) -> None:
        if not self.groups:
            self.open = set()
            return
        before, behind = self.groups[-1]
        behind |= self.open
        self.open = set(before)

    def _close(self, count: str | None) -> None:
        before, behind = self.groups.pop() if self.groups else (set(), set())
        self.open |= behind
        if _may_be_none(count):
            self.open |= before
        if _is_many(count):
            self._item(_ANYTHING, count)

    def _item(self, item: str, count: str | None) -> None:
        meeting = {one for one in self.open if _share(one, item)}
        if _is_many(count) and meeting:
            raise ValueError(
                "two of its repeats can take the same text, which can take Python forever; give one an end: {1,64}"
            )
        if not _may_be_none(count):
            self.open = meeting
        if _is_many(count):
            self.open.add(item)


def _is_many(count: str | None) -> bool:
    if count is None or count == "?":
        return False
    exact = _COUNT.fullmatch(count)
    if exact is None:
        return True
    return bool(exact[2]) and (not exact[3] or int(exact[3]) > _MANY)


def _may_be_none(count: str | None) -> bool:
    return count is not None and (count in ("*", "?") or count.startswith(("{0,", "{0}")))


def _share(one: str, other: str) -> bool:
    """True when a character can be taken by both."""
    first, second = re.compile(one), re.compile(other)
    return any(first.fullmatch(char) and second.fullmatch(char) for char in _ASCII) or not (one + other).isascii()
