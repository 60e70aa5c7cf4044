"""Parameters for expectations about a value, shared by several kinds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from msgspec import UNSET

from replaykit.checks.compare import same, within
from replaykit.checks.reading import first, shown, text_of, toolless_path
from replaykit.checks.regexes import check_pattern, search
from replaykit.checks.rule import Rule, Seen, in_range
from replaykit.model.values import Json

VALUE_NOTES = {
    "equals": "the value it must have",
    "matches": "what it must contain, as for `tool.called`: an object may have more keys, at any depth",
    "contains": "a text that it contains; for a value that is not text, in its JSON",
    "regex": "a pattern in it, as for `output.regex`",
    "min": "the minimum, for a number",
    "max": "the maximum, for a number",
}


class ValueRule(Rule, frozen=True):
    """Expectations about a value, which must all be met."""

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
        if self.min != self.min or self.max != self.max:  # only nan differs from itself
            raise ValueError("expected a number: nothing is above or below nan")
        if self.min is not None and self.max is not None and self.min > self.max:
            raise ValueError(f"no number is at least {self.min:g} and at most {self.max:g}")

    @property
    def expectations(self) -> list[str]:
        """The expectations in words."""
        return list(self._in_words())

    def accepts(self, value: Json) -> bool:
        """Return whether the value meets the expectations."""
        return (
            (self.equals is UNSET or same(value, self.equals))
            and (self.matches is UNSET or within(self.matches, value))
            and (self.contains is None or self.contains in text_of(value))
            and (self.regex is None or search(self.regex, text_of(value)) is not None)
            and self._in_range(value)
        )

    def seen_members(self, named_values: Sequence[tuple[str, Json]], what: str, expected: str, seq: int | None) -> Seen:
        """Return whether all members meet the expectations; report the first that does not."""
        if not named_values:
            return Seen(False, f"{what} has no such member", expected, "no such member", seq)
        bad = first(named_values, lambda member: not self.accepts(member[1]))
        place, value = bad or named_values[0]
        return Seen(bad is None, f"{what} has {place} {shown(value)}", expected, f"{place} is {shown(value)}", seq)

    def _in_range(self, value: Json) -> bool:
        if self.min is None and self.max is None:
            return True
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return in_range(value, self.min, self.max)

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


class PathRule(ValueRule, frozen=True, kw_only=True):
    """Expectations about the value at a JSON path."""

    plain = "path"
    path: str

    def __post_init__(self) -> None:
        toolless_path(self.path)
        super().__post_init__()
