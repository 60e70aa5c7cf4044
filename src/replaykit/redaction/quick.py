"""A quick look: most texts hold nothing that any rule begins with, and need no closer one.

All literals are looked for at once, by one automaton. What it lets pass is clean: a law that the tests hold it to.
"""

from __future__ import annotations

from functools import cache
from string import ascii_uppercase, digits, hexdigits
from typing import TYPE_CHECKING

from replaykit.redaction.lazy import lazy
from replaykit.redaction.telling import NUMBER_STEMS, STEMS, WIDE_STEMS
from replaykit.redaction.tokens import RUN, is_token_like
from replaykit.redaction.view import RUNS

if TYPE_CHECKING:
    from ahocorasick_rs import BytesAhoCorasick

_SIGNS = b"@ (at) [at] -----begin basic curl iban \\u \\/ :: $1$ $5$ $6$ $2a$ $2b$ $2x$ $2y$ $argon2 $scrypt$".split()
_BETWEEN = " .-()/+"


def _class(byte: int) -> int:
    """Digits are `0`, capitals `A`, what stands between digits stays, what is not ASCII is `~`, the rest is `x`."""
    char = chr(byte)
    if byte > 127:
        return ord("~")
    if char in digits:
        return ord("0")
    return byte if char in _BETWEEN else ord("A") if char in ascii_uppercase else ord("x")


_SHAPE = bytes(map(_class, range(256)))
"""With it patterns begin with a literal, which is what they are found fast by."""
_MANY = lazy(rb"0(?:[ .\-()/+~]{0,6}0){6}")
_IP = lazy(rb"0\.0{1,3}\.0{1,3}\.0")
_DATE = lazy(rb"(?:19|20)\d\d([-/.])[01]\d\1[0-3]\d(?![\d ./()\x80-\xff-])")
_COLONS = lazy(rb":[0-9a-fA-F]{1,4}:[0-9a-fA-F]{1,4}:[0-9a-fA-F]{1,4}:")


def is_plainly_clean(raw: bytes) -> bool:
    """True when nothing is there that any built-in rule begins with. False says nothing."""
    low = raw.lower()
    if _signs().find_matches_as_indexes(low):
        return False
    return not (_has_numbers(raw, low) or _COLONS.search(raw) or _has_tokens(raw))


def _has_numbers(raw: bytes, low: bytes) -> bool:
    shape = raw.translate(_SHAPE)
    if b"0" not in shape:
        return False
    if b"000" in shape and _number_stems().find_matches_as_indexes(low):
        return True
    if b"AA00" in shape or _IP.search(shape):  # an IBAN may be letters for the most part
        return True
    return any(_DATE.match(raw, found.start()) is None for found in _MANY.finditer(shape))


def _has_tokens(raw: bytes) -> bool:
    runs = raw.translate(RUNS)
    at = runs.find(RUN)
    while at >= 0:
        start = runs.rfind(b" ", max(0, at - 64), at) + 1 or at
        end = runs.find(b" ", at)
        end = len(runs) if end < 0 else end
        if is_token_like(raw[start:end]):
            return True
        at = runs.find(RUN, end)
    return False


@cache
def _signs() -> BytesAhoCorasick:
    from ahocorasick_rs import BytesAhoCorasick  # noqa: PLC0415 (reading a store needs none of it)

    wide = {word for words in WIDE_STEMS.values() for word in words.split()}
    spelled = {form.encode() for word in wide for form in (word, word.upper(), word.capitalize())}
    escapes = {b"%" + char.lower().encode() for char in hexdigits}
    return BytesAhoCorasick([*_SIGNS, *STEMS, *sorted(spelled | escapes)])


@cache
def _number_stems() -> BytesAhoCorasick:
    from ahocorasick_rs import BytesAhoCorasick  # noqa: PLC0415

    return BytesAhoCorasick(NUMBER_STEMS)
