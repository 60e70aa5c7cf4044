"""Forms: placeholders that look like the value they stand for, in ranges where no real value can be.

An address at a reserved domain, a phone number that nobody can be given, a card of no issuer with a right check digit.
Each carries the digest of the value, or as much of it as its digits hold, and where they hold more a checksum over
that. So a placeholder is told from a value by its range and its checksum, without the key.
"""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

from msgspec import Struct

from replaykit.redaction.checksums import iban_check_digits, luhn_digit, unbase64
from replaykit.redaction.country_codes import country_code
from replaykit.redaction.lazy_patterns import lazy
from replaykit.redaction.providers import LITERALS

ALL = 2**32
"""How many digests there are."""
LEAST = 2**23
"""A form with room for fewer values is none: two of a hundred values would be one too often."""
DOMAIN = "redacted.invalid"
"""RFC 2606 reserves `.invalid`: no such domain will ever be."""

_UUID = lazy(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
_ADDRESS = lazy(r"[^@]+@([^@\s\[\]]+)")
_ALGORITHM = lazy(rb'"alg"\s*:\s*"([A-Za-z0-9]{2,8})"')
_PAYLOAD = "77u_e30"
"""`{}` behind a byte order mark: JSON to whoever reads bytes, and no claims to scanners that look for tokens."""
_CARD = "9999"
"""ISO 7812: numbers that begin with 9 are of a country, and there is none of number 999."""
_IMEI = "00"
"""The reporting body of test devices."""
_CLASS_E, _CLASS_E_SIZE = 0xF0000000, 15 << 24
"""240.0.0.0 to 254.255.255.255, which nobody is given. The documentation ranges hold but 768 addresses."""
_SPARE_COUNTRIES = ("28", "83", "89")
"""ITU-T E.164 has no country code that begins like one of these."""
_LONGEST_PHONE = 15
_SPARE_AREAS = 8 * 10**7
"""Numbers of North America in areas of 29x: those with a nine in the middle are kept back for longer numbers."""
_SSN_GROUPS = 49
"""With an area of 9xx no group up to 49 was given to anybody; those above are for taxpayers without a number."""


class Slot(Struct, frozen=True):
    """Which of how many values of its kind a placeholder stands for. With `ALL` of them it is the whole digest."""

    index: int
    count: int = ALL

    def __str__(self) -> str:
        return f"{self.index:08x}" if self.count == ALL else f"{self.index}/{self.count}"


def slot_of(digest: int, count: int) -> Slot:
    """The slot of a value among that many."""
    return Slot(digest * count >> 32, count)


def formed(kind: str, value: str, digest: int, domain: int) -> str | None:
    """The placeholder with the form of the value; None where there is no such form."""
    literals = LITERALS.get(kind)
    if literals is not None:
        prefix = next((literal for literal in literals if value.startswith(literal)), "")
        return f"{prefix}<{kind}:{digest:08x}>"
    maker = _MAKERS.get(kind)
    if maker is not None:
        return maker(value, digest)
    if kind == "email":
        return _email(value, digest, domain)
    return None


def domain_of(address: str) -> str | None:
    """The domain of an e-mail address; None for one that is spelled in another way."""
    found = _ADDRESS.fullmatch(address)
    return found[1].lower() if found else None


def _email(value: str, digest: int, domain: int) -> str | None:
    return f"p-{digest:08x}@{domain:08x}.{DOMAIN}" if _ADDRESS.fullmatch(value) else None


def _card(value: str, digest: int) -> str | None:
    length = _digit_count(value)
    if not 12 <= length <= 19:
        return None
    body = _CARD + _digits(digest, "card", length - len(_CARD) - 1)
    return _filled(value, body + luhn_digit(body))


def card_slot(digits: str) -> Slot | None:
    """Of a card by its digits; None for one that is no placeholder."""
    if not 12 <= len(digits) <= 19 or not digits.startswith(_CARD) or luhn_digit(digits[:-1]) != digits[-1]:
        return None
    return _slot("card", digits[len(_CARD) : -1])


def _imei(value: str, digest: int) -> str | None:
    if _digit_count(value) != 15:
        return None
    body = _IMEI + _digits(digest, "imei", 12)
    return _filled(value, body + luhn_digit(body))


def imei_slot(digits: str) -> Slot | None:
    """Of a mobile device by its digits."""
    if len(digits) != 15 or not digits.startswith(_IMEI) or luhn_digit(digits[:-1]) != digits[-1]:
        return None
    return _slot("imei", digits[len(_IMEI) : -1])


def _ssn(value: str, digest: int) -> str | None:
    if _digit_count(value) != 9:
        return None
    code = _code(digest, "ssn", 100 * _SSN_GROUPS * 9999)
    rest, serial = divmod(code, 9999)
    area, group = divmod(rest, _SSN_GROUPS)
    return _filled(value, f"9{area:02}{group + 1:02}{serial + 1:04}")


def ssn_slot(digits: str) -> Slot | None:
    """Of a social security number by its digits."""
    if len(digits) != 9 or digits[0] != "9":
        return None
    area, group, serial = int(digits[1:3]), int(digits[3:5]), int(digits[5:])
    if not 1 <= group <= _SSN_GROUPS or not serial:
        return None
    code = (area * _SSN_GROUPS + group - 1) * 9999 + serial - 1
    return _checked(code, "ssn", 100 * _SSN_GROUPS * 9999)


def _iban(value: str, digest: int) -> str | None:
    account = [char for char in value if char.isascii() and char.isalnum()]
    if not 15 <= len(account) <= 34 or not "".join(account[:2]).isalpha():
        return None
    sizes = [10 if char.isdigit() else 26 for char in account[4:]]
    size = _product(sizes)
    if size < ALL:
        return None
    code, filling = _code(digest, "iban", size), []
    for radix in reversed(sizes):
        code, rest = divmod(code, radix)
        filling.append(str(rest) if radix == 10 else chr(65 + rest))
    inner = "".join(reversed(filling))
    shown = _filled(value, f"XX{iban_check_digits('XX', inner)}{inner}", letters=True)
    return f"XX{shown[2:]}"


def iban_slot(account: str) -> Slot | None:
    """Of an account by its letters and digits."""
    inner = account[4:].upper()
    if account[:2].upper() != "XX" or len(account) < 15 or account[2:4] != iban_check_digits("XX", inner):
        return None
    code = 0
    for char in inner:
        code = code * 10 + int(char) if char.isdigit() else code * 26 + ord(char) - 65
    return _checked(code, "iban", _product([10 if char.isdigit() else 26 for char in inner]))


def _phone(value: str, digest: int) -> str | None:
    if any(char.isalpha() for char in value):
        return None
    digits = "".join(filter(_is_digit, value))
    if len(digits) > _LONGEST_PHONE:
        return None
    number = international(digits, plus="+" in value[:2])
    filling = _national(digits, digest) if number is None else _abroad(number, digest)
    # Zeros for the way abroad stay; a national number of North America has no country code.
    return _filled(value, f"00{filling}"[-len(digits) :]) if filling else None


def international(digits: str, *, plus: bool) -> str | None:
    """A phone number with its country code, where that can be told from its digits; None for a national number.

    It is the same for every spelling of the number: with a plus sign or without, with zeros, in digits alone.
    """
    if plus:
        return digits
    if digits.startswith("00") and len(digits) > 9 and digits[2] != "0":
        return digits[2:]
    if len(digits) == 10 and digits[0] > "1" and digits[3] > "1":
        return f"1{digits}"
    return digits if len(digits) > 10 and digits[0] != "0" else None


def _abroad(number: str, digest: int) -> str | None:
    if len(number) == 11 and number[0] == "1":
        area, line = divmod(_code(digest, "phone", _SPARE_AREAS), _SPARE_AREAS // 10)
        return f"129{area}{line + 2 * 10**6}"
    code = country_code(number)
    free = len(number) - len(code) - 2
    if code and free > 7:
        return f"{code}00{_digits(digest, 'phone', free)}"
    size = 3 * 10 ** (len(number) - 2) if len(number) > 8 else 0
    if size < LEAST:
        return None
    which, rest = divmod(_code(digest, "phone", size), size // 3)
    return f"{_SPARE_COUNTRIES[which]}{rest:0{len(number) - 2}}"


def _national(digits: str, digest: int) -> str | None:
    free = len(digits) - 3
    return f"000{_digits(digest, 'phone', free)}" if 10**free > LEAST else None


def is_spare_phone(digits: str, *, plus: bool) -> bool:
    """True for the beginning of a number that nobody has."""
    number = international(digits, plus=plus)
    if not plus and digits.startswith("000"):
        return True
    code = "" if number is None else country_code(number)
    rest = "" if number is None else number[len(code) :]
    return rest.startswith("29" if code == "1" else "00")


def phone_slot(digits: str, *, plus: bool) -> Slot | None:
    """Of a phone by its digits. An area of 29x is none in North America; no number goes on with two zeros behind the
    code of its country; and none begins with three."""
    if not 9 <= len(digits) <= _LONGEST_PHONE:
        return None
    if not plus and digits.startswith("000"):
        return _slot("phone", digits[3:]) if len(digits) > 9 else None
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
        return _slot("phone", rest) if len(rest) > 7 else None
    if number[:2] in _SPARE_COUNTRIES and len(number) > 8:
        size = 3 * 10 ** (len(number) - 2)
        return _checked(_SPARE_COUNTRIES.index(number[:2]) * size // 3 + int(number[2:]), "phone", size)
    return None


def _ip(value: str, digest: int) -> str | None:
    if ":" not in value:
        number = _CLASS_E + slot_of(digest, _CLASS_E_SIZE).index
        return ".".join(str(byte) for byte in number.to_bytes(4, "big"))
    groups = ["2001", "db8", *_halves(crc32(f"ip{digest:08x}".encode())), "0", "0", *_halves(digest)]
    if "::" in value:
        text = f"{':'.join(groups[:4])}::{':'.join(groups[6:])}"
    else:
        wide = all(len(group) == 4 for group in value.split(":"))
        text = ":".join(group.zfill(4) if wide else group for group in groups)
    return text.upper() if value.isupper() else text


def _halves(number: int) -> tuple[str, str]:
    return f"{number >> 16:x}", f"{number & 0xFFFF:x}"


def ip_slot(text: str) -> Slot | None:
    """Of the address of a machine, however it is spelled."""
    from ipaddress import AddressValueError, IPv4Address, IPv6Address  # noqa: PLC0415 (few texts come here)

    try:
        if ":" not in text:
            place = int(IPv4Address(text)) - _CLASS_E
            return Slot(place, _CLASS_E_SIZE) if 0 <= place < _CLASS_E_SIZE else None
        number = int(IPv6Address(text))
    except AddressValueError:
        return None
    digest = number & 0xFFFFFFFF
    address = _ip("::", digest)
    return Slot(digest) if address is not None and int(IPv6Address(address)) == number else None


def _jwt(value: str, digest: int) -> str | None:
    if value.count(".") != 2:
        return None
    from base64 import urlsafe_b64encode  # noqa: PLC0415 (rarely needed)

    found = _ALGORITHM.search(unbase64(value.partition(".")[0]) or b"")
    algorithm = found[1] if found else b"none"
    header = urlsafe_b64encode(b'{"alg":"%b","typ":"JWT"}' % algorithm).decode().rstrip("=")
    return f"{header}.{JWT_TAIL}{digest:08x}{_JWT_FILLING}"


JWT_TAIL = f"{_PAYLOAD}.REDACTED"
_JWT_FILLING = "A" * 112
"""As long as signatures are: what is shorter scanners take for a key beside a name such as `token`."""
JWT = rf"eyJ[\w-]{{8,60}}\.{_PAYLOAD}\.REDACTED([0-9a-f]{{8}}){_JWT_FILLING}(?!A)"


def _secret(value: str, digest: int) -> str | None:
    if not _UUID.fullmatch(value):
        return None
    text = f"{digest:08x}{_UUID_MIDDLE}{crc32(f'secret{digest:08x}'.encode()) & 0xFFFF:04x}"
    return text.upper() if value.isupper() else text


_UUID_MIDDLE = "-0000-8000-8000-00000000"
"""Version 8 of UUIDs is for uses of one's own. There are few random digits in it: scanners ask for many."""


def uuid_slot(text: str) -> Slot | None:
    """Of a UUID."""
    low = text.lower()
    digest = int(low[:8], 16)
    return Slot(digest) if low == _secret(f"00000000{_UUID_MIDDLE}0000", digest) else None


_MAKERS: dict[str, Callable[[str, int], str | None]] = {
    "card": _card,
    "iban": _iban,
    "imei": _imei,
    "ip": _ip,
    "jwt": _jwt,
    "phone": _phone,
    "secret": _secret,
    "ssn": _ssn,
}


WITH_FORM = frozenset(_MAKERS) - {"secret"} | {"email"}
"""The kinds that have a form, whatever the value is."""


def _code(digest: int, kind: str, size: int) -> int:
    """A number below `size`: the slot of the digest, and a checksum where there is room for one."""
    room = _room(size)
    slot = slot_of(digest, min(ALL, size // room))
    return slot.index * room + _check(kind, slot, room)


def _checked(code: int, kind: str, size: int) -> Slot | None:
    """The slot in such a number; None where the checksum is wrong."""
    room = _room(size)
    index, check = divmod(code, room)
    slot = Slot(index, min(ALL, size // room))
    return slot if index < slot.count and check == _check(kind, slot, room) else None


def _room(size: int) -> int:
    """How many values the checksum has. Up to 2 ** 26 values are told apart before any digits go to the checksum."""
    return size >> 32 if size >> 36 else max(1, min(16, size >> 26))


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


def _product(sizes: list[int]) -> int:
    size = 1
    for radix in sizes:
        size *= radix
    return size


def _filled(value: str, filling: str, *, letters: bool = False) -> str:
    """The value with its digits, and its letters if they are meant, replaced one by one; the rest stays."""
    rest = iter(filling)
    pieces = []
    for char in value:
        if _is_digit(char) or (letters and char.isascii() and char.isalpha()):
            other = next(rest)
            pieces.append(other.lower() if char.islower() else other)
        else:
            pieces.append(char)
    return "".join(pieces)
