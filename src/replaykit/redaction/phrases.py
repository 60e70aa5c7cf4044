"""Phrases: the words that a wallet is restored from (BIP-39), and seeds of one-time passwords written in groups.

No list of words is shipped, so the checksum inside of a phrase is not checked. A phrase is told by what is: a word for
it before, and 12, 15, 18, 21 or 24 words of three to eight letters, none of which is one of the words that every
sentence has and no phrase does.
"""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.redaction.finding import Hit
from replaykit.redaction.lazy_patterns import lazy
from replaykit.redaction.text_view import View

NAMES = (
    b"seed phrase|recovery phrase|backup phrase|secret phrase|wallet phrase|mnemonic|seed words|recovery words".split(
        b"|"
    )
)
"""One of these is before every phrase."""
SEED_NAMES = (b"totp", b"2fa", b"authenticator")
"""One of these is before every seed in groups."""
_COUNTS = (24, 21, 18, 15, 12)
_NAME = lazy(b"|".join(NAMES))
_WORDS = lazy(
    rb"(?:[^a-z0-9]{1,12}|(?:[^a-z0-9]{1,3}[a-z]{1,9}){0,4}?[^a-z0-9]{0,4}[:=\"'`\n]\s{0,8})(?:\d{1,2}[.):]\s?)?"
    rb"([a-z]{3,8}(?:(?:[\s,]{1,3}|\s{0,2}\d{1,2}[.):]?\s)[a-z]{3,8}){11,23}+)(?![a-z])"
)
_WORD = lazy(rb"[a-z]{3,8}")
_OF_SENTENCES = frozenset(
    b"the and for are was has had not but his her its our who how all any from were been have".split()
)
_SEED_NAME = lazy(b"|".join(SEED_NAMES))
_SEED = lazy(
    rb"(?<![A-Za-z0-9])(?:(?:[A-Z2-7]{4}[ -]){3,12}[A-Z2-7]{4}|(?:[a-z2-7]{4}[ -]){3,12}[a-z2-7]{4})(?![A-Za-z0-9])"
)
_NEAR = 60


def phrase_hits(view: View) -> Iterator[Hit]:
    """Phrases behind a name for them, and seeds in groups of four."""
    for name in _NAME.finditer(view.low) if any(one in view.low for one in NAMES) else ():
        found = _WORDS.match(view.low, name.end())
        if found and _is_phrase(_WORD.findall(found[1])):
            yield Hit("seed-phrase", *found.span(1), 2)
    for name in _SEED_NAME.finditer(view.low) if any(one in view.low for one in SEED_NAMES) else ():
        found = _SEED.search(view.flat, name.end(), name.end() + _NEAR + 64)
        if found and _is_seed(found[0]):
            yield Hit("secret", *found.span(), 2)


def _is_phrase(words: list[bytes]) -> bool:
    return len(words) in _COUNTS and not _OF_SENTENCES.intersection(words)


def _is_seed(text: bytes) -> bool:
    """With digits: no sentence of words of four letters."""
    return any(50 <= char <= 55 for char in text)
