"""A quick check: most texts have nothing that any rule starts with, and need no full search.

One automaton searches all literals at once. Whatever passes is clean, which the tests verify.
"""

from __future__ import annotations

from functools import cache, lru_cache
from operator import itemgetter
from string import ascii_uppercase, digits, hexdigits
from typing import TYPE_CHECKING

from replaykit.redaction.checksums import IBAN_LENGTHS
from replaykit.redaction.encoded import MAY_BEGIN_TEXT, begins_text
from replaykit.redaction.lazy_patterns import lazy, lazy_automaton
from replaykit.redaction.name_hints import NUMBER_STEMS, STEMS, WIDE_STEMS, hint_of_name, several_words
from replaykit.redaction.national_ids import WORDS as ID_WORDS
from replaykit.redaction.national_ids import stands_alone
from replaykit.redaction.phrases import PHRASE_NAMES, PROGRAMS, SEED_NAMES, VENDOR_WORDS
from replaykit.redaction.providers import BOUND
from replaykit.redaction.text_view import RUNS, class_table, places_of
from replaykit.redaction.tokens import HEX_CHAR, HEX_HEADS, HEX_TEXT, JOINTS, RUN, before_joints, is_token_like

if TYPE_CHECKING:
    import re

_NAMES = (*(stem for stem in STEMS if stem != b"bearer"), *NUMBER_STEMS, b"iban")
_SIGNS = (
    b"@ (at) [at] -----begin bearer basic curl sig= signature= security-token= webhook hooks.slack \\u \\/ :: "
    b"$1$ $5$ $6$ $2a$ $2b$ $2x$ $2y$ $argon2 $scrypt$ insert".split()  # columns may have telling names
)
_COUNT_NAMES = _AT = len(_NAMES)
_IBAN, _INSERT = len(_NAMES) - 1, len(_NAMES) + len(_SIGNS) - 1
_PHRASES = tuple(name for name in PHRASE_NAMES if name not in STEMS)
_ID_WORDS = tuple(word for word in ID_WORDS if word not in _NAMES)
# Words that give meaning to text next to them (see `literals`).
_COMPANY = (*_ID_WORDS, *VENDOR_WORDS, *SEED_NAMES, *PROGRAMS)
_FIRST_COMPANY = len(_NAMES) + len(_SIGNS) + len(_PHRASES)
_END_COMPANY = _FIRST_COMPANY + len(_COMPANY)
_OF_IDS = frozenset(range(_FIRST_COMPANY, _FIRST_COMPANY + len(_ID_WORDS))) | {
    _NAMES.index(b"ssn"), _NAMES.index(b"social"), _NAMES.index(b"national"),
}  # fmt: skip
_INDEX = itemgetter(0)
_BETWEEN = " .-()/+"
_BETWEEN_DIGITS = f"{_BETWEEN}~".encode()
_LONGEST_NAME = 40
# As numbers: searching bytes for bytes first raises an error inside Python, which takes as long as a short text.
_BLANK, _BACKSLASH, _ZERO, _DOT, _COLON = b" \\0.:"
# Characters that may precede a later part of a token, or that may be more than they seem.
_JOINED = frozenset(JOINTS) | {_BACKSLASH, *range(128, 256)}
_GOES_ON = (b".", b"~")
_WORDS = bytes.maketrans(b"_-+/.:~$", b" " * 8)


# Character classes, with `~` for all beyond ASCII. They let patterns begin with a literal, which is fast to find.
_SHAPE = class_table({"0": digits, "A": ascii_uppercase} | {char: char for char in _BETWEEN}, "x")[:128] + b"~" * 128
# Seven digits. Most numbers are shorter and fail at the lookahead; the whole pattern takes three times as long.
_MANY = lazy(rb"0(?=[0 .\-()/+~]{6})(?:[ .\-()/+~]{0,6}+0){6}")
_FISCAL_SIGN = b"AAAAAA00A00A000A"
_DNI_SIGN, _DNI = b"A0000000", lazy(rb"A0000000[ .\-()/+~]{0,6}A")
# An IP address, except for common local ones such as `127.0.0.1`.
_IP = lazy(rb"\.(?<=\d\.)(?<![^\d.]0\.)(?<![^\d.]10\.)(?<![^\d.]127\.)(?!(?<=[^\d.]192\.)168\.)\d{1,3}\.\d{1,3}\.\d")
# Digits in a word (as in most ids), a date, a decimal number, or a directory named by time.
_HARMLESS = lazy(
    rb"(?<=[A-Za-z_])(?<!\\.)\d++"
    rb"|(?:(?:19|20)\d\d([-/.])[01]\d\1[0-3]\d|\d++\.\d++)(?![\d ./()+\x80-\xff-]|\\(?![nrt\"]))"
    rb"|(?<=/)(?:19|20)\d{6}-\d{6}(?=-[a-z])"
)
_BARE = lazy(rb'\d{7,11}(?![\w .\-()/+\x80-\xff]|\\(?![nrt\"]))|(?<="run":")\d{8}-\d{6}(?=-[0-9a-f]{10}")')
"""An id in digits, or the id of a recorded run as the origin of a replay."""
# A quoted hexadecimal id, such as a span's, or a UUID. Cards, phones and the like begin after none of its letters and
# dashes, and end before none of its letters, so its first and last group need one. One id in 25 and one UUID in six
# would be searched in full, which takes longer than the quick look at all of them.
_HEX_ID = lazy(
    rb'"(?:run-+)?(?=\d*+[a-f])(?:[0-9a-f]{16,64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-(?=\d*+[a-f])[0-9a-f]{12})(?=\\?")'
)
_LONGEST_HEX_ID = 72  # with what precedes it
_TEN = digits.encode()
_IBAN_NEAR = lazy(rb"iban[^0-9]{0,20}[0-9]")
_WORDS_OF_KEYS = b"|".join(literal for literal in BOUND if literal.isalnum())
# A quote before an id: a word that is neither a provider's key nor base64 of text, or a UUID.
_ID = lazy(
    rb'"(?=[A-Za-z0-9-]{20})(?=[A-Za-z0-9]{20,}+"|[0-9a-f-]{20,36}+")'  # the first lookahead rejects most quotes
    rb"(?!fc-|%b|%b|H4sI|eJ[w-z]|eN[o-r]|eAE|AC[0-9a-f]{32}|%b{10})"
    % (_WORDS_OF_KEYS, MAY_BEGIN_TEXT.encode(), HEX_CHAR)
)
_SHORT, _BYTES_A_RUN = 3000, 200  # for longer texts or fewer ids, checking one by one is faster
_COLONS = lazy(rb":[0-9a-fA-F]{1,4}:[0-9a-fA-F]{1,4}:[0-9a-fA-F]{1,4}:")


def passes_quick_look(raw: bytes) -> bool:
    """Return True if no built-in rule can start in the text, apart from placeholders. False proves nothing."""
    if is_plainly_clean(raw):
        return True
    from replaykit.redaction.placeholders import without_placeholders  # noqa: PLC0415 (most texts have none)

    masked = without_placeholders(raw)
    return masked is not raw and is_plainly_clean(masked)


def is_plainly_clean(raw: bytes) -> bool:
    """Return True if no built-in rule can start in the text. False proves nothing."""
    low = raw.lower()
    runs = raw.translate(RUNS)
    signs = _AUTOMATON.find_matches_as_indexes(low)
    near_ids = False
    if signs:
        if not _all_tell_nothing(signs, raw, low, runs):
            return False
        near_ids = not _OF_IDS.isdisjoint(map(_INDEX, signs)) and _name_ids(signs, raw, low)
    shape = raw.translate(_SHAPE)
    if _ZERO in shape and _has_numbers(raw, low, shape, near_ids):
        return False
    if _COLON in raw and _COLONS.search(raw):
        return False
    return runs.find(RUN) < 0 or not _has_tokens(raw, runs)


def _all_tell_nothing(signs: list[tuple[int, int, int]], raw: bytes, low: bytes, runs: bytes) -> bool:
    """Return whether these are only stems in names, and none of the names is telling."""
    harmless = _harmless_members()
    for index, at, end in signs:
        if index >= _COUNT_NAMES:
            if _is_sign(index, raw, low, runs, at):
                return False
            continue
        if raw[at - 1 : end + 1] in harmless:
            continue
        start = runs.rfind(b" ", max(0, at - _LONGEST_NAME), at)
        end = runs.find(b" ", at, at + _LONGEST_NAME)
        if start < 0 or end < 0 or raw[end] > 127 or not _tells_nothing(raw[start:end]):
            return False
        if raw[start] == _BLANK and not _words_tell_nothing(several_words(raw, start + 1, end)):
            return False
        if index == _IBAN and _IBAN_NEAR.match(low, at):
            return False
    return True


def _is_sign(index: int, raw: bytes, low: bytes, runs: bytes, at: int) -> bool:
    """Return whether a word other than a stem may start a finding, as most do anywhere."""
    if index == _INSERT:
        return b"values" in low
    if index == _AT:
        return raw[at - 1 : at] not in _BLANKS and raw[at - 2 : at] != b"\\n"  # decorators are not addresses
    if _FIRST_COMPANY <= index < _END_COMPANY:
        return _is_in_company(index - _FIRST_COMPANY, raw, low, runs, at)
    return True


def _name_ids(signs: list[tuple[int, int, int]], raw: bytes, low: bytes) -> bool:
    """Return whether a number follows a word that may name it."""
    for index, at, end in signs:
        if index in _OF_IDS and stands_alone(low, at, end):
            near = raw[end : end + _NEAR_IDS]
            if near.isascii():
                near = near[:_NEAR_ASCII]
            if b"000000" in near.translate(_SHAPE).translate(None, _BETWEEN_DIGITS):
                return True
    return False


# How far a number may be from its word, in bytes: characters beyond ASCII have several.
_NEAR_IDS, _NEAR_ASCII = 300, 90


def _is_in_company(number: int, raw: bytes, low: bytes, runs: bytes, at: int) -> bool:
    """Return whether a word and other text together may be a finding. Numbers are checked later."""
    word = _COMPANY[number]
    if word in ID_WORDS:
        return False
    if word in VENDOR_WORDS:
        return RUN in runs
    if word in PROGRAMS:
        return b" -" in low
    return not raw[at - 1 : at].isalnum() and not raw[at + len(word) : at + len(word) + 1].isalnum()


@cache
def _harmless_members() -> frozenset[bytes]:
    """Return quoted stems that are not telling, such as the `"key"` of a row."""
    harmless = set()
    for stem in _NAMES[:_IBAN]:
        if hint_of_name(stem.decode()) is None:
            harmless.add(b'"%b"' % stem)
    return frozenset(harmless)


@lru_cache(maxsize=4096)
def _tells_nothing(name: bytes) -> bool:
    """Return whether a name and the character before it tell nothing: model APIs count `input_tokens` in each answer.

    After an escape or a character beyond ASCII, a name may be more than it seems.
    """
    if name[0] > 127 or name[0] == _BACKSLASH or b"+" in name:
        return False
    return hint_of_name(name[1:].decode().strip("-_+/")) is None


@lru_cache(maxsize=4096)
def _words_tell_nothing(words: bytes) -> bool:
    """Return the same for a name of several words."""
    if not words.isascii() or b"\\" in words or b"<" in words:
        return False
    name = words.replace(b"'", b"").decode()
    return not name[:1].isalpha() or hint_of_name(name.strip("-_+/")) is None


_BLANKS = (b" ", b"\n", b"\t")


def _has_numbers(raw: bytes, low: bytes, shape: bytes, near_ids: bool) -> bool:
    has_letters = shape.find(b"AA00") >= 0
    if (has_letters and _may_have_iban(raw, shape)) or (_DOT in raw and _IP.search(raw)):
        return True
    if near_ids:
        joined = shape.translate(None, _BETWEEN_DIGITS)
        if b"0000000" in joined or b"AA000000A" in joined:
            return True
    if len(shape) < _FEW_BYTES and shape.count(b"0") < _FEWEST_DIGITS:
        return False  # for short texts, the rest would take a third of the time
    if has_letters and shape.find(_FISCAL_SIGN) >= 0:
        return True
    search, is_harmless = _MANY.search, _HARMLESS.match
    match = search(shape)
    if match and shape.find(_DNI_SIGN) >= 0 and _DNI.search(shape):  # which has so many digits
        return True
    while match:
        start = match.start()
        harmless = is_harmless(raw, start) or _id_at(raw, low, start) or _hex_id_around(raw, start)
        if harmless is None:
            return True
        match = search(shape, harmless.end())
    return False


_FEW_BYTES, _FEWEST_DIGITS = 200, 7


def _id_at(raw: bytes, low: bytes, start: int) -> re.Match[bytes] | None:
    """Match the number here if it is too short for a card, and nothing says that it is a phone."""
    match = _BARE.match(raw, start)
    if match is None:
        return None
    from replaykit.redaction.numbers import BEFORE, named_by  # noqa: PLC0415 (few texts have such numbers)

    before = low[max(0, start - BEFORE) : start]
    readings: tuple[bytes, ...] = (before,)
    if b"\\" in before:
        readings = _readings(low[max(0, start - 2 * BEFORE) : start], BEFORE)
    for reading in readings:
        if b"+" in reading[-3:] or not reading.isascii() or named_by(reading.translate(None, _TEN)):
            return None
    if not readings:
        return None
    return match


def _hex_id_around(raw: bytes, start: int) -> re.Match[bytes] | None:
    """Match the hexadecimal id that this number is a part of."""
    quote = raw.rfind(b'"', max(0, start - _LONGEST_HEX_ID), start)
    if quote < 0:
        return None
    return _HEX_ID.match(raw, quote)


def _readings(before: bytes, length: int) -> tuple[bytes, ...]:
    """Return the text before a number in a JSON string, as JSON and decoded; empty if unclear."""
    as_text = before.replace(b'\\"', b'"')
    as_json = before
    for escape, char in ((b"\\n", b"\n"), (b"\\r", b"\r"), (b"\\t", b"\t")):
        as_text = as_text.replace(escape, char)
        as_json = as_json.replace(escape, b"\v ")
    if b"\\" in as_text:
        return ()
    return as_json[-length:], as_text[-length:]


def _may_have_iban(raw: bytes, shape: bytes) -> bool:
    """Return whether a word begins with a country and two digits; most of an IBAN may be letters."""
    for at in places_of(shape, b"AA00"):
        is_begun = not raw[at - 1 : at].isalnum() or raw[at - 2 : at - 1] == b"\\"
        if is_begun and raw[at : at + 2].decode() in IBAN_LENGTHS:
            return True
    return False


def _has_tokens(raw: bytes, runs: bytes) -> bool:
    start = runs.find(RUN)
    if start < 0 or (len(raw) < _SHORT and _are_all_ids(raw, runs)):
        return False
    while start >= 0:
        end = runs.find(b" ", start)
        if end < 0:
            end = len(runs)
        if not _ID.match(raw, start - 1) and _is_suspicious(raw, runs, start, end):
            return True
        start = runs.find(RUN, end)
    return False


def _are_all_ids(raw: bytes, runs: bytes) -> bool:
    count = runs.count(RUN)  # long runs count several times, so this is an upper bound
    return len(raw) < count * _BYTES_A_RUN and len(_ID.findall(raw)) == count


def _is_suspicious(raw: bytes, runs: bytes, start: int, end: int) -> bool:
    """Return whether a run may be a token, or a part of one."""
    piece = raw[start:end]
    if not is_token_like(piece):
        return False
    if _may_be_token(piece):
        return True
    is_part = _goes_on_from(raw, runs, start) or raw[end : end + 1] in _GOES_ON
    return is_part and _may_be_of_parts(raw, runs, start, end)


def _may_be_of_parts(raw: bytes, runs: bytes, start: int, end: int) -> bool:
    """Return False if no token with a joint can be here: `python3.11/site-packages`, `self.first_of_many_names(`."""
    if start < 2:
        return True
    first = before_joints(raw, runs, start)
    around = raw[max(0, first - _LONGEST_PART) : end + _LONGEST_LITERAL]
    if not around.isascii() or raw[first - 1 : first] == b"\\":
        return True  # it may be more than it seems
    return _has_head(raw[first:end]) or _LOOSE.search(raw, first, end + _LONGEST_LITERAL) is not None


# Text in every token whose literal is not at its start (`providers.LOOSE`).
_LOOSE = lazy(rb"Q~|-us|:AA|\.atlasv1\.|\.(?<=[\w-]{24}\.)[\w-]{6}\.[\w-]")
_LONGEST_PART, _LONGEST_LITERAL = 26, 12


def _goes_on_from(raw: bytes, runs: bytes, start: int) -> bool:
    """Return whether the run may continue a token, or follows a character that may be more than it seems."""
    if start < 2:
        return start == 0 or raw[0] in _JOINED
    before = raw[start - 1]
    return before in _JOINED and (before not in JOINTS or runs[start - 2] != _BLANK or raw[start - 2] in JOINTS)


def _may_be_token(run: bytes) -> bool:
    """Return False for a run like the name of a model: no provider's prefix, and no base64 of text."""
    if run[0] in HEX_HEADS and HEX_TEXT.match(run):
        return True
    if run.isalnum():  # the most frequent case
        return run.startswith(_HEADS.get(run[:2], ())) or (not run.islower() and begins_text(run, 0))
    if not run.islower() and (b"/" in run or begins_text(run, 0)):
        return True
    below = run.rfind(b"/") + 1
    if below and HEX_TEXT.match(run, below):
        return True
    if b"-us" in run[-5:] or (len(run) == _MAILGUN_LENGTH and run[32:33] == b"-" == run[41:42]):
        return True
    return _has_head(run)


def _has_head(run: bytes) -> bool:
    """Return whether one of its words has a provider's prefix."""
    at = 0
    for word in run.translate(_WORDS).split(b" "):
        literals = _HEADS.get(word[:2])
        if literals is not None and run.startswith(literals, at):
            return True
        at += len(word) + 1
    return False


_MAILGUN_LENGTH = 50
_PACKED_HEADS = b"H4sI eJw eJx eJy eJz eNo eNp eNq eNr eAE".split()
# Prefixes of tokens by their first two characters: compiling a pattern would take too long.
_HEADS: dict[bytes, tuple[bytes, ...]] = {}
for _head in (*BOUND, *_PACKED_HEADS, b"AC"):  # also compressed text, and the first half of Twilio's login
    _HEADS[_head[:2]] = (*_HEADS.get(_head[:2], ()), _head)


def _wide_words() -> list[bytes]:
    """Return names beyond ASCII in their usual cases, and the starts of escapes."""
    words = {f"%{char}" for char in hexdigits.lower()}
    for stem in " ".join(WIDE_STEMS.values()).split():
        words |= {stem, stem.upper(), stem.capitalize()}
    return sorted(map(str.encode, words))


_AUTOMATON = lazy_automaton([*_NAMES, *_SIGNS, *_PHRASES, *_COMPANY, *_wide_words()])
