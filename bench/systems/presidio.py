"""Presidio: its recognisers by pattern alone, for the personal data of the corpus; no language model is loaded."""

from __future__ import annotations

from pathlib import Path

import measurements
from measurements import Numbers
from redaction.measure import Find, Found, accuracy, speed

NAME = "Presidio (patterns)"
DISTRIBUTION = "presidio-analyzer"

_FAMILIES = {
    "CREDIT_CARD": "card",
    "EMAIL_ADDRESS": "email",
    "IBAN_CODE": "iban",
    "IP_ADDRESS": "ip",
    "PHONE_NUMBER": "phone",
    "US_PASSPORT": "document",
    "US_SSN": "ssn",
}
_LEAST = 0.3  # below are guesses such as "nine digits may be a passport", meant to be raised by words around them


def finder() -> Find:
    import tldextract
    from presidio_analyzer import RecognizerRegistry

    tldextract.extract = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)  # or it asks the network
    registry = RecognizerRegistry(supported_languages=["en"])
    registry.load_predefined_recognizers(languages=["en"])
    recognizers = [r for r in registry.recognizers if set(r.supported_entities) <= set(_FAMILIES)]

    def find(text: str) -> list[Found]:
        return [
            Found(result.start, result.end, _FAMILIES[result.entity_type])
            for recognizer in recognizers
            for result in recognizer.analyze(text, recognizer.supported_entities, None)
            if result.score >= _LEAST
        ]

    return find


def redaction(work: Path) -> Numbers:
    return accuracy(finder())


def redaction_speed(work: Path, size: int) -> Numbers:
    return speed(finder(), size)


def redaction_first(work: Path, text: str) -> Numbers:
    here = Path(__file__).parents[1]
    statement = (
        f"import sys; sys.path.insert(0, {str(here)!r}); from systems import presidio; presidio.finder()({text!r})"
    )
    return measurements.start_up(statement, work)
