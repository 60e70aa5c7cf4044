"""Find names of people, which no pattern can: an external recogniser does, through a small protocol.

`names = true` in redaction.toml turns it on. The extra `names` installs presidio.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from replaykit.errors import UsageError, install_hint


class NameFinder(Protocol):
    """Finds names of people in a text."""

    def find(self, text: str) -> Iterable[tuple[int, int]]:
        """Return the span of each name."""


class PresidioNames:
    """A `NameFinder` over presidio's analyser."""

    def __init__(self, analyzer: Any, *, language: str = "en", score: float = 0.5) -> None:
        self._analyzer = analyzer
        self._language = language
        self._score = score

    @classmethod
    def of_model(cls, model: str, language: str = "en") -> PresidioNames:
        """Use a spaCy model: an installed one, or a directory."""
        from presidio_analyzer import AnalyzerEngine  # noqa: PLC0415 (an extra, and slow)
        from presidio_analyzer.nlp_engine import NlpEngineProvider  # noqa: PLC0415

        models = [{"lang_code": language, "model_name": model}]
        engine = NlpEngineProvider(nlp_configuration={"nlp_engine_name": "spacy", "models": models}).create_engine()
        return cls(AnalyzerEngine(nlp_engine=engine, supported_languages=[language]), language=language)

    def find(self, text: str) -> Iterable[tuple[int, int]]:
        """Return the spans of PERSON entities above the score."""
        results = self._analyzer.analyze(text=text, entities=["PERSON"], language=self._language)
        return sorted((found.start, found.end) for found in results if found.score >= self._score)


def installed_finder() -> NameFinder:
    """Return presidio with the largest installed English model; a `UsageError` says how to install one.

    By default, presidio would download a model, and nothing here uses the network without being asked.
    """
    try:
        import presidio_analyzer as _  # noqa: F401, PLC0415 (an extra, and slow)
        from spacy.util import get_installed_models  # noqa: PLC0415
    except ImportError:
        raise UsageError(
            "names of people are to be redacted (names = true in redaction.toml), but presidio is not installed",
            hint=f"{install_hint('names')}, or leave out `names`.",
        ) from None
    models = sorted((name for name in get_installed_models() if name.startswith("en")), key=_size)
    if not models:
        raise UsageError(
            "names of people are to be redacted (names = true in redaction.toml), but spaCy has no English model",
            hint="Install one: python -m spacy download en_core_web_lg, or leave out `names`.",
        )
    return PresidioNames.of_model(models[-1])


def _size(model: str) -> int:
    """Return the rank of a model's size."""
    sizes = ("sm", "md", "lg", "trf")
    ending = model.rpartition("_")[2]
    return sizes.index(ending) if ending in sizes else -1
