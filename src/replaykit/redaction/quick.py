"""A quick look: most texts hold nothing that any rule begins with, and need no closer one.

All literals are looked for at once, by one automaton. What it lets pass is clean: a law that the tests hold it to.
"""

from __future__ import annotations

from functools import cache, lru_cache
from string import ascii_uppercase, digits, hexdigits
from typing import TYPE_CHECKING

from replaykit.redaction.encoded import begins_text
from replaykit.redaction.lazy import lazy
from replaykit.redaction.providers import HEADS
from replaykit.redaction.telling import NUMBER_STEMS, STEMS, WIDE_STEMS, tells
from replaykit.redaction.tokens import JOINTS, RUN, is_token_like
from replaykit.redaction.view import RUNS

if TYPE_CHECKING:
    from ahocorasick_rs import BytesAhoCorasick

_NAMES = tuple(stem for stem in STEMS if stem != b"bearer")
_SIGNS = (
    b"@ (at) [at] -----begin bearer basic curl iban \\u \\/ :: $1$ $5$ $6$ $2a$ $2b$ $2x$ $2y$ $argon2 $scrypt$".split()
)
_BETWEEN = " .-()/+"
_BETWEEN_DIGITS = f"{_BETWEEN}~".encode()
_LONGEST_NAME = 40
_BLANK, _BACKSLASH = b" \\"
_JOINED = frozenset(JOINTS) | {_BACKSLASH, *range(128, 256)}
"""What a token may go on after, or that is more than it seems."""
_GOES_ON = (b".", b"~")
_WORDS = bytes.maketrans(b"_-+/", b"    ")


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
_HARMLESS = lazy(
    rb"(?:(?:19|20)\d\d([-/.])[01]\d\1[0-3]\d|\d++\.\d++)(?![\d ./()\\\x80-\xff-])|(?<=/)(?:19|20)\d{6}-\d{6}(?=-[a-z])"
)
"""A date, a number with a fraction, or the name of a directory by its time."""
_COLONS = lazy(rb":[0-9a-fA-F]{1,4}:[0-9a-fA-F]{1,4}:[0-9a-fA-F]{1,4}:")


def is_plainly_clean(raw: bytes) -> bool:
    """True when nothing is there that any built-in rule begins with. False says nothing."""
    low = raw.lower()
    runs = raw.translate(RUNS)
    for index, at, _end in _signs().find_matches_as_indexes(low):
        if index >= len(_NAMES):
            return False
        start = runs.rfind(b" ", max(0, at - _LONGEST_NAME), at)
        end = runs.find(b" ", at, at + _LONGEST_NAME)
        if start < 0 or end < 0 or not _tells_nothing(raw[start:end]):
            return False
    return not (_has_numbers(raw, low) or _COLONS.search(raw) or _has_tokens(raw, runs))


@lru_cache(maxsize=4096)
def _tells_nothing(name: bytes) -> bool:
    """True for a name that tells nothing, with what comes before it: model APIs count `input_tokens` in every answer.

    A name after an escape, a blank, or what is beyond ASCII may be more than it seems.
    """
    return name[0] < 128 and name[0] not in (_BACKSLASH, _BLANK) and tells(name[1:].decode().strip("-_+/")) is None


def _has_numbers(raw: bytes, low: bytes) -> bool:
    shape = raw.translate(_SHAPE)
    if b"0" not in shape:
        return False
    if b"000" in shape and _number_stems().find_matches_as_indexes(low):
        return True
    if _may_have_iban(raw, shape) or (shape.count(b"0.") > 2 and _IP.search(shape)):
        return True
    if b"0000000" not in shape.translate(None, _BETWEEN_DIGITS):
        return False
    at = 0
    while found := _MANY.search(shape, at):
        harmless = _HARMLESS.match(raw, found.start())
        if harmless is None:
            return True
        at = harmless.end()
    return False


def _may_have_iban(raw: bytes, shape: bytes) -> bool:
    """True when two capitals and two digits begin a word; the rest of an IBAN may be letters for the most part."""
    at = shape.find(b"AA00")
    while at >= 0:
        if not raw[at - 1 : at].isalnum() or raw[at - 2 : at - 1] == b"\\":
            return True
        at = shape.find(b"AA00", at + 1)
    return False


def _has_tokens(raw: bytes, runs: bytes) -> bool:
    at = runs.find(RUN)
    while at >= 0:
        start = runs.rfind(b" ", max(0, at - 64), at) + 1 or at
        end = runs.find(b" ", at)
        end = len(runs) if end < 0 else end
        piece = raw[start:end]
        if is_token_like(piece) and (
            _goes_on_from(raw, runs, start) or raw[end : end + 1] in _GOES_ON or _may_be_token(piece)
        ):
            return True
        at = runs.find(RUN, end)
    return False


def _goes_on_from(raw: bytes, runs: bytes, start: int) -> bool:
    """True where the run may be a later part of a token, or be preceded by more than it seems."""
    if start < 2:
        return start == 0 or raw[0] in _JOINED
    before = raw[start - 1]
    return before in _JOINED and (before not in JOINTS or runs[start - 2] != _BLANK or raw[start - 2] in JOINTS)


def _may_be_token(run: bytes) -> bool:
    """False for a run that no provider's keys begin like, and that is no text in base64: the name of a model."""
    if not run.islower() and (b"/" in run or begins_text(run, 0)):
        return True
    if b"-us" in run[-5:]:
        return True
    at = 0
    for word in run.translate(_WORDS).split(b" "):
        literals = HEADS.get(word[:2])
        if literals is not None and run.startswith(literals, at):
            return True
        at += len(word) + 1
    return False


@cache
def _signs() -> BytesAhoCorasick:
    from ahocorasick_rs import BytesAhoCorasick  # noqa: PLC0415 (reading a store needs none of it)

    wide = {word for words in WIDE_STEMS.values() for word in words.split()}
    spelled = {form.encode() for word in wide for form in (word, word.upper(), word.capitalize())}
    escapes = {b"%" + char.lower().encode() for char in hexdigits}
    return BytesAhoCorasick([*_NAMES, *_SIGNS, *sorted(spelled | escapes)])


@cache
def _number_stems() -> BytesAhoCorasick:
    from ahocorasick_rs import BytesAhoCorasick  # noqa: PLC0415

    return BytesAhoCorasick(NUMBER_STEMS)
