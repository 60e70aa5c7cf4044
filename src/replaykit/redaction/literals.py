"""Literals: the words and signs that rules begin with, looked for all at once.

Most texts have few of them, and need none of the rules that the others lead to.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from replaykit.redaction.commands import PROGRAMS
from replaykit.redaction.name_hints import NUMBER_STEMS, STEMS
from replaykit.redaction.national_ids import NAMES_OF_IDS
from replaykit.redaction.phrases import NAMES as PHRASE_NAMES
from replaykit.redaction.phrases import SEED_NAMES
from replaykit.redaction.vendors import WORDS as VENDOR_WORDS

if TYPE_CHECKING:
    from ahocorasick_rs import BytesAhoCorasick

_OTHERS = b"private basic curl insert iban :: :// :thin: [at] (at) sig= signature= security-token=".split()
_LITERALS = tuple(
    dict.fromkeys(
        (*STEMS, *NUMBER_STEMS, *_OTHERS, *NAMES_OF_IDS, *VENDOR_WORDS, *SEED_NAMES, *PROGRAMS, *PHRASE_NAMES)
    )
)
_NOTHING: frozenset[bytes] = frozenset()


def literals_in(low: bytes) -> frozenset[bytes]:
    """Return which of the literals are in a text in lower case.

    One automaton takes as long as two or three searches for a literal each, and there are more than seventy.
    """
    found = _automaton().find_matches_as_indexes(low, overlapping=True)
    return frozenset([_LITERALS[index] for index, _, _ in found]) if found else _NOTHING


@cache
def _automaton() -> BytesAhoCorasick:
    from ahocorasick_rs import BytesAhoCorasick, Implementation  # noqa: PLC0415 (reading a store needs none of it)

    return BytesAhoCorasick(list(_LITERALS), implementation=Implementation.DFA)
