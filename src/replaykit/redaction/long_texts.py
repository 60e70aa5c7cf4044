"""Long texts: only what a quick look cannot let pass is searched, with enough around it.

A search costs twenty times as much as a quick look, and of a result of 50 MB most of the stretches pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from replaykit.redaction.finding import Hit
from replaykit.redaction.placeholders import without_placeholders
from replaykit.redaction.prefilter import is_plainly_clean

LEAST_CHARS = 128 * 1024
"""A shorter text is searched as a whole."""
STEP = 16 * 1024
_NEAR = 512
"""How far a rule sees that has not begun yet."""
_AROUND = 4096
"""How far a rule sees from where it has begun; one that finds something there goes on."""
_SAMPLES = 16
_KEY, _LONGEST_KEY = "-----BEGIN", 20_000
Search = Callable[[str], list[Hit]]


def long_hits(text: str, search: Search, step: int = STEP) -> list[Hit]:
    """What a search of the whole text finds."""
    if not _is_mostly_clean(text, step):
        return search(text)
    stretches = list(_stretches(text, step))
    if sum(end - start for start, end in stretches) * 2 > len(text):
        return search(text)
    hits: list[Hit] = []
    first = done = 0
    for start, end in stretches:
        if end <= done:
            continue
        if start - _AROUND >= done:
            first = start - _AROUND
        else:  # what was searched goes on here
            hits = [hit for hit in hits if hit.end <= first]
        found, done = _searched(text, first, end, search)
        begin = first + _AROUND - _NEAR if first else 0
        hits += [hit for hit in found if hit.end > begin]
    return hits


def _is_mostly_clean(text: str, step: int) -> bool:
    """False when half of some samples do not pass: then a look at each stretch would be in vain."""
    samples = [text[at : at + step] for at in range(0, len(text), max(step, len(text) // _SAMPLES))]
    return sum(map(_passes, samples)) * 2 > len(samples)


def _stretches(text: str, step: int) -> Iterator[tuple[int, int]]:
    """From where to where the text has to be searched; what would touch is one."""
    start = end = -1
    for at in range(0, len(text), step):
        if _passes(text[max(0, at - _NEAR) : at + step + _NEAR]):
            continue
        if start >= 0 and at - end > 2 * _AROUND:
            yield start, end
            start = -1
        start = at if start < 0 else start
        end = min(len(text), at + step)
    if start >= 0:
        yield start, end


def _passes(text: str) -> bool:
    raw = text.encode("utf-8", "surrogatepass")
    if is_plainly_clean(raw):
        return True
    masked = without_placeholders(raw)
    return masked is not raw and is_plainly_clean(masked)


def _searched(text: str, first: int, end: int, search: Search) -> tuple[list[Hit], int]:
    """What is found from `first` on, and how far it was searched: as long as something is found near the end."""
    reach = _AROUND
    while True:
        last = min(len(text), max(end + reach, text.rfind(_KEY, first, end) + _LONGEST_KEY))
        hits = search(text[first:last])
        ends_near = any(hit.end > last - first - _AROUND // 2 for hit in hits)
        if last == len(text) or not ends_near:
            return [replace(hit, start=hit.start + first, end=hit.end + first) for hit in hits], last
        reach *= 4
