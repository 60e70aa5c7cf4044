"""scrubadub: its default detectors, without those for web addresses and Twitter names, which nobody asks for here."""

from __future__ import annotations

from pathlib import Path

import measurements
from measurements import Numbers
from redaction.measure import Find, Found, accuracy, speed

NAME = "scrubadub"
DISTRIBUTION = "scrubadub"

_FAMILIES = {
    "credential": "secret",
    "credit_card": "card",
    "email": "email",
    "phone": "phone",
    "social_security_number": "ssn",
}


def finder() -> Find:
    import scrubadub

    scrubber = scrubadub.Scrubber()
    scrubber.remove_detector("url")
    scrubber.remove_detector("twitter")

    def find(text: str) -> list[Found]:
        return [
            Found(filth.beg, filth.end, _FAMILIES[filth.type])
            for filth in scrubber.iter_filth(text)
            if filth.type in _FAMILIES
        ]

    return find


def redaction(work: Path) -> Numbers:
    return accuracy(finder())


def redaction_speed(work: Path, size: int) -> Numbers:
    return speed(finder(), size)


def redaction_first(work: Path, text: str) -> Numbers:
    return measurements.start_up(f"import scrubadub; scrubadub.Scrubber().clean({text!r})", work)
