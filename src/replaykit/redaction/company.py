"""Company: words that make something of what stands beside them, and are nothing by themselves.

All of them are looked for at once. Most texts have none, and need none of what they lead to.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from replaykit.redaction.commands import PROGRAMS
from replaykit.redaction.national_ids import WORDS as ID_WORDS
from replaykit.redaction.phrases import NAMES as PHRASE_NAMES
from replaykit.redaction.phrases import SEED_NAMES
from replaykit.redaction.vendors import WORDS as VENDOR_WORDS

if TYPE_CHECKING:
    from ahocorasick_rs import BytesAhoCorasick

_GROUPS = {"id": ID_WORDS, "vendor": VENDOR_WORDS, "seed": SEED_NAMES, "program": PROGRAMS, "phrase": PHRASE_NAMES}
_WORDS = tuple((word, group) for group, words in _GROUPS.items() for word in words)


def company_in(low: bytes) -> frozenset[str]:
    """Which kinds of such words are in a text in lower case: `id`, `vendor`, `seed`, `program`, `phrase`."""
    found = _automaton().find_matches_as_indexes(low)
    return frozenset(_WORDS[index][1] for index, _, _ in found) if found else _NOTHING


_NOTHING: frozenset[str] = frozenset()


@cache
def _automaton() -> BytesAhoCorasick:
    from ahocorasick_rs import BytesAhoCorasick, Implementation  # noqa: PLC0415 (reading a store needs none of it)

    return BytesAhoCorasick([word for word, _ in _WORDS], implementation=Implementation.DFA)
