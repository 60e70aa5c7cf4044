"""The corpus: forms put into places, divided into a half for tuning rules and a half that nobody looks at.

A template is a form in a place. Templates are divided, not strings: a half shares no template with the other.
Some forms and some places are in the held-out half alone, as the world has forms and places that no rule was
written for.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from . import credentials, harmless, lookalikes, personal, tokens
from .forms import Form
from .marked import Marked, Span
from .places import PLACES, Place

SEED = "redaction corpus 1"
TUNING = "tuning"
HELD_OUT = "held-out"
HALVES = (TUNING, HELD_OUT)

POSITIVE = [*tokens.FORMS, *credentials.FORMS, *personal.FORMS]
NEGATIVE = [*harmless.VALUES, *lookalikes.TEXTS]

_TEXTS_A_WHOLE = 6  # samples of a form that is a whole text
_ALONE = 8  # one in so many forms, and one in so many places, is in the held-out half alone
_TUNING_OF_64 = 39  # of the templates left: what makes the halves about equal


@dataclass(frozen=True)
class Sample:
    """One labelled string. Negatives have no spans."""

    text: str
    spans: tuple[Span, ...]
    form: str
    place: str
    half: str
    unseen: bool
    """Its form or its place is not in the tuning half at all."""

    @property
    def template(self) -> str:
        return f"{self.form}/{self.place}"


@cache
def corpus() -> tuple[Sample, ...]:
    """All samples, the same on every machine."""
    return tuple(sample for form in (*POSITIVE, *NEGATIVE) for sample in _samples(form))


def half(name: str) -> list[Sample]:
    return [sample for sample in corpus() if sample.half == name]


def _samples(form: Form) -> Iterator[Sample]:
    if form.whole:
        for number in range(_TEXTS_A_WHOLE):
            yield _sample(form, None, number)
    else:
        for place in _places(form):
            yield _sample(form, place, 0)


def _places(form: Form) -> list[Place]:
    """The places this form is put in: a draw among those that can take it."""
    able = [
        place for place in PLACES if (place.named or not form.needs_name) and (place.multiline or not form.multiline)
    ]
    return sorted(able, key=lambda place: _number("draw", form.id, place.id))[: form.places]


def _sample(form: Form, place: Place | None, number: int) -> Sample:
    where = place.id if place else "whole"
    rng = random.Random(f"{SEED}|{form.id}|{where}|{number}")
    marked: Marked = form.make(rng)
    if place:
        marked = place.put(rng, rng.choice(form.names), marked)
    unseen = _alone("form", form.id) or (place is not None and _alone("place", place.id))
    return Sample(marked.text, marked.spans, form.id, where, _half(form.id, where, unseen=unseen), unseen)


def _half(form: str, place: str, *, unseen: bool) -> str:
    held_out = unseen or _number("template", form, place) % 64 >= _TUNING_OF_64
    return HELD_OUT if held_out else TUNING


def _alone(what: str, name: str) -> bool:
    return _number("alone", what, name) % _ALONE == 0


def _number(*parts: str) -> int:
    return int.from_bytes(hashlib.sha256("|".join((SEED, *parts)).encode()).digest()[:8], "big")
