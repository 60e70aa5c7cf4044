"""Rules: what to search. A project adds its own rules to the built-in ones, and values that are not secret."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from replaykit.redaction.name_hints import NameHint, Trust, compact, hint_of_name, words
from replaykit.redaction.text_view import places_of

if TYPE_CHECKING:
    from replaykit.model.jsonpath import JsonPath
    from replaykit.redaction.finders import NamedFinder

WINDOW = 4096
OVERLAP = 1024
"""How much text patterns of files see at once: quadratic patterns stay within milliseconds."""


MAX_ALLOWED_CHARS = 400
"""The longest value that patterns may allow: non-secret values are short, and patterns may be cubic in length."""
HASH = "sha256:"
"""The prefix of the hash of an allowed value."""


def sha256_of(value: str) -> str:
    """Return the hash of a value in the form of `allow`."""
    from hashlib import sha256  # noqa: PLC0415 (slow to import, and most projects allow nothing)

    return HASH + sha256(value.encode("utf-8", "surrogatepass")).hexdigest()


def matches_any(patterns: Sequence[re.Pattern[str]], value: str) -> bool:
    """Return whether one of the patterns allows a value."""
    return len(value) <= MAX_ALLOWED_CHARS and any(pattern.search(value) for pattern in patterns)


class LeadIn(Struct, frozen=True):
    """Optional characters before a match: many rules of gitleaks begin with `[\\w.-]{0,50}?`.

    Searching without them finds the same values, many times faster; allowlists see them.
    """

    pattern: re.Pattern[str]
    most: int

    def start(self, found: re.Match[str], first: int) -> int:
        """Return where a match with its lead-in begins, no earlier than `first`."""
        begin = self.pattern.search(found.string, max(first, found.start() - self.most), found.start())
        return (begin or found).start()


class RedactionRule(Struct, frozen=True):
    """A project's pattern. One of `keywords` (lower case) must be in the text; `group` is the value."""

    kind: str
    pattern: re.Pattern[str]
    keywords: tuple[str, ...] = ()
    group: int = 0
    entropy: float = 0.0
    allow: tuple[re.Pattern[str], ...] = ()
    stopwords: tuple[str, ...] = ()
    lead_in: LeadIn | None = None

    def windows(self, low: bytes) -> Iterator[tuple[int, int]]:
        """Yield the parts of the text to search: around keywords, or overlapping windows over all of it."""
        if not self.keywords:
            for at in range(0, len(low), WINDOW - OVERLAP):
                yield at, at + WINDOW
            return
        places: list[int] = []
        for word in self.keywords:
            places += places_of(low, word.encode("ascii", "replace"))
        last = 0
        for at in sorted(places):
            if at + OVERLAP > last:
                start = max(0, at - OVERLAP, last - OVERLAP)
                last = start + WINDOW
                yield start, last


class Rules(Struct, frozen=True, dict=True):
    """The built-in rules with a project's additions (names, headers, JSON paths, patterns) and exceptions."""

    headers: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    paths: tuple[JsonPath, ...] = ()
    allow: frozenset[str] = frozenset()
    allow_patterns: tuple[re.Pattern[str], ...] = ()
    extra: tuple[RedactionRule, ...] = ()
    names: bool = False
    finders: tuple[NamedFinder, ...] = ()
    notices: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def hint_of(self, name: str) -> NameHint | None:
        """Return what the name says about its value."""
        hint = hint_of_name(name)
        if hint is None and self.own_names and compact(name) in self.own_names:
            return NameHint("secret", Trust.ANY, is_own=True)
        return hint

    def allows(self, value: str, *, is_own: bool = False) -> bool:
        """Return whether the project allows this value.

        Patterns apply only to findings of the project's own rules (`is_own`): the built-in rules cannot be turned off.
        """
        if value in self.allow or (self.hashes and sha256_of(value) in self.hashes):
            return True
        return is_own and matches_any(self.allow_patterns, value)

    @cached_property
    def hashes(self) -> frozenset[str]:
        """The allowed values that are given as hashes."""
        return frozenset([value for value in self.allow if value.startswith(HASH)])

    @cached_property
    def are_usual(self) -> bool:
        """True if only built-in rules apply."""
        return not (self.keys or self.headers or self.paths or self.extra or self.names or self.finders)

    @cached_property
    def own_names(self) -> frozenset[str]:
        """The names that the project added, in compact form."""
        return frozenset(map(compact, (*self.keys, *self.headers)))

    @cached_property
    def stems(self) -> tuple[bytes, ...]:
        """A word of each added name that all of its spellings share."""
        return tuple({max(words(name), key=len).encode() for name in (*self.keys, *self.headers) if name.isascii()})

    def plus(self, other: Rules) -> Rules:
        """Return these rules and others combined."""
        return Rules(
            headers=self.headers + other.headers,
            keys=self.keys + other.keys,
            paths=self.paths + other.paths,
            allow=self.allow | other.allow,
            allow_patterns=self.allow_patterns + other.allow_patterns,
            extra=self.extra + other.extra,
            names=self.names or other.names,
            finders=self.finders + other.finders,
            notices=self.notices + other.notices,
        )


def with_additions(
    *, keys: Sequence[str] = (), headers: Sequence[str] = (), paths: Sequence[str] = (), allow: Sequence[str] = ()
) -> Rules:
    """Return the built-in rules with additions; a `ValueError` reports an invalid path or name."""
    for name in (*keys, *headers):
        if not compact(name):
            raise ValueError(f"expected a name with letters in it, got {name!r}")
    from replaykit.model.jsonpath import parse_path  # noqa: PLC0415 (few projects redact by path)

    return Rules(
        headers=tuple(headers),
        keys=tuple(keys),
        paths=tuple(map(parse_path, paths)),
        allow=frozenset(allow),
    )


DEFAULT = Rules()
"""The built-in rules alone."""
