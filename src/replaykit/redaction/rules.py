"""Rules: what is looked for. The built-in ones always are; a project adds its own, and values that are no secret."""

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
"""Patterns of files see this much of a text at once: what is quadratic in it stays in the milliseconds."""


MAX_ALLOWED_CHARS = 400
"""Patterns allow no longer value: what is no secret is short, and theirs may be cubic in it."""
HASH = "sha256:"
"""The beginning of the hash of an allowed value."""


def sha256_of(value: str) -> str:
    """Return the hash of a value, as `allow` takes it."""
    from hashlib import sha256  # noqa: PLC0415 (slow to import, and most projects allow nothing)

    return HASH + sha256(value.encode("utf-8", "surrogatepass")).hexdigest()


def matches_any(patterns: Sequence[re.Pattern[str]], value: str) -> bool:
    """Return whether one of the patterns allows a value."""
    return len(value) <= MAX_ALLOWED_CHARS and any(pattern.search(value) for pattern in patterns)


class LeadIn(Struct, frozen=True):
    """Characters that may stand before a match: many rules of gitleaks begin with `[\\w.-]{0,50}?`.

    A search without it finds the same values, many times faster; allowlists see it.
    """

    pattern: re.Pattern[str]
    most: int

    def start(self, found: re.Match[str], first: int) -> int:
        """Return where a match begins that has it, no earlier than `first`."""
        begin = self.pattern.search(found.string, max(first, found.start() - self.most), found.start())
        return (begin or found).start()


class RedactionRule(Struct, frozen=True):
    """A pattern of a project's own. `keywords` (lower case): one must be in the text; `group`: which is the value."""

    kind: str
    pattern: re.Pattern[str]
    keywords: tuple[str, ...] = ()
    group: int = 0
    entropy: float = 0.0
    allow: tuple[re.Pattern[str], ...] = ()
    stopwords: tuple[str, ...] = ()
    lead_in: LeadIn | None = None

    def windows(self, low: bytes) -> Iterator[tuple[int, int]]:
        """Yield the stretches of the text to look at: around the keywords, or all of it in pieces that overlap."""
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
    """The built-in rules and a project's additions: names, headers, JSON paths, patterns; and what to leave alone."""

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
        """True when the project says that this value is no secret.

        Patterns count for what the project's own rules have found (`is_own`). The built-in rules cannot be taken away.
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
        """True when nothing is looked for but what the built-in rules say."""
        return not (self.keys or self.headers or self.paths or self.extra or self.names or self.finders)

    @cached_property
    def own_names(self) -> frozenset[str]:
        """The names that the project added, whichever way they are spelled."""
        return frozenset(map(compact, (*self.keys, *self.headers)))

    @cached_property
    def stems(self) -> tuple[bytes, ...]:
        """Of each added name a word that every spelling of it has."""
        return tuple({max(words(name), key=len).encode() for name in (*self.keys, *self.headers) if name.isascii()})

    def plus(self, other: Rules) -> Rules:
        """Return these rules and others."""
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
    """The built-in rules and these; a `ValueError` says what is wrong with a path or a name."""
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
