"""Placeholders: texts that replace values, in the form of the value if possible (`forms`), else `<kind:8 hex digits>`.

Both carry the beginning of an HMAC of the value under the project's key: a value has the same placeholder everywhere,
and nobody can test guesses without the key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter

from msgspec import Struct

from replaykit.redaction.checksums import IBAN_LENGTHS
from replaykit.redaction.finding import in_order
from replaykit.redaction.forms import (
    CARD,
    DOMAIN,
    IMEI,
    JWT,
    JWT_TAIL,
    WITH_FORM,
    Slot,
    domain_of,
    formed,
    iban_slot,
    international,
    ip_slot,
    phone_slot,
    slot_of,
    ssn_slot,
    uuid_slot,
)
from replaykit.redaction.lazy_patterns import lazy
from replaykit.redaction.providers import LITERALS

_TAG = rb"<([a-z][a-z0-9-]{1,30}):([0-9a-f*]{8}|\d+/\d+|\*)>"
_QUOTED_TAG = rb"%3C([a-z][a-z0-9-]{1,30})(?:%3A|:)([0-9a-f*]{8})%3E"
_TAGS = ((b"<", lazy(_TAG)), (b"%3C", lazy(_QUOTED_TAG)))
_HOST = DOMAIN.encode()
_BEFORE_HOST = lazy(
    rb"(?<![\w-])(?:p-(?P<email>[0-9a-f]{8})(?:@|%40)(?:[0-9a-f]{8}\.)?|(?<![@.])(?P<domain>[0-9a-f]{8})\.)\Z"
)
_WIDEST = 26  # the most characters before the reserved domain of an address, including a border
_TOKEN = lazy(JWT.encode())
# Patterns begin with a literal, which is fast to find, and check the text before it in a lookbehind.
_UUID_SIGN = b"-0000-8000-8000-0"
_UUID = lazy(rb"(?<![\w-])[0-9a-fA-F]{8}-0000-8000-8000-00000000[0-9a-fA-F]{4}(?![\w-])")
_IBAN = lazy(rb"XX(?<![A-Za-z0-9]..)\d\d(?:[ .-]?[A-Za-z0-9]){11,30}")
_IPV6 = lazy(rb"2001:(?<![\w:.]2001:)0?[dD][bB]8:[0-9a-fA-F:]{3,40}(?![\w:])")
_IPV4 = lazy(rb"2(?<![\w.]2)(?:4\d|5[0-4])\.\d{1,3}\.\d{1,3}\.\d{1,3}(?!\w|\.\d)")
# For a text with `0` for all digits: a pattern with a leading literal takes a tenth of the time.
_NUMBER = lazy(rb"0(?=[0 .\-()/]{8})(?:[ .\-()/]{0,2}+0){8,18}(?!\w)")  # most numbers end at the look ahead
_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_NOT_DIGITS = bytes({*range(256)} - {*b"0123456789"})
_SEPARATORS = b" .-()/"
_NINE = b"0" * 9
_LIMITS = frozenset(b",]}")
_JSON_NUMBER = lazy(rb"\d+(?:\.\d+)?")

OF_DIGITS = frozenset({"card", "imei", "ip", "phone", "ssn"})
"""Kinds whose placeholders are digits. Only their range marks them, so next to another name they may be values."""
_COMPACT = frozenset({"card", "iban", "ssn", "imei"})
_APART = lazy(r"[^0-9A-Za-z+]|(?<!^)\+")


class FoundPlaceholder(Struct, frozen=True, order=True):
    """A placeholder in a text: its span, kind and slot."""

    start: int
    end: int
    kind: str
    slot: str
    is_certain: bool = True
    """False for digits in a reserved range: on their own, they may be something else."""
    is_old: bool = False
    """True for one without a form although its kind has one: from an older version."""


def placeholder(key: bytes, kind: str, value: str) -> str:
    """Return the placeholder for a value; notations of the same value share it."""
    domain = 0
    if kind == "email":
        domain = digest(key, "domain", domain_of(value) or "")
    number = digest(key, kind, value)
    return formed(kind, value, number, domain) or f"<{kind}:{number:08x}>"


def old_placeholder(key: bytes, kind: str, value: str) -> str:
    """Return the placeholder without a form, as older versions made it."""
    spelled = normal(kind, value)
    if kind == "phone":
        spelled = _compact(value)
    return f"<{kind}:{_mac(key, kind, spelled):08x}>"


def digest(key: bytes, kind: str, value: str) -> int:
    """Return the first four bytes of an HMAC of the value in normal form."""
    return _mac(key, kind, normal(kind, value))


def _mac(key: bytes, kind: str, text: str) -> int:
    from hashlib import sha256  # noqa: PLC0415 (slow to import, and most texts need no placeholder)
    from hmac import digest as mac  # noqa: PLC0415

    return int.from_bytes(mac(key, f"{kind}\0{text}".encode("utf-8", "surrogatepass"), sha256)[:4], "big")


def key_id(key: bytes) -> str:
    """Return an id of the key that reveals nothing about it."""
    return f"{digest(key, 'key', ''):08x}"


def normal(kind: str, value: str) -> str:
    """Return the value in normal form: without the case of an e-mail address, or the separators of a number."""
    if kind == "email":
        return value.lower()
    if kind == "phone":
        return _normal_phone(_compact(value))
    if kind in _COMPACT:
        return _compact(value)
    return value


def _compact(value: str) -> str:
    return _APART.sub("", value).upper()


def _normal_phone(compact: str) -> str:
    has_plus = compact.startswith("+")
    digits = compact[has_plus:]
    number = None
    if digits.isascii() and digits.isdigit():
        number = international(digits, plus=has_plus)
    if number is None:
        return compact
    return f"+{number}"


def is_placeholder(text: str, kind: str = "") -> bool:
    """Return whether the text is a placeholder and nothing else; one of this kind may have words next to it (`SSN 9…`).

    If only the range marks it, the kind must match: `000 1234567` is not a phone, but may be a password.
    """
    raw = text.encode("utf-8", "surrogatepass")
    all_found = placeholders_in(raw)
    if len(all_found) != 1:
        return False
    (found,) = all_found
    if found.kind == kind and kind in WITH_FORM:
        return not digits_in(raw[: found.start] + raw[found.end :])
    return found.start == 0 and found.end == len(raw) and found.kind not in OF_DIGITS


def placeholders_in(raw: bytes) -> list[FoundPlaceholder]:
    """Return all placeholders in a text, in order, including those of digits alone."""
    return in_order([*_marked(raw), *_numbers(raw)])


def may_be_redacted(texts: Iterable[bytes]) -> bool:
    """Return whether one of the texts has a placeholder, certain or not. They are joined first, which is faster."""
    raw = b"\n".join(texts)
    return next(_marked(raw), None) is not None or next(_numbers(raw), None) is not None


def holds_placeholder(raw: bytes) -> bool:
    """Return whether the text has a placeholder that cannot be anything else."""
    return any(found.is_certain for found in placeholders_in(raw))


def without_placeholders(raw: bytes) -> bytes:
    """Blank out placeholders; return the same object if there are none."""
    found = in_order([*_marked(raw), *_numbers(raw, certain_alone=True)])
    return blanked(raw, [(placeholder.start, placeholder.end) for placeholder in found if placeholder.is_certain])


def blanked(raw: bytes, stretches: list[tuple[int, int]]) -> bytes:
    """Replace each character of these spans by `<`; return the same object without spans."""
    if not stretches:
        return raw
    masked = bytearray(raw)
    for start, end in stretches:
        masked[start:end] = b"<" * (end - start)
    return bytes(masked)


def spans(raw: bytes) -> list[tuple[int, int]]:
    """Return the spans of placeholders that cannot be anything else, including truncated ones."""
    found = [(placeholder.start, placeholder.end) for placeholder in _marked(raw)]
    if b"@" in raw and b"p-" in raw:
        found += [match.span() for match in _CUT_ADDRESS.finditer(raw)]
    if b"J" in raw and b".7" in raw:
        found += [match.span() for match in _CUT_TOKEN.finditer(raw)]
    at = raw.find(_HOST)
    while at >= 0:
        before = _CUT_BEFORE.search(raw, max(0, at - 80), at)
        start, end = at, at + len(_HOST)
        if before:
            start = before.start()
        found.append((start, end))
        at = raw.find(_HOST, end)
    return found


def _beginnings(text: str) -> str:
    """Return a pattern for all prefixes of a text."""
    pattern = ""
    for char in reversed(text):
        pattern = f"(?:{re.escape(char)}{pattern})?"
    return pattern


_CUT_ADDRESS = lazy(rf"p-[0-9a-f]{{8}}@[0-9a-f]{{1,8}}(?:\.{_beginnings(DOMAIN)})?(?![\w-])".encode())
_CUT_BEFORE = lazy(rb"[\w.+-]*@(?:[0-9a-f]{8}\.)?\Z")
_CUT_TOKEN = lazy(rf"eyJ[\w-]{{8,60}}\.7{_beginnings(JWT_TAIL[1:])}[0-9a-fA]*(?![\w-])".encode())


def _marked(raw: bytes) -> Iterator[FoundPlaceholder]:
    """Yield placeholders with a mark or a checksum that no other text has."""
    # A single byte is found much faster, and most texts lack it.
    for sign, form in _TAGS:
        if sign[:1] in raw and sign in raw:
            for tag in form.finditer(raw):
                kind, slot = tag[1].decode(), tag[2].decode()
                start = _with_prefix(raw, tag.start(), kind)
                yield FoundPlaceholder(start, tag.end(), kind, slot, is_old=kind in WITH_FORM)
    if b".invalid" in raw or (b"V" in raw and b".INVALID" in raw):
        yield from _addresses(raw.lower())
    if b"D" in raw and b".REDACTED" in raw:
        for token in _TOKEN.finditer(raw):
            yield FoundPlaceholder(*token.span(), "jwt", token[1].decode())
    if _UUID_SIGN in raw:
        yield from _slots(raw, "secret", _UUID, uuid_slot)
    if b"X" in raw and b"XX" in raw:
        yield from _ibans(raw)
    if b"2001:" in raw:
        yield from _slots(raw, "ip", _IPV6, ip_slot)


def _addresses(low: bytes) -> Iterator[FoundPlaceholder]:
    """Yield addresses at the reserved domain, and domains of such addresses alone."""
    at = low.find(_HOST)
    while at >= 0:
        end = at + len(_HOST)
        found = _BEFORE_HOST.search(low, max(0, at - _WIDEST), at)
        if found and not low[end : end + 1].isalnum() and low[end : end + 1] not in (b"-", b"_"):
            kind = found.lastgroup or ""
            yield FoundPlaceholder(found.start(), end, kind, found[kind].decode())
        at = low.find(_HOST, end)


def _with_prefix(raw: bytes, start: int, kind: str) -> int:
    """Return where the placeholder begins, including the literal prefix of a provider's keys."""
    for literal in LITERALS.get(kind, ()):
        if raw.endswith(literal.encode(), 0, start):
            return start - len(literal)
    return start


def _slots(
    raw: bytes, kind: str, form: re.Pattern[bytes], read: Callable[[str], Slot | None]
) -> Iterator[FoundPlaceholder]:
    for found in form.finditer(raw):
        slot = read(found[0].decode())
        if slot is not None:
            yield FoundPlaceholder(*found.span(), kind, str(slot))


def _ibans(raw: bytes) -> Iterator[FoundPlaceholder]:
    for found in _IBAN.finditer(raw):
        places = [at for at in range(*found.span()) if raw[at] not in b" .-"]
        text = bytes([raw[at] for at in places]).decode()
        for length in _LENGTHS:
            if length <= len(text) and (slot := iban_slot(text[:length])) is not None:
                yield FoundPlaceholder(found.start(), places[length - 1] + 1, "iban", str(slot))
                break


_LENGTHS = sorted(set(IBAN_LENGTHS.values()), reverse=True)


def _numbers(raw: bytes, *, certain_alone: bool = False) -> Iterator[FoundPlaceholder]:
    """Yield placeholders of digits; `certain_alone` skips bare digits that cannot be certain."""
    if b"24" in raw or b"25" in raw:
        yield from _slots(raw, "ip", _IPV4, ip_slot)
    zeros = raw.translate(_ZEROS)
    if _NINE in zeros.translate(None, _SEPARATORS):
        for found in _NUMBER.finditer(zeros):
            start, end = found.span()
            before = raw[max(0, start - 1) : start]
            is_certain = not found[0].isdigit() or raw.startswith(_CERTAIN, start) or before in (b"+", b"(")
            if certain_alone and not is_certain:
                continue
            if not before.isalnum() and before not in (b".", b"_"):
                yield from number_placeholders(raw, max(0, start - 2), end)


_CERTAIN = (b"9999", b"00")  # prefixes of cards and devices: only these are certain without separators
_CARD = lazy(rb"(?<!\d)9999(?:([ .-])\d{4}\1\d{4}\1\d{1,7}|([ -])\d{6}\2\d{4,5}|\d{8,15})(?!\d)")
_IMEI = lazy(rb"(?<!\d)00(?:([- ])\d{6}\1\d{6}\1\d|\d{4}([- ])\d\d\2\d{6}\2\d|\d{13})(?!\d)")
_SSN = lazy(rb"(?<!\d)9\d\d([- ]?)\d\d\1\d{4}(?!\d)")
_DOTTED = lazy(rb"\d{1,3}(?:\.\d{1,3}){3}")  # an IP address, which has as many digits as some phones
_PHONE = lazy(rb"(?<!\d)(?:\+|\(\+?)?\d(?:[ .\-()/]{0,2}\d){8,14}(?!\d)")
_READERS: tuple[tuple[str, re.Pattern[bytes], Callable[[str], Slot | None]], ...] = (
    ("card", _CARD, CARD.slot),
    ("imei", _IMEI, IMEI.slot),
    ("ssn", _SSN, ssn_slot),
    ("ip", _IPV4, ip_slot),
)


def number_placeholders(raw: bytes, start: int, end: int) -> list[FoundPlaceholder]:
    """Return the placeholders in a run of digits and separators."""
    found: list[FoundPlaceholder] = []
    for kind, form, read in _READERS:
        for number in form.finditer(raw, start, end):
            text = number[0]
            slot = read(digits_in(text)) if kind != "ip" else read(text.decode())
            if slot is not None:
                found.append(FoundPlaceholder(*number.span(), kind, str(slot), kind != "ssn" or not text.isdigit()))
    if found:
        return found
    for number in _PHONE.finditer(raw, start, end):
        text = number[0]
        has_plus = b"+" in text[:2]
        digits = digits_in(text)
        slot = phone_slot(digits, plus=has_plus)
        if slot is not None and not _DOTTED.fullmatch(text):
            is_grouped = not text.lstrip(b"(").isdigit() and (len(digits) == 10 or digits.startswith(("000", "129")))
            found.append(FoundPlaceholder(*number.span(), "phone", str(slot), has_plus or is_grouped))
    return found


def digits_in(raw: bytes) -> str:
    return raw.translate(None, _NOT_DIGITS).decode()


def canonical(raw: bytes) -> bytes:
    """Return the text with every placeholder as `<kind:slot>`, to compare notations of the same values.

    Bare digits stay: in the reserved ranges they may be ids, each of them unique.
    """
    certain = [found for found in placeholders_in(raw) if found.is_certain]
    return _replaced(raw, certain, lambda found: f"<{found.kind}:{found.slot}>")


def blurred(raw: bytes) -> bytes:
    """Return the text with every placeholder as `<kind:*>`, to compare texts redacted with different keys."""
    return _replaced(raw, placeholders_in(raw), lambda found: f"<{found.kind}:*>")


def _replaced(raw: bytes, found: list[FoundPlaceholder], text_of: Callable[[FoundPlaceholder], str]) -> bytes:
    pieces, at = [], 0
    for placeholder in found:
        if not _is_bare(raw, placeholder):
            pieces += [raw[at : placeholder.start], text_of(placeholder).encode()]
            at = placeholder.end
    if not pieces:
        return raw
    return b"".join([*pieces, raw[at:]])


def _is_bare(raw: bytes, found: FoundPlaceholder) -> bool:
    """Return whether this is a JSON number outside quotes, which must stay one."""
    if not _JSON_NUMBER.fullmatch(raw, found.start, found.end):
        return False
    before = raw[max(0, found.start - 2) : found.start].rstrip()[-1:]
    after = raw[found.end : found.end + 1]
    return before in (b"", b":", b",", b"[") and (not after or after[0] in _LIMITS)


def agree(one: bytes, other: bytes) -> bool:
    """Return whether two texts are the same if placeholders with and without a form may match."""
    first, second = placeholders_in(one), placeholders_in(other)
    if len(first) != len(second) or blurred(one) != blurred(other):
        return False
    return all(map(_same_slot, map(_slot_text, first), map(_slot_text, second)))


_slot_text = attrgetter("slot")


def _same_slot(one: str, other: str) -> bool:
    if "/" in one:
        one, other = other, one
    if "/" in other and "/" not in one and "*" not in one:
        return str(slot_of(int(one, 16), int(other.partition("/")[2]))) == other
    return one == other
