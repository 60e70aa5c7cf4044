"""Form placeholders: they look like the values they stand for, in ranges without real values.

Examples are an address at a reserved domain, a phone number that cannot be assigned, or a card of no issuer with a
valid check digit. Each carries the digest of the value, or as much of it as fits into its digits, and a checksum if
there is room for one. So range and checksum tell a placeholder from a value without the key.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from zlib import crc32

from msgspec import Struct

from replaykit.redaction.checksums import country_code, iban_check_digits, luhn_digit, unbase64
from replaykit.redaction.lazy_patterns import lazy
from replaykit.redaction.providers import LITERALS

ALL = 2**32
"""The number of digests."""
LEAST = 2**23
"""The least number of values that a form must hold: with fewer, collisions would be too likely."""
DOMAIN = "redacted.invalid"
"""RFC 2606 reserves `.invalid`, so the domain will never exist."""

_UUID = lazy(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
_ALNUM = lazy(r"[A-Za-z0-9]")
_ADDRESS = lazy(r"[^@]+@([^@\s\[\]]+)")
_ALGORITHM = lazy(rb'"alg"\s*:\s*"([A-Za-z0-9]{2,8})"')
# `{}` after a byte order mark: valid JSON, but without claims that token scanners would report.
_PAYLOAD = "77u_e30"
# 240.0.0.0 to 254.255.255.255 are never assigned. The documentation ranges hold only 768 addresses.
_CLASS_E, _CLASS_E_SIZE = 0xF0000000, 15 << 24
_SPARE_COUNTRIES = ("28", "83", "89")  # no country code of ITU-T E.164 begins with one of these
_LONGEST_PHONE = 15
# North American numbers in areas 29x. Those with a nine in the middle are reserved for longer numbers.
_SPARE_AREAS = 8 * 10**7
# For an area of 9xx, groups up to 49 were never issued; those above are for taxpayers without a number.
_SSN_GROUPS = 49
_SSN_SERIALS = 9999
_SSN_SIZE = 100 * _SSN_GROUPS * _SSN_SERIALS


class Slot(Struct, frozen=True):
    """The index of a placeholder among all of its kind. With a count of `ALL`, it is the whole digest."""

    index: int
    count: int = ALL

    def __str__(self) -> str:
        if self.count == ALL:
            return f"{self.index:08x}"
        return f"{self.index}/{self.count}"


def slot_of(digest: int, count: int) -> Slot:
    """Return the slot of a value among that many."""
    return Slot(digest * count >> 32, count)


def formed(kind: str, value: str, digest: int, domain: int) -> str | None:
    """Return the placeholder in the form of the value; None if its kind has no form."""
    if kind in LITERALS:
        prefix = ""
        for literal in LITERALS[kind]:
            if value.startswith(literal):
                prefix = literal
                break
        return f"{prefix}<{kind}:{digest:08x}>"
    if kind == "email" and _ADDRESS.fullmatch(value):
        return f"p-{digest:08x}@{domain:08x}.{DOMAIN}"
    maker = _MAKERS.get(kind)
    if maker is None:
        return None
    return maker(value, digest)


def domain_of(address: str) -> str | None:
    """Return the domain of an e-mail address; None for other notations."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        return None
    return found[1].lower()


class _CheckedByLuhn(Struct, frozen=True):
    """Numbers with a Luhn check digit: the prefix of their placeholders, and the number of digits."""

    kind: str
    prefix: str
    lengths: range

    def placeholder(self, value: str, digest: int) -> str | None:
        length = _digit_count(value)
        if length not in self.lengths:
            return None
        body = self.prefix + _digits(digest, self.kind, length - len(self.prefix) - 1)
        return _filled(value, body + luhn_digit(body))

    def slot(self, digits: str) -> Slot | None:
        """Return the slot of a number by its digits; None if it is not a placeholder."""
        if len(digits) not in self.lengths or not digits.startswith(self.prefix):
            return None
        if luhn_digit(digits[:-1]) != digits[-1]:
            return None
        return _slot(self.kind, digits[len(self.prefix) : -1])


CARD = _CheckedByLuhn("card", "9999", range(12, 20))
"""ISO 7812: numbers with a leading 9 have a country code next, and there is no country 999."""
IMEI = _CheckedByLuhn("imei", "00", range(15, 16))
"""00 is the reporting body of test devices."""


def _ssn(value: str, digest: int) -> str | None:
    if _digit_count(value) != 9:
        return None
    rest, serial = divmod(_code(digest, "ssn", _SSN_SIZE), _SSN_SERIALS)
    area, group = divmod(rest, _SSN_GROUPS)
    return _filled(value, f"9{area:02}{group + 1:02}{serial + 1:04}")


def ssn_slot(digits: str) -> Slot | None:
    """Return the slot of a social security number by its digits."""
    if len(digits) != 9 or digits[0] != "9":
        return None
    area, group, serial = int(digits[1:3]), int(digits[3:5]), int(digits[5:])
    if not 1 <= group <= _SSN_GROUPS or not serial:
        return None
    return _checked((area * _SSN_GROUPS + group - 1) * _SSN_SERIALS + serial - 1, "ssn", _SSN_SIZE)


def _iban(value: str, digest: int) -> str | None:
    account = "".join(_ALNUM.findall(value))
    if not 15 <= len(account) <= 34 or not account[:2].isalpha():
        return None
    sizes = list(map(_radix, account[4:]))
    size = prod(sizes)
    if size < ALL:
        return None
    code, inner = _code(digest, "iban", size), ""
    for radix in reversed(sizes):
        code, rest = divmod(code, radix)
        if radix == 10:
            inner = f"{rest}{inner}"
        else:
            inner = chr(65 + rest) + inner
    shown = _filled(value, f"XX{iban_check_digits('XX', inner)}{inner}", letters=True)
    return f"XX{shown[2:]}"


def iban_slot(account: str) -> Slot | None:
    """Return the slot of an account by its letters and digits."""
    inner = account[4:].upper()
    if account[:2].upper() != "XX" or len(account) < 15 or account[2:4] != iban_check_digits("XX", inner):
        return None
    code = 0
    for char in inner:
        code = code * _radix(char) + int(char, 36)
        if not char.isdigit():
            code -= 10  # A is the first letter
    return _checked(code, "iban", prod(map(_radix, inner)))


def _radix(char: str) -> int:
    if char.isdigit():
        return 10
    return 26


def _phone(value: str, digest: int) -> str | None:
    digits = "".join(filter(_is_digit, value))
    if len(digits) > _LONGEST_PHONE or any(map(str.isalpha, value)):
        return None
    number = international(digits, plus="+" in value[:2])
    filling = None
    if number is not None:
        filling = _abroad(number, digest)
    elif 10 ** (len(digits) - 3) > LEAST:
        filling = f"000{_digits(digest, 'phone', len(digits) - 3)}"
    if filling is None:
        return None
    # The international prefix stays; a national North American number has no country code.
    return _filled(value, f"00{filling}"[-len(digits) :])


def international(digits: str, *, plus: bool) -> str | None:
    """Return a phone number with its country code if its digits tell; None for a national number.

    The result is the same for all notations of a number: with a plus sign or zeros in front, or digits alone.
    """
    if plus:
        return digits
    if digits.startswith("00") and len(digits) > 9 and digits[2] != "0":
        return digits[2:]
    if len(digits) == 10 and digits[0] > "1" and digits[3] > "1":
        return f"1{digits}"
    if len(digits) > 10 and digits[0] != "0":
        return digits
    return None


def _abroad(number: str, digest: int) -> str | None:
    if len(number) == 11 and number[0] == "1":
        area, line = divmod(_code(digest, "phone", _SPARE_AREAS), _SPARE_AREAS // 10)
        return f"129{area}{line + 2 * 10**6}"
    code = country_code(number)
    free = len(number) - len(code) - 2
    if code and free > 7:
        return f"{code}00{_digits(digest, 'phone', free)}"
    size = 3 * 10 ** (len(number) - 2)
    if len(number) <= 8 or size < LEAST:
        return None
    which, rest = divmod(_code(digest, "phone", size), size // 3)
    return f"{_SPARE_COUNTRIES[which]}{rest:0{len(number) - 2}}"


def is_spare_phone(digits: str, *, plus: bool) -> bool:
    """Return whether these digits start a number that is never assigned."""
    if not plus and digits.startswith("000"):
        return True
    number = international(digits, plus=plus) or ""
    code = country_code(number)
    if code == "1":
        return number.startswith("29", 1)
    return number.startswith("00", len(code))


def phone_slot(digits: str, *, plus: bool) -> Slot | None:
    """Return the slot of a phone number by its digits.

    North America has no area 29x; no number has two zeros after the country code; and none begins with three zeros.
    """
    if not 9 <= len(digits) <= _LONGEST_PHONE:
        return None
    if not plus and digits.startswith("000"):
        if len(digits) == 9:
            return None
        return _slot("phone", digits[3:])
    number = international(digits, plus=plus)
    if number is None:
        return None
    if len(number) == 11 and number[0] == "1":
        if number[1:3] != "29" or number[4] < "2":
            return None
        return _checked(int(number[3]) * _SPARE_AREAS // 10 + int(number[4:]) - 2 * 10**6, "phone", _SPARE_AREAS)
    code = country_code(number)
    if code and number[len(code) :].startswith("00"):
        rest = number[len(code) + 2 :]
        if len(rest) <= 7:
            return None
        return _slot("phone", rest)
    if number[:2] in _SPARE_COUNTRIES and len(number) > 8:
        size = 3 * 10 ** (len(number) - 2)
        return _checked(_SPARE_COUNTRIES.index(number[:2]) * size // 3 + int(number[2:]), "phone", size)
    return None


def _ip(value: str, digest: int) -> str:
    if ":" not in value:
        number = _CLASS_E + slot_of(digest, _CLASS_E_SIZE).index
        return ".".join(map(str, number.to_bytes(4, "big")))
    groups = ["2001", "db8", *_halves(crc32(f"ip{digest:08x}".encode())), "0", "0", *_halves(digest)]
    if "::" in value:
        text = f"{':'.join(groups[:4])}::{':'.join(groups[6:])}"
    elif set(map(len, value.split(":"))) == {4}:
        text = ":".join([group.zfill(4) for group in groups])
    else:
        text = ":".join(groups)
    return _in_case_of(value, text)


def _in_case_of(value: str, text: str) -> str:
    if value.isupper():
        return text.upper()
    return text


def _halves(number: int) -> tuple[str, str]:
    return f"{number >> 16:x}", f"{number & 0xFFFF:x}"


def ip_slot(text: str) -> Slot | None:
    """Return the slot of an IP address in any notation."""
    from ipaddress import AddressValueError, IPv4Address, IPv6Address  # noqa: PLC0415 (few texts come here)

    try:
        if ":" not in text:
            place = int(IPv4Address(text)) - _CLASS_E
            if not 0 <= place < _CLASS_E_SIZE:
                return None
            return Slot(place, _CLASS_E_SIZE)
        number = int(IPv6Address(text))
    except AddressValueError:
        return None
    digest = number & 0xFFFFFFFF
    if int(IPv6Address(_ip("::", digest))) != number:
        return None
    return Slot(digest)


def _jwt(value: str, digest: int) -> str | None:
    if value.count(".") != 2:
        return None
    from base64 import urlsafe_b64encode  # noqa: PLC0415 (rarely needed)

    found = _ALGORITHM.search(unbase64(value.partition(".")[0]) or b"")
    algorithm = b"none"
    if found:
        algorithm = found[1]
    header = urlsafe_b64encode(b'{"alg":"%b","typ":"JWT"}' % algorithm).decode().rstrip("=")
    return f"{header}.{JWT_TAIL}{digest:08x}{_JWT_FILLING}"


JWT_TAIL = f"{_PAYLOAD}.REDACTED"
# The length of real signatures: scanners report shorter text as a key if it is next to a name like `token`.
_JWT_FILLING = "A" * 112
JWT = rf"eyJ[\w-]{{8,60}}\.{_PAYLOAD}\.REDACTED([0-9a-f]{{8}}){_JWT_FILLING}(?!A)"


def _secret(value: str, digest: int) -> str | None:
    if not _UUID.fullmatch(value):
        return None
    text = f"{digest:08x}{_UUID_MIDDLE}{crc32(f'secret{digest:08x}'.encode()) & 0xFFFF:04x}"
    return _in_case_of(value, text)


# UUID version 8 is for custom use. It has few random digits here, since scanners look for many.
_UUID_MIDDLE = "-0000-8000-8000-00000000"


def uuid_slot(text: str) -> Slot | None:
    """Return the slot of a UUID."""
    low = text.lower()
    digest = int(low[:8], 16)
    if low != _secret(f"00000000{_UUID_MIDDLE}0000", digest):
        return None
    return Slot(digest)


_MAKERS: dict[str, Callable[[str, int], str | None]] = {
    "card": CARD.placeholder,
    "iban": _iban,
    "imei": IMEI.placeholder,
    "ip": _ip,
    "jwt": _jwt,
    "phone": _phone,
    "secret": _secret,
    "ssn": _ssn,
}


WITH_FORM = frozenset(_MAKERS) - {"secret"} | {"email"}
"""The kinds that have a form, whatever the value is."""


def _code(digest: int, kind: str, size: int) -> int:
    """Return a number below `size`: the slot of the digest, with a checksum if there is room for one."""
    room = _room(size)
    slot = slot_of(digest, min(ALL, size // room))
    return slot.index * room + _check(kind, slot, room)


def _checked(code: int, kind: str, size: int) -> Slot | None:
    """Return the slot in such a number; None if the checksum is wrong."""
    room = _room(size)
    index, check = divmod(code, room)
    slot = Slot(index, min(ALL, size // room))
    if index >= slot.count or check != _check(kind, slot, room):
        return None
    return slot


def _room(size: int) -> int:
    """Return how many values the checksum can have.

    The first 2 ** 26 values tell values apart; only the room beyond them goes to the checksum.
    """
    if size >> 36:
        return size >> 32
    return max(1, min(16, size >> 26))


def _check(kind: str, slot: Slot, room: int) -> int:
    return crc32(f"{kind}{slot.index}".encode()) % room


def _digits(digest: int, kind: str, count: int) -> str:
    return f"{_code(digest, kind, 10**count):0{count}}"


def _slot(kind: str, digits: str) -> Slot | None:
    return _checked(int(digits), kind, 10 ** len(digits))


def _is_digit(char: str) -> bool:
    return char.isascii() and char.isdigit()


def _digit_count(text: str) -> int:
    return sum(map(_is_digit, text))


def _filled(value: str, filling: str, *, letters: bool = False) -> str:
    """Replace the digits of a value, and its letters if `letters`, one by one; keep all other characters."""
    rest = iter(filling)
    pieces = []
    for char in value:
        if _is_digit(char) or (letters and char.isascii() and char.isalpha()):
            other = next(rest)
            if char.islower():
                other = other.lower()
            char = other
        pieces.append(char)
    return "".join(pieces)
