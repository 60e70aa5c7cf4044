"""Checksums and codes that tell a card, an account or a phone from a number that only looks like one."""

from __future__ import annotations

from binascii import Error, a2b_base64

from replaykit.redaction.lazy_patterns import lazy

_COUNTRIES = {
    15: "NO", 16: "BE BI", 18: "DK FO FI GL NL SD FK", 19: "MK SI", 20: "AT BA EE KZ XK LT LU MN", 21: "CR HR LV LI CH",
    22: "BH BG GE DE IE ME RS GB VA HN", 23: "TL GI IL AE IQ OM SO", 24: "AD CZ MD PK RO SA SK ES SE TN VG",
    25: "LY PT ST", 26: "IS TR", 27: "FR GR IT MC MR SM DJ BF", 28: "AL AZ BY CY DO GT HU LB PL SN SV NI",
    29: "BR EG PS QA UA", 30: "JO KW MU YE", 31: "MT SC", 32: "LC", 33: "RU",
}  # fmt: skip
IBAN_LENGTHS = {country: length for length, countries in _COUNTRIES.items() for country in countries.split()}
"""The length of account numbers by country."""
_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)
_CARD = lazy(
    r"4(?:\d{15}|\d{18})|5[1-5]\d{14}|3[47]\d{13}"
    r"|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}"
    r"|6(?:011\d{12}|4[4-9]\d{13}|5\d{14})(?:\d{3})?"
    r"|3(?:0[0-5]|[689]\d)\d{11}(?:\d\d)?|35(?:2[89]|[3-8]\d)\d{12}(?:\d{3})?|62\d{14}(?:\d{3})?"
)
_LOOSE_CARD = lazy(r"(?:4\d{12}|5[0678]\d{10,17}|6\d{11,18})")


def luhn(digits: str) -> bool:
    """Return whether the last digit is the Luhn check digit of the others, and the digits are not all the same."""
    return luhn_digit(digits[:-1]) == digits[-1:] and len(set(digits)) > 1


def luhn_digit(digits: str) -> str:
    """Return the Luhn check digit for these digits."""
    total = sum(map(int, digits[-2::-2]))
    for digit in digits[-1::-2]:
        total += _DOUBLED[int(digit)]
    return str(-total % 10)


def is_card(digits: str, *, named: bool = False) -> bool:
    """Return whether this is a payment card's number; old and rare issuers count only if the text mentions a card."""
    known = _CARD.fullmatch(digits) or (named and _LOOSE_CARD.fullmatch(digits))
    return bool(known) and luhn(digits)


def is_imei(digits: str, *, named: bool = False) -> bool:
    """Return whether this is a mobile device's number; without a word for it, only the largest issuing bodies count."""
    return len(digits) == 15 and (named or digits[:2] in ("01", "35", "86", "99")) and luhn(digits)


def iban_length(text: str) -> int:
    """Return how many characters of `text`, without blanks, form an IBAN; 0 if it does not begin with one."""
    length = IBAN_LENGTHS.get(text[:2].upper(), 0)
    account = text[:length].upper()
    if not length or len(account) < length or not (account.isascii() and account.isalnum()):
        return 0
    if _iban_remainder(account[4:] + account[:4]) != 1:
        return 0
    return length


def iban_check_digits(country: str, account: str) -> str:
    """Return the two check digits of an account in upper case."""
    return f"{98 - _iban_remainder(f'{account}{country}00'):02}"


def _iban_remainder(account: str) -> int:
    number = "".join([str(int(char, 36)) for char in account])
    return int(number) % 97


def is_ssn(digits: str) -> bool:
    """Return whether this can be an issued US social security number."""
    area = digits[:3]
    return area not in ("000", "666") and area[0] != "9" and digits[3:5] != "00" and digits[5:] != "0000"


def has_jwt_header(token: bytes) -> bool:
    """Return whether the first part decodes to a JSON object, as the header of a JWT does."""
    head = unbase64(token.partition(b".")[0])
    return head is not None and head.startswith(b'{"') and b'"alg"' in head


def unbase64(text: str | bytes) -> bytes | None:
    """Decode base64 of either alphabet, padded or not; return None if it is invalid."""
    data = text.encode() if isinstance(text, str) else text
    data = data.rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
    if len(data) % 4 == 1:
        return None
    try:
        return a2b_base64(data + b"=" * (-len(data) % 4))
    except Error:
        return None


COUNTRY_CODE = lazy(
    rb"1|7|2(?:0|7|1[1-8]|[2-4]\d|5[0-8]|6[0-9]|9[017-9])|3(?:[0-469]|5\d|7[0-8]|8[0-9])|4(?:[013-9]|2[013])"
    rb"|5(?:[1-8]|0\d|9\d)|6(?:[0-6]|7[02-9]|8\d|9[0-2])|8(?:[1246]|5[0-6]|8[0-8])|9(?:[0-58]|6[0-8]|7[0-79]|9[2-8])"
)
"""The code of a country, or of a service without one."""


def country_code(digits: str) -> str:
    """Return the country code at the start of these digits; empty if there is none."""
    found = COUNTRY_CODE.match(digits.encode())
    if found is None:
        return ""
    return found[0].decode()
