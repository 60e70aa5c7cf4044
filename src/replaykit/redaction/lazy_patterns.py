"""Compile patterns and automata on first use: compiling takes longer than searching."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import AnyStr, cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ahocorasick_rs import BytesAhoCorasick

_PATTERN_METHODS = ("search", "match", "fullmatch", "findall", "finditer", "sub")


class _LazyPattern:
    """A stand-in for a compiled pattern; takes over its methods on first use."""

    def __init__(self, pattern: Any, flags: int) -> None:
        self._pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        pattern = self._pattern
        if callable(pattern):
            pattern = pattern()
        compiled = re.compile(pattern, self._flags)
        for method in _PATTERN_METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


class _LazyAutomaton:
    """A stand-in for an automaton that searches many words at once, in the time of two or three searches."""

    def __init__(self, words: Iterable[bytes]) -> None:
        self._words = words

    def __getattr__(self, name: str) -> Any:
        from ahocorasick_rs import BytesAhoCorasick, Implementation  # noqa: PLC0415 (reading a store needs none of it)

        # Beyond 100 words, this implementation is not the default.
        automaton = BytesAhoCorasick(list(self._words), implementation=Implementation.DFA)
        self.find_matches_as_indexes = automaton.find_matches_as_indexes
        return getattr(automaton, name)


def lazy(pattern: AnyStr | Callable[[], AnyStr], flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern that is compiled on first use; a long one may be a function that returns its text."""
    return cast("re.Pattern[AnyStr]", _LazyPattern(pattern, flags))


def lazy_automaton(words: Iterable[bytes]) -> BytesAhoCorasick:
    """Return an automaton for these words that is built on first use."""
    return cast("BytesAhoCorasick", _LazyAutomaton(words))
