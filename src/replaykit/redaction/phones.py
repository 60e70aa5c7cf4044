"""Phone numbers: international ones by their country code, national ones by a shape or a word beside them.

A bare run of digits is a phone only where the text says so: most are ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from replaykit.redaction.country_codes import COUNTRY_CODE
from replaykit.redaction.finding import Hit
from replaykit.redaction.lazy_patterns import lazy
from replaykit.redaction.text_view import View

_NATIONAL = lazy(
    rb"""(?<![\d])(?:
        (?:1[ .-])?\(?[2-9]\d\d\)?[ .-]{1,2}[2-9]\d\d[ .-]\d{4}         # North America
      | \(?0[1-9]\d{0,3}\)?(?:[ ./-]{1,2}\d{2,8}){1,5}                       # a trunk prefix, then groups
      | \(\d{2,5}\)[ -]?9?[ ]?\d{3,5}[ -]?\d{3,4}                       # an area in parentheses
      | [6-9]\d{4}[ -]\d{5}                                             # India
      | 1[3-9]\d[ -]\d{4}[ -]\d{4}                                      # China
      | \d\d[ ]9\d{4}-\d{4}                                             # Brazil
      | 1[ -]?8(?:00|88|77|66|55|44|33)[ -]\d{3}[ -]\d{4}
    )(?![\dA-Za-z_])(?![-.]\d)""",
    re.VERBOSE,
)
_ANY = lazy(rb"(?<!\d)\(?\d(?:[ .\-()/]{0,2}\d){6,14}(?![\dA-Za-z_])")
_WORDS = lazy(
    rb"phone|\btel\b|\btel[.:]|tel[ee?]fon|t.l.phone|t.l.fono|mobil|m.vil|\bcell|fax|"
    rb"whatsapp|\bsms\b|handy\b|portable|celular|"
    rb"cellulare|ligue|anruf|rufen|r.ckruf|appel|ll[a?]m[ae]|chiam|msisdn|hotline|\bgsm\b|\bph[.:]|\bmob\b|dzwo|puhelin|"
    rb"\bbelt? "
)
_WEAK = lazy(
    rb"\b(?:call(?:ed|ing|s)?|text|dial|ring|reach|contact)(?: (?:me|us|him|her|them|back))?(?: (?:at|on|under))?"
    rb":? ?\(?\+?$"
)
_WIDE_WORDS = lazy(
    "电话|手机|手機|電話|携帯|联系|聯絡|전화|휴대|연락|телефон|тел\\.?|звон|моб|मोबाइल|फोन|फ़ोन|هاتف|جوال|اتصل|טלפון|נייד|τηλ|κινητ|"
    "teléf|móvil|télé|☎|📞|📱|โทร|điện thoại|số"
)
_NUMBER_WORDS = lazy(
    rb"order|invoice|tracking|ticket|isbn|issn|serial|\bid\b|_id\b|\bids\b|account|\bref(?:\b|erence|no)|amount|price|total|zip|postal|"
    rb"version|build|port\b|size|bytes|count|epoch|time|date|case|claim|policy|parcel|sku|part|model|token|"
    rb"usd|eur|lat|lon|coord|rechnung|bestell|kunden|commande|pedido|issue|row|line|seed|hash|code"
)
BEFORE = 40
"""How far a word may be from the number that it is about."""


def phone_hits(view: View, start: int, end: int) -> Iterator[Hit]:
    """The phone numbers in a cluster of digits and separators."""
    begin = _plus(view.flat, start)
    if begin == start and _is_joined(view.flat, start):
        return
    if begin >= 0:
        stop = _international(view.flat, begin, start, end)
        if stop:
            yield Hit("phone", begin, stop, 6)
        if stop or view.flat[begin : begin + 1] == b"+":
            return
    if _is_joined(view.flat, start):
        return
    named = _is_named(view, start)
    open_paren = start - 1 if view.flat[start - 1 : start] == b"(" else start
    if named:
        for found in _ANY.finditer(view.flat, open_paren, end + 2):
            if not _is_dated(found[0]) and found[0].count(b".") != 1:
                yield Hit("phone", found.start(), found.end(), 6)
    elif named is None and not view.flat[start:end].isdigit():
        for found in _NATIONAL.finditer(view.flat, open_paren, end + 2):
            digits = sum(48 <= char <= 57 for char in found[0])
            if 9 <= digits <= 12 and not _is_dated(found[0]) and not _is_dump(view.flat, *found.span()):
                yield Hit("phone", found.start(), found.end(), 6)


def _is_joined(flat: bytes, start: int) -> bool:
    """`order-1234567`, `#1234567`, `a/1234567`: the tail of an id; the seconds of a time; or one byte of a dump."""
    before = flat[max(0, start - 4) : start]
    last = before[-1:]
    if last in (b"-", b"/"):
        return before[-2:-1].isalnum()
    if last == b":":
        return before[-2:-1].isdigit()
    return last in (b"#", b"_", b"$") or (last == b" " and _BYTE_BEFORE.search(before) is not None)


_BYTE_BEFORE = lazy(rb"(?:^|[^0-9A-Za-z])[0-9A-Fa-f]{2} \Z")
_BYTE_AFTER = lazy(rb" [0-9A-Fa-f]{2}(?![0-9A-Za-z])")


def _is_dump(flat: bytes, start: int, end: int) -> bool:
    """Pairs of digits among other pairs: bytes in hexadecimal."""
    return bool(_BYTE_AFTER.match(flat, end) or _BYTE_BEFORE.search(flat[max(0, start - 4) : start]))


def _plus(flat: bytes, start: int) -> int:
    """Where the international prefix begins: a plus sign before, or two zeros; -1 when there is none."""
    for width in (1, 2, 3):
        if flat[start - width : start - width + 1] == b"+" and start >= width:
            between = flat[start - width + 1 : start]
            before = flat[start - width - 1 : start - width] if start > width else b""
            return start - width if not between.strip(b" (") and not before.isalnum() else -1
    return start if flat[start : start + 2] == b"00" and flat[start + 2 : start + 3] in b"123456789" else -1


def _international(flat: bytes, begin: int, start: int, end: int) -> int:
    """Where the number ends, when it begins with a country code and has as many digits as numbers have; else 0."""
    zeros = flat[begin : begin + 1] != b"+"
    first = start + 2 * zeros
    if COUNTRY_CODE.match(flat, first) is None:
        return 0
    found = _ANY.match(flat, first) or _LONG.match(flat, first)
    if found is None or found.end() > end:
        return 0
    digits = sum(48 <= char <= 57 for char in found[0])
    separated = len(found[0]) > digits
    if zeros and not (separated and digits >= 10):
        return 0
    least_digits = 8 if separated else 9
    return found.end() if digits >= least_digits else 0


_LONG = lazy(rb"\d(?:[ .\-()/]{0,3}\d){7,14}")


def _is_named(view: View, start: int) -> bool | None:
    """True when a word for a phone is the last word about the number, False when another is, None without any."""
    first = max(0, start - BEFORE)
    if not view.text.isascii() and _last(_WIDE_WORDS, view.text[first:start].lower()) >= 0:
        return True
    return named_by(view.low[first:start].translate(None, b"0123456789"))


@lru_cache(maxsize=4096)
def named_by(before: bytes) -> bool | None:
    """The same by what comes before it. Cached: in data the same few keys stand before thousands of numbers."""
    phone = max(_last(_WORDS, before), _last(_WEAK, before))
    other = _last(_NUMBER_WORDS, before)
    return None if phone < 0 and other < 0 else phone > other


def _last(words: re.Pattern[bytes] | re.Pattern[str], text: bytes | str) -> int:
    last = -1
    for found in words.finditer(text):  # type: ignore[arg-type]
        last = found.start()
    return last


_DATED = lazy(rb"(?:19|20)\d\d[-/.][01]\d[-/.][0-3]\d|[0-3]?\d([-/.])[0-3]?\d\1(?:19|20)\d\d")


def _is_dated(text: bytes) -> bool:
    return _DATED.match(text) is not None
