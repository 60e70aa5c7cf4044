"""Composed values: a secret that holds other findings, or placeholders of such.

`Cookie: sessionid=x; access=<a JWT>` is one secret, and what is left of it is not shown because a part is recognized.
"""

from __future__ import annotations

from collections.abc import Iterable

from replaykit.redaction.finding import Hit
from replaykit.redaction.lazy_patterns import lazy
from replaykit.redaction.placeholders import spans
from replaykit.redaction.plausible_values import looks_random
from replaykit.redaction.wordlist import words_of

COOKIE_ATTRIBUTES = frozenset(words_of("path expires max-age domain samesite version comment priority"))
"""What a cookie says of itself, and not of who has it."""
_BLANKED = lazy(rb"<{4,}+")
_APART = lazy(rb"[\s;,&\"'=<>]+")
_WORD = lazy(rb"[A-Za-z0-9]{3}")
_MIXED = lazy(r"(?=[^\s]{0,200}[A-Za-z])[^\s]{0,200}\d")
_LEAST = 6


def hides_more(flat: bytes) -> bool:
    """True when a value, its placeholders blanked with `<`, holds more than those."""
    rest = _BLANKED.sub(b" ", flat)
    if any(looks_random(piece.decode()) for piece in _APART.split(rest)):
        return True
    is_one_word = not _APART.search(_BLANKED.sub(b"", flat))
    return is_one_word and _WORD.search(rest) is not None


def rest_is_secret(value: str, start: int, findings: Iterable[Hit]) -> bool:
    """True when words beside the findings in a value look as if they belonged to the same secret.

    `start`: where the value begins in the text that the findings are in.
    """
    pieces, at = [], 0
    for hit in sorted(findings, key=lambda hit: hit.start):
        pieces.append(value[at : max(at, hit.start - start)])
        at = max(at, hit.end - start)
    words = " ".join([*pieces, value[at:]]).split() if pieces else []
    return any(len(word) >= _LEAST and _MIXED.match(word) for word in words)


def cookie_hides_more(text: str) -> bool:
    """True when a pair of a cookie holds a value that is neither a word nor a placeholder."""
    raw = text.encode("utf-8", "replace")
    for start, end in spans(raw):
        raw = raw[:start] + b"<" * (end - start) + raw[end:]
    return any(_is_shown(pair) for pair in raw.split(b";"))


def _is_shown(pair: bytes) -> bool:
    name, sign, value = pair.partition(b"=")
    if not sign or name.strip().lower().decode("utf-8", "replace") in COOKIE_ATTRIBUTES:
        return False
    rest = value.strip(b'<" \r\n')
    return bool(rest) and not rest.isalpha()
