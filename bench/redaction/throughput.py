"""The throughput of redaction by class of text, beside one search of the same text with a small pattern.

Megabytes a second differ between machines. How many such searches take as long differs little: that has limits.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from . import corpus, texts

Numbers = dict[str, float]
SECRETS = "full-of-secrets"
CLASSES = (*texts.ALL_KINDS, SECRETS)
_BYTES = 200_000
_TIMES = 6
_REFERENCE_TIMES = 8
_REFERENCE = re.compile(rb"(?:password|token|secret)\W{1,3}\w+")


def throughput(redact: Callable[[bytes], bytes]) -> Numbers:
    """Megabytes a second of CPU for each class of text, and how many searches take as long."""
    numbers: Numbers = {}
    for name in CLASSES:
        pieces = _pieces(name)
        size = sum(len(piece.encode()) for piece in pieces)
        own_s, reference_s = _cpu_s(redact, pieces)
        numbers[f"{name}_mb_s"] = size / own_s / 1e6
        numbers[f"{name}_searches"] = own_s / reference_s
    return numbers


def _pieces(name: str) -> list[str]:
    if name != SECRETS:
        return texts.pieces(name, _BYTES)
    return [sample.text for sample in corpus.half(corpus.TUNING) if sample.spans]


def _cpu_s(redact: Callable[[bytes], bytes], pieces: list[str]) -> tuple[float, float]:
    """The least times of redaction and of the reference, in turns, after one that compiles what is compiled late.

    Each time the texts differ in a few characters: what was remembered of the last time must not help.
    """
    own, reference = [], []
    for number in range(_TIMES + 1):
        data = [f"{number} {index} {piece}".encode() for index, piece in enumerate(pieces)]
        own.append(_timed(redact, data))
        reference.append(_timed(_REFERENCE.findall, data * _REFERENCE_TIMES) / _REFERENCE_TIMES)
    return min(own[1:]), min(reference[1:])


def _timed(work: Callable[[bytes], object], data: list[bytes]) -> float:
    start = time.process_time()
    for piece in data:
        work(piece)
    return time.process_time() - start
