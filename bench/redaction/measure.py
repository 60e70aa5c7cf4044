"""What one finder is measured by: how much it finds in the held-out half, how often it errs, how long it takes."""

from __future__ import annotations

from collections.abc import Callable

from clock import Stopwatch

from . import kinds, texts
from .corpus import HELD_OUT, Sample, half
from .marked import OPINION
from .score import Find, Found, Score, score

Numbers = dict[str, float]
__all__ = ["Find", "Found", "accuracy", "gone", "speed"]


def accuracy(find: Find) -> Numbers:
    """Shares for the held-out half, and the time for all of its text."""
    samples = half(HELD_OUT)
    find(samples[0].text)  # what is compiled on first use has a row of its own
    with Stopwatch() as watch:
        for sample in samples:
            find(sample.text)
    size = sum(len(sample.text.encode()) for sample in samples)
    everything, unseen = score(find, samples), score(find, [sample for sample in samples if sample.unseen])
    if not everything.all.findings:
        raise AssertionError("it found nothing at all: it was not set up as its users do")
    return {
        **_shares(everything),
        "precision": everything.all.precision,
        "exact_precision": everything.all.exact_precision,
        "unseen_secrets": unseen.of_group(kinds.SECRETS).recall,
        "unseen_precision": unseen.all.precision,
        "corpus_us": watch.cpu_s / size * 1e12,
    }


def _shares(result: Score) -> Numbers:
    numbers: Numbers = {}
    for group in (kinds.SECRETS, kinds.CHECKED, kinds.PERSONAL):
        tally = result.of_group(group)
        numbers |= {
            group: tally.recall,
            f"{group}_named": tally.named_recall,
            f"{group}_covered": tally.covered_recall,
        }
    for family in kinds.FAMILIES[1:]:
        numbers[family] = result.kinds[family].recall
    return numbers


def gone(redact: Callable[[bytes], bytes]) -> Numbers:
    """Shares of the held-out half's sensitive spans that no longer stand in what was redacted."""
    counts: dict[str, list[bool]] = {}
    for sample in half(HELD_OUT):
        out = redact(sample.text.encode()).decode()
        for group, secret in _secrets(sample):
            counts.setdefault(group, []).append(secret not in out)
    return {f"{group}_gone": sum(seen) / len(seen) for group, seen in counts.items()}


def _secrets(sample: Sample) -> list[tuple[str, str]]:
    return [
        (kinds.group(span.kind), sample.text[span.start : span.end]) for span in sample.spans if span.kind != OPINION
    ]


def speed(find: Find, size: int) -> Numbers:
    """CPU microseconds for a megabyte of each plain text, and the findings in it: there is nothing to find."""
    numbers: Numbers = {}
    alarms = total = 0
    for kind in texts.KINDS:
        pieces = texts.pieces(kind, size)
        find(pieces[0])
        with Stopwatch() as watch:
            alarms += sum(len(find(piece)) for piece in pieces)
        length = sum(len(piece.encode()) for piece in pieces)
        numbers[f"{kind}_us"] = watch.cpu_s / length * 1e12
        total += length
    return {**numbers, "alarms": alarms / total * 1e6}
