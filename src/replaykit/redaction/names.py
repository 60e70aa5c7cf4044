"""Names of people: no pattern finds them, so somebody else's recogniser does, behind one small protocol.

`names = true` in redaction.toml asks for it. The extra `names` brings presidio.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from replaykit.errors import UsageError, install_hint


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

    @classmethod
    def of_model(cls, model: str, language: str = "en") -> PresidioNames:
        """With a model of spaCy: an installed one, or the directory that one is in."""
        from presidio_analyzer import AnalyzerEngine  # noqa: PLC0415 (an extra, and slow)
        from presidio_analyzer.nlp_engine import NlpEngineProvider  # noqa: PLC0415

        models = [{"lang_code": language, "model_name": model}]
        engine = NlpEngineProvider(nlp_configuration={"nlp_engine_name": "spacy", "models": models}).create_engine()
        return cls(AnalyzerEngine(nlp_engine=engine, supported_languages=[language]), language=language)

    def find(self, text: str) -> Iterable[tuple[int, int]]:
        """The spans that presidio calls PERSON and is sure enough of."""
        results = self._analyzer.analyze(text=text, entities=["PERSON"], language=self._language)
        return sorted((found.start, found.end) for found in results if found.score >= self._score)


def installed_finder() -> NameFinder:
    """presidio's with the largest English model that is installed; a `UsageError` says how to get one.

    Left to itself presidio would download a model, and nothing here talks to the network unasked.
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
    """The place of a model's size among those that spaCy has."""
    sizes = ("sm", "md", "lg", "trf")
    ending = model.rpartition("_")[2]
    return sizes.index(ending) if ending in sizes else -1
