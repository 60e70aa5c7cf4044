"""Expecting: what some value inside a run has to be. The parameters that several kinds share."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan
from typing import ClassVar

from msgspec import UNSET

from replaykit.checks.compare import same, within
from replaykit.checks.reading import shown
from replaykit.checks.regexes import check_pattern, search
from replaykit.checks.rule import Rule
from replaykit.model.values import Json, canonical

VALUE_NOTES = {
    "equals": "the value it is",
    "matches": "what it has at least, as for `tool.called`: an object may have more keys, at any depth",
    "contains": "a text in it; of a value that is no text, in its JSON",
    "regex": "a pattern in it, as for `output.regex`",
    "min": "the least number it may be",
    "max": "the largest number it may be",
}


class ValueRule(Rule, frozen=True, kw_only=True):
    """Parameters that say what a value has to be; all that are given have to agree."""

    expecting: ClassVar[tuple[str, ...]] = tuple(VALUE_NOTES)
    equals: Json = UNSET
    matches: Json = UNSET
    contains: str | None = None
    regex: str | None = None
    min: float | None = None
    max: float | None = None

    def __post_init__(self) -> None:
        if self.regex is not None:
            check_pattern(self.regex)
        if self.contains == "":
            raise ValueError("expected some text in `contains`: nothing is in every value")
        if any(bound is not None and isnan(bound) for bound in (self.min, self.max)):
            raise ValueError("expected a number: nothing is above or below nan")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"no number is at least {self.min:g} and at most {self.max:g}")

    @property
    def expects(self) -> bool:
        """True when something is said about the value."""
        return bool(self.expectations)

    @property
    def expectations(self) -> list[str]:
        """The expectations, in words."""
        return list(self._in_words())

    def accepts(self, value: Json) -> bool:
        """True when the value is as expected."""
        return (
            (self.equals is UNSET or same(value, self.equals))
            and (self.matches is UNSET or within(self.matches, value))
            and (self.contains is None or self.contains in text_of(value))
            and (self.regex is None or search(self.regex, text_of(value)) is not None)
            and self._in_range(value)
        )

    def _in_range(self, value: Json) -> bool:
        if self.min is None and self.max is None:
            return True
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return (self.min is None or value >= self.min) and (self.max is None or value <= self.max)

    def _in_words(self) -> Iterator[str]:
        if self.equals is not UNSET:
            yield shown(self.equals)
        if self.matches is not UNSET:
            yield f"at least {shown(self.matches)}"
        if self.contains is not None:
            yield f"something containing {self.contains!r}"
        if self.regex is not None:
            yield f"something that matches /{self.regex}/"
        if self.min is not None:
            yield f"a number of at least {self.min:g}"
        if self.max is not None:
            yield f"a number of at most {self.max:g}"


def text_of(value: Json) -> str:
    """A value as text: itself when it is one, its JSON otherwise."""
    if isinstance(value, str):
        return value
    return canonical(value).decode()
