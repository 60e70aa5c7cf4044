"""Names of people: no pattern finds them, so somebody else's recogniser does, behind one small protocol.

`names = true` in redaction.toml asks for it. The extra `agent-replaykit[names]` brings presidio.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from replaykit.errors import UsageError


class NameFinder(Protocol):
    """Finds names of people in a text."""

    def find(self, text: str) -> Iterable[tuple[int, int]]:
        """From where to where each name goes."""


class PresidioNames:
    """A `NameFinder` over presidio's analyser."""

    def __init__(self, analyzer: Any, *, language: str = "en", score: float = 0.5) -> None:
        self._analyzer = analyzer
        self._language = language
        self._score = score

    def find(self, text: str) -> Iterable[tuple[int, int]]:
        """The spans that presidio calls PERSON and is sure enough of."""
        results = self._analyzer.analyze(text=text, entities=["PERSON"], language=self._language)
        return sorted((found.start, found.end) for found in results if found.score >= self._score)


def installed_finder() -> NameFinder:
    """presidio's, if it is installed; a `UsageError` says how to get it."""
    try:
        from presidio_analyzer import (  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 (an extra, and slow)
            AnalyzerEngine,
        )
    except ImportError:
        raise UsageError(
            "names of people are to be redacted (names = true in redaction.toml), but presidio is not installed",
            hint="Install it: pip install 'agent-replaykit[names]', or leave out `names`.",
        ) from None
    return PresidioNames(AnalyzerEngine())
