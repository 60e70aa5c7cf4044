"""Numbers of people and their things: cards, accounts, social security, devices. Each has a check."""

from __future__ import annotations

import re
from collections.abc import Iterator

from replaykit.redaction.checksums import iban_length, is_card, is_imei, is_ssn
from replaykit.redaction.finding import Hit
from replaykit.redaction.forms import is_spare_phone
from replaykit.redaction.lazy_patterns import lazy
from replaykit.redaction.national_ids import named_id_hits, national_id_hits
from replaykit.redaction.phones import phone_hits
from replaykit.redaction.placeholders import FoundPlaceholder, is_placeholder, number_placeholders
from replaykit.redaction.text_view import View

# Seven digits or more, with up to two separators between them; no part of a word, of a float or of a longer number.
_CLUSTER = lazy(rb"0(?<![aA0]0)(?<!0\.0)(?!0*+\.0++(?![0 .\-()/]))(?:[ .\-()/]{0,2}0){6,}+")
_CARD = lazy(
    rb"(?<!\d)(?<!\d\.)(?:\d{4}([ .-])\d{4}\1\d{4}\1\d{1,7}|\d{4}([ -])\d{6}\2\d{4,5}|\d{12,19})(?![\dA-Za-z_])"
)
_SSN = lazy(rb"(?<!\d)(?<!\d[-.])(\d{3})([- ])(\d\d)\2(\d{4})(?![\dA-Za-z_])(?![-.]\d)")
_IMEI = lazy(rb"(?<!\d)(?:\d{2}([- ])\d{6}\1\d{6}\1\d|\d{6}([- ])\d{2}\2\d{6}\2\d|\d{15})(?![\dA-Za-z_])")
_DATE = lazy(rb"(?:19|20)\d\d([-/.])\d\d\1\d\d(?!\d)|[0-3]?\d([-/.])[0-3]?\d\2(?:19|20)?\d\d(?!\d|[-/.]\d)")
_NOT_DIGIT = lazy(rb"\D+")
_BEFORE = 48
_SHORTEST = 9
_CARD_WORD = lazy(rb"card|visa|master|amex|maestro|karte|carte|tarjeta|cart[ao]|\bcc\b|\bpan\b|credit|debit|kredit")
_SSN_WORD = lazy(rb"\bssn\b|social|security")


def number_hits(view: View, literals: frozenset[bytes]) -> Iterator[Hit]:
    """Cards, social security numbers, devices, accounts, phones and national ids."""
    yield from _ibans(view, literals)
    for hit in [*national_id_hits(view), *named_id_hits(view, literals)]:
        yield from _values(view, hit.start, hit.end, iter([hit]))
    for found in _CLUSTER.finditer(view.shape):
        start, end = found.span()
        if _DATE.match(view.flat, start) and end - start < 24:
            continue
        yield from _in_cluster(view, start, end)


def _in_cluster(view: View, start: int, end: int) -> Iterator[Hit]:
    found = _values(view, start, end, _checked(view, start, end)) if end - start >= _SHORTEST else []
    yield from found or _values(view, start, end, phone_hits(view, start, end))


def _values(view: View, start: int, end: int, hits: Iterator[Hit]) -> list[Hit]:
    """The hits without those that are placeholders."""
    found = list(hits)
    known = number_placeholders(view.flat, max(0, start - 2), end) if found else []
    return [hit for hit in found if not _is_placeholder(view, hit, known)]


def _is_placeholder(view: View, hit: Hit, known: list[FoundPlaceholder]) -> bool:
    """True for a placeholder, or a part of one. Digits alone that are one of a phone may yet be a card."""
    text = view.flat[hit.start : hit.end]
    if hit.kind == "phone" and is_spare_phone(_NOT_DIGIT.sub(b"", text).decode(), plus=b"+" in text[:2]):
        return True
    if is_placeholder(text.decode(), hit.kind):
        return True
    return any(
        hit.start < found.end and found.start < hit.end and (found.is_certain or hit.kind in ("phone", found.kind))
        for found in known
    )


def _checked(view: View, start: int, end: int) -> Iterator[Hit]:
    before = view.low[max(0, start - _BEFORE) : start]
    for found in _CARD.finditer(view.flat, start, end + 2):
        if not _goes_on(view.flat, found):
            digits = _NOT_DIGIT.sub(b"", found[0]).decode()
            named = is_card(digits, named=True) and not is_card(digits) and _CARD_WORD.search(before) is not None
            if is_card(digits, named=named) and not (len(digits) == 15 and b"imei" in before):
                yield Hit("card", found.start(), found.end(), 4)
    for found in _IMEI.finditer(view.flat, start, end + 2):
        grouped = (found[1] or found[2]) is not None
        if is_imei(_NOT_DIGIT.sub(b"", found[0]).decode(), named=grouped or b"imei" in before):
            yield Hit("imei", found.start(), found.end(), 5)
    for found in _SSN.finditer(view.flat, start, end + 2):
        if (found[2] == b"-" or _SSN_WORD.search(before)) and is_ssn(*(found[i].decode() for i in (1, 3, 4))):
            yield Hit("ssn", found.start(), found.end(), 4)


def _goes_on(flat: bytes, found: re.Match[bytes]) -> bool:
    """A group of four with more groups beside it, by the same dash, is no card."""
    dash = found[1] or found[2]
    if dash not in (b"-", b"."):
        return False
    start, end = found.span()
    return (flat[end : end + 1] == dash and flat[end + 1 : end + 2].isdigit()) or (
        flat[start - 1 : start] == dash and flat[max(0, start - 2) : start - 1].isdigit()
    )


def _ibans(view: View, literals: frozenset[bytes]) -> Iterator[Hit]:
    shape, at = view.shape, -1
    while (at := shape.find(b"AA00", at + 1)) >= 0:
        if at and shape[at - 1 : at] in (b"a", b"A", b"0") and view.flat[at - 1 : at] != b"_":
            continue
        end = _iban_end(view.flat, at)
        if end:
            yield Hit("iban", at, end, 3)
    if b"iban" in literals:
        for found in _LOWER_IBAN.finditer(view.low):
            end = _iban_end(view.flat, found.start(1))
            if end:
                yield Hit("iban", found.start(1), end, 3)


_LOWER_IBAN = lazy(rb"iban[^a-z0-9]{0,4}(?:[a-z]{1,6}[^a-z0-9]{1,4})?([a-z]{2}\d\d)")


def _iban_end(flat: bytes, start: int) -> int:
    """Where the IBAN that begins here ends; 0 when none does."""
    # Blanks and dashes between groups do not count: keep where each character stood.
    places = [at for at in range(start, min(start + 48, len(flat))) if flat[at] not in b" -."]
    text = bytes(flat[at] for at in places).decode()
    length = iban_length(text)
    if not length or (
        places[length - 1] + 1 < len(flat) and flat[places[length - 1] + 1 : places[length - 1] + 2].isalnum()
    ):
        return 0
    return places[length - 1] + 1
