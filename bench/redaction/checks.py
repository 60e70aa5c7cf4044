"""Check digits and checksums, made."""

from __future__ import annotations

import string
import zlib

BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase


def luhn_digit(digits: str) -> str:
    """The digit that makes `digits` and itself pass Luhn's check."""
    total = 0
    for index, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 if index % 2 == 0 else 1)
        total += value - 9 if value > 9 else value
    return str(-total % 10)


def iban(country: str, account: str) -> str:
    """Country, its two check digits and the account."""
    number = "".join(str(int(character, 36)) for character in f"{account}{country}00")
    return f"{country}{98 - int(number) % 97:02}{account}"


def crc62(text: str) -> str:
    """CRC-32 in six digits of base 62: the end of GitHub's and npm's tokens."""
    value, digits = zlib.crc32(text.encode()), ""
    for _ in range(6):
        value, digit = divmod(value, 62)
        digits = BASE62[digit] + digits
    return digits


def ean_digit(digits: str) -> str:
    """The last digit of an EAN-13 or ISBN-13."""
    return str(-sum(int(digit) * (3 if index % 2 else 1) for index, digit in enumerate(digits)) % 10)
