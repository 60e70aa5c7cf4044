"""Placeholders: what stands where a value was. It has the form of the value where that can be (`forms`), and is
`<kind:8 hex digits>` where it cannot.

Both carry the beginning of an HMAC of the value under the project's key: the same value is the same placeholder
wherever it stands, and nobody without the key can try values out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from replaykit.redaction.checksums import IBAN_LENGTHS
from replaykit.redaction.forms import (
    DOMAIN,
    JWT,
    JWT_TAIL,
    WITH_FORM,
    Slot,
    card_slot,
    domain_of,
    formed,
    iban_slot,
    imei_slot,
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
_WIDEST = 26
"""How much of an address stands before its reserved domain, with a character before it."""
_TOKEN = lazy(JWT.encode())
# Each begins with a literal, by which it is found at once; what may not stand before that is asked for behind it.
_UUID_SIGN = b"-0000-8000-8000-0"
_UUID = lazy(rb"(?<![\w-])[0-9a-fA-F]{8}-0000-8000-8000-00000000[0-9a-fA-F]{4}(?![\w-])")
_IBAN = lazy(rb"XX(?<![A-Za-z0-9]..)\d\d(?:[ .-]?[A-Za-z0-9]){11,30}")
_IPV6 = lazy(rb"2001:(?<![\w:.]2001:)0?[dD][bB]8:[0-9a-fA-F:]{3,40}(?![\w:])")
_IPV4 = lazy(rb"2(?<![\w.]2)(?:4\d|5[0-4])\.\d{1,3}\.\d{1,3}\.\d{1,3}(?!\w|\.\d)")
_NUMBER = lazy(rb"0(?=[0 .\-()/]{8})(?:[ .\-()/]{0,2}+0){8,18}(?!\w)")  # most numbers end at the look ahead
"""Of a text with `0` for all digits: a pattern that begins with a literal is found in a tenth of the time."""
_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_SEPARATORS = b" .-()/"
_NINE = b"0" * 9
_LIMITS = frozenset(b",]}")
_JSON_NUMBER = lazy(rb"\d+(?:\.\d+)?")

OF_DIGITS = frozenset({"card", "imei", "ip", "phone", "ssn"})
"""Kinds whose placeholders are digits. They are ones by their range, and beside another name may be something else."""
_LOWER = frozenset({"email"})
_COMPACT = frozenset({"card", "iban", "ssn", "imei"})
_APART = lazy(r"[^0-9A-Za-z+]|(?<!^)\+")


class FoundPlaceholder(Struct, frozen=True, order=True):
    """A placeholder in a text: where it is, of what kind, and which one."""

    start: int
    end: int
    kind: str
    slot: str
    is_certain: bool = True
    """False for digits in a range that no value of this kind is in: by themselves they may be something else."""
    is_old: bool = False
    """True for one without a form, of a kind that has one: an older version has made it."""


def placeholder(key: bytes, kind: str, value: str) -> str:
    """What stands for the value; values that differ in spelling alone differ in nothing else here."""
    domain = domain_of(value) if kind == "email" else None
    number = digest(key, kind, value)
    shown = formed(kind, value, number, 0 if domain is None else digest(key, "domain", domain))
    return f"<{kind}:{number:08x}>" if shown is None else shown


def old_placeholder(key: bytes, kind: str, value: str) -> str:
    """The same without a form, as older versions made it."""
    spelled = _compact(value) if kind == "phone" else normal(kind, value)
    return f"<{kind}:{_mac(key, kind, spelled):08x}>"


def digest(key: bytes, kind: str, value: str) -> int:
    """The first four bytes of an HMAC of the value, however it is spelled."""
    return _mac(key, kind, normal(kind, value))


def _mac(key: bytes, kind: str, text: str) -> int:
    from hashlib import sha256  # noqa: PLC0415 (slow to import, and most texts need no placeholder)
    from hmac import digest as mac  # noqa: PLC0415

    return int.from_bytes(mac(key, f"{kind}\0{text}".encode("utf-8", "surrogatepass"), sha256)[:4], "big")


def key_id(key: bytes) -> str:
    """What tells one key from another, and says nothing of it."""
    return f"{digest(key, 'key', ''):08x}"


def normal(kind: str, value: str) -> str:
    """The value without what people spell differently: case of an e-mail address, separators of a number."""
    if kind in _LOWER:
        return value.lower()
    if kind == "phone":
        return _normal_phone(_compact(value))
    return _compact(value) if kind in _COMPACT else value


def _compact(value: str) -> str:
    return _APART.sub("", value).upper()


def _normal_phone(compact: str) -> str:
    plus = compact.startswith("+")
    digits = compact[plus:]
    number = international(digits, plus=plus) if digits.isascii() and digits.isdigit() else None
    return compact if number is None else f"+{number}"


def is_placeholder(text: str, kind: str = "") -> bool:
    """True when the text is a placeholder and nothing else; of this kind, words may stand beside it (`SSN 9…`).

    What is one only by its range has to be of the kind: `000 1234567` is no phone, but it may be a password.
    """
    raw = text.encode("utf-8", "surrogatepass")
    found = placeholders_in(raw)
    if len(found) != 1:
        return False
    one = found[0]
    if one.kind == kind and kind in WITH_FORM:
        rest = raw[: one.start] + raw[one.end :]
        return not _DIGIT.search(rest)
    return one.start == 0 and one.end == len(raw) and one.kind not in OF_DIGITS


_DIGIT = lazy(rb"\d")


def placeholders_in(raw: bytes) -> list[FoundPlaceholder]:
    """All placeholders in a text, in order; those of digits alone among them."""
    return _without_overlaps([*_marked(raw), *_numbers(raw)])


def _without_overlaps(found: list[FoundPlaceholder]) -> list[FoundPlaceholder]:
    if len(found) < 2:
        return found
    found.sort(key=lambda one: (one.start, -one.end))
    found_slots: list[FoundPlaceholder] = []
    for one in found:
        if not found_slots or one.start >= found_slots[-1].end:
            found_slots.append(one)
    return found_slots


def may_be_redacted(texts: Iterable[bytes]) -> bool:
    """True when a placeholder is in one of the texts, certain or not. They are looked at as one, which is quick."""
    raw = b"\n".join(texts)
    return next(_marked(raw), None) is not None or next(_numbers(raw), None) is not None


def holds_placeholder(raw: bytes) -> bool:
    """True when a placeholder is in the text that is one for certain."""
    return any(found.is_certain for found in placeholders_in(raw))


def without_placeholders(raw: bytes) -> bytes:
    """The text with its placeholders blanked; the same object when it has none."""
    all_found = _without_overlaps([*_marked(raw), *_numbers(raw, certain_alone=True)])
    found = [one for one in all_found if one.is_certain]
    if not found:
        return raw
    masked = bytearray(raw)
    for one in found:
        masked[one.start : one.end] = b"<" * (one.end - one.start)
    return bytes(masked)


def spans(raw: bytes) -> list[tuple[int, int]]:
    """Where placeholders are that can be nothing else, whatever stands around them; also those that were cut off."""
    found = [(one.start, one.end) for one in _marked(raw)]
    if b"@" in raw and b"p-" in raw:
        found += [one.span() for one in _CUT_ADDRESS.finditer(raw)]
    if b"J" in raw and b".7" in raw:
        found += [one.span() for one in _CUT_TOKEN.finditer(raw)]
    at = raw.find(_HOST)
    while at >= 0:
        before = _CUT_BEFORE.search(raw, max(0, at - 80), at)
        found.append((before.start() if before else at, at + len(_HOST)))
        at = raw.find(_HOST, at + 1)
    return found


def _beginnings(text: str) -> str:
    """A pattern for the beginnings of a text, all of it among them."""
    pattern = ""
    for char in reversed(text):
        pattern = f"(?:{re.escape(char)}{pattern})?"
    return pattern


_CUT_ADDRESS = lazy(rf"p-[0-9a-f]{{8}}@[0-9a-f]{{1,8}}(?:\.{_beginnings(DOMAIN)})?(?![\w-])".encode())
_CUT_BEFORE = lazy(rb"[\w.+-]*@(?:[0-9a-f]{8}\.)?\Z")
_CUT_TOKEN = lazy(rf"eyJ[\w-]{{8,60}}\.7{_beginnings(JWT_TAIL[1:])}[0-9a-fA]*(?![\w-])".encode())


def _marked(raw: bytes) -> Iterator[FoundPlaceholder]:
    """Placeholders with a mark or a checksum that no other text has."""
    # One byte is found much faster than several, and most texts lack it.
    for sign, form in _TAGS:
        if sign[:1] in raw and sign in raw:
            for one in form.finditer(raw):
                kind = one[1].decode()
                yield FoundPlaceholder(
                    _with_prefix(raw, one.start(), kind), one.end(), kind, one[2].decode(), is_old=kind in WITH_FORM
                )
    if b".invalid" in raw or (b"V" in raw and b".INVALID" in raw):
        yield from _addresses(raw.lower())
    if b"D" in raw and b".REDACTED" in raw:
        yield from (FoundPlaceholder(*one.span(), "jwt", one[1].decode()) for one in _TOKEN.finditer(raw))
    if _UUID_SIGN in raw:
        yield from _slots(raw, "secret", _UUID, uuid_slot)
    if b"X" in raw and b"XX" in raw:
        yield from _ibans(raw)
    if b"2001:" in raw:
        yield from _slots(raw, "ip", _IPV6, ip_slot)


def _addresses(low: bytes) -> Iterator[FoundPlaceholder]:
    """Addresses at the reserved domain, and the domains of such addresses by themselves."""
    at = low.find(_HOST)
    while at >= 0:
        end = at + len(_HOST)
        found = _BEFORE_HOST.search(low, max(0, at - _WIDEST), at)
        if found and not low[end : end + 1].isalnum() and low[end : end + 1] not in (b"-", b"_"):
            kind = found.lastgroup or ""
            yield FoundPlaceholder(found.start(), end, kind, found[kind].decode())
        at = low.find(_HOST, end)


def _with_prefix(raw: bytes, start: int, kind: str) -> int:
    """Where the placeholder begins with what the keys of a provider begin with."""
    for literal in LITERALS.get(kind, ()):
        if raw.endswith(literal.encode(), 0, start):
            return start - len(literal)
    return start


def _slots(
    raw: bytes, kind: str, form: re.Pattern[bytes], read: Callable[[str], Slot | None]
) -> Iterator[FoundPlaceholder]:
    for one in form.finditer(raw):
        slot = read(one[0].decode())
        if slot is not None:
            yield FoundPlaceholder(*one.span(), kind, str(slot))


def _ibans(raw: bytes) -> Iterator[FoundPlaceholder]:
    for one in _IBAN.finditer(raw):
        places = [at for at in range(*one.span()) if raw[at] not in b" .-"]
        text = bytes(raw[at] for at in places).decode()
        for length in _LENGTHS:
            if length <= len(text) and (slot := iban_slot(text[:length])) is not None:
                yield FoundPlaceholder(one.start(), places[length - 1] + 1, "iban", str(slot))
                break


_LENGTHS = sorted(set(IBAN_LENGTHS.values()), reverse=True)


def _numbers(raw: bytes, *, certain_alone: bool = False) -> Iterator[FoundPlaceholder]:
    """Placeholders of digits; `certain_alone`: bare digits need not be asked that can be none for certain."""
    if b"24" in raw or b"25" in raw:
        yield from _slots(raw, "ip", _IPV4, ip_slot)
    zeros = raw.translate(_ZEROS)
    if _NINE in zeros.translate(None, _SEPARATORS):
        for one in _NUMBER.finditer(zeros):
            start = one.start()
            before = raw[max(0, start - 1) : start]
            is_certain = not one[0].isdigit() or raw.startswith(_CERTAIN, start) or before in (b"+", b"(")
            if certain_alone and not is_certain:
                continue
            if not before.isalnum() and before not in (b".", b"_"):
                yield from number_placeholders(raw, max(0, start - 2), one.end())


_CERTAIN = (b"9999", b"00")
"""What cards and devices begin with: the only placeholders that are certain without a sign between their digits."""
_CARD = lazy(rb"(?<!\d)9999(?:([ .-])\d{4}\1\d{4}\1\d{1,7}|([ -])\d{6}\2\d{4,5}|\d{8,15})(?!\d)")
_IMEI = lazy(rb"(?<!\d)00(?:([- ])\d{6}\1\d{6}\1\d|\d{4}([- ])\d\d\2\d{6}\2\d|\d{13})(?!\d)")
_SSN = lazy(rb"(?<!\d)9\d\d([- ]?)\d\d\1\d{4}(?!\d)")
_DOTTED = lazy(rb"\d{1,3}(?:\.\d{1,3}){3}")
"""The address of a machine, which has as many digits as some phones."""
_PHONE = lazy(rb"(?<!\d)(?:\+|\(\+?)?\d(?:[ .\-()/]{0,2}\d){8,14}(?!\d)")
_READERS: tuple[tuple[str, re.Pattern[bytes], Callable[[str], Slot | None]], ...] = (
    ("card", _CARD, card_slot),
    ("imei", _IMEI, imei_slot),
    ("ssn", _SSN, ssn_slot),
    ("ip", _IPV4, ip_slot),
)


def number_placeholders(raw: bytes, start: int, end: int) -> list[FoundPlaceholder]:
    """The placeholders in a stretch of digits and separators."""
    found: list[FoundPlaceholder] = []
    for kind, form, read in _READERS:
        for one in form.finditer(raw, start, end):
            slot = read(one[0].decode() if kind == "ip" else _digits(one[0]))
            if slot is not None:
                found.append(FoundPlaceholder(*one.span(), kind, str(slot), kind != "ssn" or not one[0].isdigit()))
    if found:
        return found
    for one in _PHONE.finditer(raw, start, end):
        plus = b"+" in one[0][:2]
        digits = _digits(one[0])
        slot = None if _DOTTED.fullmatch(one[0]) else phone_slot(digits, plus=plus)
        if slot is not None:
            is_grouped = not one[0].lstrip(b"(").isdigit() and (len(digits) == 10 or digits.startswith(("000", "129")))
            found.append(FoundPlaceholder(*one.span(), "phone", str(slot), plus or is_grouped))
    return found


def _digits(raw: bytes) -> str:
    return bytes(char for char in raw if 48 <= char <= 57).decode()


def canonical(raw: bytes) -> bytes:
    """The text with every placeholder as `<kind:slot>`: equal where the same values are spelled differently.

    Bare digits stay: in a range of placeholders they may be ids, of which no two are the same.
    """
    certain = [one for one in placeholders_in(raw) if one.is_certain]
    return _replaced(raw, certain, lambda found: f"<{found.kind}:{found.slot}>")


def blurred(raw: bytes) -> bytes:
    """The text with every placeholder as `<kind:*>`: equal where only the key was another."""
    return _replaced(raw, placeholders_in(raw), lambda found: f"<{found.kind}:*>")


def _replaced(raw: bytes, found: list[FoundPlaceholder], text_of: Callable[[FoundPlaceholder], str]) -> bytes:
    if not found:
        return raw
    pieces, at = [], 0
    for one in found:
        if _is_bare(raw, one):
            continue
        pieces += [raw[at : one.start], text_of(one).encode()]
        at = one.end
    return b"".join([*pieces, raw[at:]])


def _is_bare(raw: bytes, found: FoundPlaceholder) -> bool:
    """True for a number of JSON outside of quotes, which has to stay one."""
    if not _JSON_NUMBER.fullmatch(raw, found.start, found.end):
        return False
    before = raw[max(0, found.start - 2) : found.start].rstrip()[-1:]
    after = raw[found.end : found.end + 1]
    return before in (b"", b":", b",", b"[") and (not after or after[0] in _LIMITS)


def agree(one: bytes, other: bytes) -> bool:
    """True when two texts say the same, a placeholder with a form and one without among them."""
    first, second = placeholders_in(one), placeholders_in(other)
    if len(first) != len(second) or blurred(one) != blurred(other):
        return False
    return all(_same_slot(a.slot, b.slot) for a, b in zip(first, second, strict=True))


def _same_slot(one: str, other: str) -> bool:
    if "/" not in one or "/" not in other:
        whole, part = (one, other) if "/" in other else (other, one)
        if "/" in part and "*" not in whole:
            return str(slot_of(int(whole, 16), int(part.partition("/")[2]))) == part
    return one == other
