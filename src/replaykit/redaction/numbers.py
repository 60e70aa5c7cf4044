"""Find numbers of people and things: cards, accounts, social security, devices and phones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from replaykit.redaction.checksums import COUNTRY_CODE, iban_length, is_card, is_imei, is_ssn
from replaykit.redaction.finding import Hit
from replaykit.redaction.forms import is_spare_phone
from replaykit.redaction.lazy_patterns import lazy
from replaykit.redaction.national_ids import named_id_hits, national_id_hits
from replaykit.redaction.placeholders import FoundPlaceholder, digits_in, is_placeholder, number_placeholders
from replaykit.redaction.text_view import View, places_of

# At least seven digits with up to two separators between them, outside words, floats and longer numbers.
_CLUSTER = lazy(rb"0(?<![aA0]0)(?<!0\.0)(?!0*+\.0++(?![0 .\-()/]))(?:[ .\-()/]{0,2}0){6,}+")
_CARD = lazy(
    rb"(?<!\d)(?<!\d\.)(?:\d{4}([ .-])\d{4}\1\d{4}\1\d{1,7}|\d{4}([ -])\d{6}\2\d{4,5}|\d{12,19})(?![\dA-Za-z_])"
)
_SSN = lazy(rb"(?<!\d)(?<!\d[-.])\d{3}([- ])\d\d\1\d{4}(?![\dA-Za-z_])(?![-.]\d)")
_IMEI = lazy(rb"(?<!\d)(?:\d{2}([- ])\d{6}\1\d{6}\1\d|\d{6}([- ])\d{2}\2\d{6}\2\d|\d{15})(?![\dA-Za-z_])")
_DATE = lazy(rb"(?:19|20)\d\d([-/.])\d\d\1\d\d(?!\d)|[0-3]?\d([-/.])[0-3]?\d\2(?:19|20)?\d\d(?!\d|[-/.]\d)")
_BEFORE = 48
_SHORTEST = 9
_CARD_WORD = lazy(rb"card|visa|master|amex|maestro|karte|carte|tarjeta|cart[ao]|\bcc\b|\bpan\b|credit|debit|kredit")
_SSN_WORD = lazy(rb"\bssn\b|social|security")


def number_hits(view: View, literals: frozenset[bytes]) -> Iterator[Hit]:
    """Yield cards, social security numbers, devices, accounts, phones and national ids."""
    yield from _ibans(view, literals)
    for hit in (*national_id_hits(view), *named_id_hits(view, literals)):
        yield from _values(view, hit.start, hit.end, [hit])
    for found in _CLUSTER.finditer(view.shape):
        start, end = found.span()
        if _DATE.match(view.flat, start) and end - start < 24:
            continue
        values: list[Hit] = []
        if end - start >= _SHORTEST:
            values = _values(view, start, end, _checked(view, start, end))
        yield from values or _values(view, start, end, _phone_hits(view, start, end))


def _values(view: View, start: int, end: int, hits: Iterable[Hit]) -> list[Hit]:
    """Return the hits that are not placeholders."""
    found = list(hits)
    if not found:
        return found
    known = number_placeholders(view.flat, max(0, start - 2), end)
    return [hit for hit in found if not _is_placeholder(view, hit, known)]


def _is_placeholder(view: View, hit: Hit, known: list[FoundPlaceholder]) -> bool:
    """Return whether a hit is a placeholder or part of one. Bare digits of a phone placeholder may still be a card."""
    text = view.flat[hit.start : hit.end]
    if hit.kind == "phone" and is_spare_phone(digits_in(text), plus=b"+" in text[:2]):
        return True
    if is_placeholder(text.decode(), hit.kind):
        return True
    for found in known:
        is_meant = found.is_certain or hit.kind in ("phone", found.kind)
        if is_meant and hit.start < found.end and found.start < hit.end:
            return True
    return False


def _checked(view: View, start: int, end: int) -> Iterator[Hit]:
    before = view.low[max(0, start - _BEFORE) : start]
    for found in _CARD.finditer(view.flat, start, end + 2):
        if not _goes_on(view.flat, found):
            digits = digits_in(found[0])
            is_known = is_card(digits) or (is_card(digits, named=True) and _CARD_WORD.search(before))
            if is_known and not (len(digits) == 15 and b"imei" in before):
                yield Hit("card", *found.span(), 4)
    for found in _IMEI.finditer(view.flat, start, end + 2):
        is_named = not found[0].isdigit() or b"imei" in before
        if is_imei(digits_in(found[0]), named=is_named):
            yield Hit("imei", *found.span(), 5)
    for found in _SSN.finditer(view.flat, start, end + 2):
        if (found[1] == b"-" or _SSN_WORD.search(before)) and is_ssn(digits_in(found[0])):
            yield Hit("ssn", *found.span(), 4)


def _goes_on(flat: bytes, found: re.Match[bytes]) -> bool:
    """Return whether more groups with the same dash follow or precede, so that this is no card."""
    dash = found[1] or found[2]
    if dash not in (b"-", b"."):
        return False
    start, end = found.span()
    if flat[end : end + 1] == dash and flat[end + 1 : end + 2].isdigit():
        return True
    return flat[start - 1 : start] == dash and flat[max(0, start - 2) : start - 1].isdigit()


def _ibans(view: View, literals: frozenset[bytes]) -> Iterator[Hit]:
    shape = view.shape
    starts: list[int] = []
    for at in places_of(shape, b"AA00"):
        if not at or shape[at - 1 : at] not in (b"a", b"A", b"0") or view.flat[at - 1 : at] == b"_":
            starts.append(at)
    if b"iban" in literals:
        for found in _LOWER_IBAN.finditer(view.low):
            starts.append(found.start(1))
    for start in starts:
        end = _iban_end(view.flat, start)
        if end:
            yield Hit("iban", start, end, 3)


_LOWER_IBAN = lazy(rb"iban[^a-z0-9]{0,4}(?:[a-z]{1,6}[^a-z0-9]{1,4})?([a-z]{2}\d\d)")


def _iban_end(flat: bytes, start: int) -> int:
    """Return where the IBAN that starts here ends; 0 if there is none."""
    # Ignore blanks and dashes between groups, but remember the position of each character.
    places = [at for at in range(start, min(start + 48, len(flat))) if flat[at] not in b" -."]
    length = iban_length(bytes([flat[at] for at in places]).decode())
    if not length:
        return 0
    end = places[length - 1] + 1
    if flat[end : end + 1].isalnum():
        return 0
    return end


# Phone numbers: international ones by their country code, national ones by shape or a word next to them. Bare digits
# count only if the text says so, since most are ids.

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
"""How far a word may be from its number."""


def _phone_hits(view: View, start: int, end: int) -> Iterator[Hit]:
    """Yield the phone numbers in a cluster of digits and separators."""
    flat = view.flat
    begin = _plus(flat, start)
    is_joined = _is_joined(flat, start)
    if begin >= 0 and not (begin == start and is_joined):
        stop = _international(flat, begin, start, end)
        if stop:
            yield Hit("phone", begin, stop, 6)
        if stop or flat[begin : begin + 1] == b"+":
            return
    if is_joined:
        return
    is_named = _is_named(view, start)
    first = start - (flat[start - 1 : start] == b"(")
    if is_named:
        for found in _ANY.finditer(flat, first, end + 2):
            if not _DATED.match(found[0]) and found[0].count(b".") != 1:
                yield Hit("phone", *found.span(), 6)
    elif is_named is None and not flat[start:end].isdigit():
        for found in _NATIONAL.finditer(flat, first, end + 2):
            digits = digits_in(found[0])
            if 9 <= len(digits) <= 12 and not _DATED.match(found[0]) and not _is_dump(flat, *found.span()):
                yield Hit("phone", *found.span(), 6)


def _is_joined(flat: bytes, start: int) -> bool:
    """Return whether this is the tail of an id (`order-1234567`, `#1234567`), the seconds of a time, or part of a
    dump."""
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
    """Return whether the digits are among other pairs of digits: a hex dump."""
    return bool(_BYTE_AFTER.match(flat, end) or _BYTE_BEFORE.search(flat[max(0, start - 4) : start]))


def _plus(flat: bytes, start: int) -> int:
    """Return where the international prefix (a plus sign or two zeros) begins; -1 if there is none."""
    plus = flat.rfind(b"+", max(0, start - 3), start)
    if plus >= 0:
        between = flat[plus + 1 : start]
        before = flat[max(0, plus - 1) : plus]
        if between.strip(b" (") or before.isalnum():
            return -1
        return plus
    if flat[start : start + 2] == b"00" and flat[start + 2 : start + 3] in b"123456789":
        return start
    return -1


def _international(flat: bytes, begin: int, start: int, end: int) -> int:
    """Return where a number with a country code ends; 0 if the count of digits is wrong."""
    has_zeros = flat[begin : begin + 1] != b"+"
    first = start + 2 * has_zeros
    if COUNTRY_CODE.match(flat, first) is None:
        return 0
    found = _ANY.match(flat, first) or _LONG.match(flat, first)
    if found is None or found.end() > end:
        return 0
    count = len(digits_in(found[0]))
    is_separated = len(found[0]) > count
    if has_zeros and not (is_separated and count >= 10):
        return 0
    if count < 9 - is_separated:
        return 0
    return found.end()


_LONG = lazy(rb"\d(?:[ .\-()/]{0,3}\d){7,14}")


def _is_named(view: View, start: int) -> bool | None:
    """Return True if the last word about the number means a phone, False if it means something else, else None."""
    first = max(0, start - BEFORE)
    if not view.text.isascii() and _last(_WIDE_WORDS, view.text[first:start].lower()) >= 0:
        return True
    return named_by(view.low[first:start].translate(None, b"0123456789"))


@lru_cache(maxsize=4096)
def named_by(before: bytes) -> bool | None:
    """Return the same, from the text before the number.

    Cached, because data repeats the same few keys before thousands of numbers.
    """
    phone = max(_last(_WORDS, before), _last(_WEAK, before))
    other = _last(_NUMBER_WORDS, before)
    if max(phone, other) < 0:
        return None
    return phone > other


def _last(words: re.Pattern[bytes] | re.Pattern[str], text: bytes | str) -> int:
    last = -1
    for found in words.finditer(text):  # type: ignore[arg-type]
        last = found.start()
    return last


_DATED = lazy(rb"(?:19|20)\d\d[-/.][01]\d[-/.][0-3]\d|[0-3]?\d([-/.])[0-3]?\d\1(?:19|20)\d\d")
