"""Checksums: what tells a card or an account from a number that only looks like one."""

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
"""How many characters the accounts of a country have."""
_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)
_CARD = lazy(
    r"4(?:\d{15}|\d{18})|5[1-5]\d{14}|3[47]\d{13}"
    r"|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}"
    r"|6(?:011\d{12}|4[4-9]\d{13}|5\d{14})(?:\d{3})?"
    r"|3(?:0[0-5]|[689]\d)\d{11}(?:\d\d)?|35(?:2[89]|[3-8]\d)\d{12}(?:\d{3})?|62\d{14}(?:\d{3})?"
)
_LOOSE_CARD = lazy(r"(?:4\d{12}|5[0678]\d{10,17}|6\d{11,18})")


def luhn(digits: str) -> bool:
    """True when the last digit is the Luhn check digit of the others, and they are not all the same."""
    total = sum(map(int, digits[-1::-2])) + sum(_DOUBLED[int(digit)] for digit in digits[-2::-2])
    return total % 10 == 0 and len(set(digits)) > 1


def luhn_digit(digits: str) -> str:
    """The Luhn check digit that belongs behind these digits."""
    total = sum(_DOUBLED[int(digit)] for digit in digits[-1::-2]) + sum(map(int, digits[-2::-2]))
    return str(-total % 10)


def is_card(digits: str, *, named: bool = False) -> bool:
    """True for the number of a payment card; old and rare issuers only where the text speaks of a card."""
    known = _CARD.fullmatch(digits) or (named and _LOOSE_CARD.fullmatch(digits))
    return bool(known) and luhn(digits)


def is_imei(digits: str, *, named: bool = False) -> bool:
    """True for the number of a mobile device; without a word for it, only of the bodies that hand out most."""
    return len(digits) == 15 and (named or digits[:2] in ("01", "35", "86", "99")) and luhn(digits)


def iban_length(text: str) -> int:
    """How many characters of `text`, blanks aside, are an IBAN; 0 when it does not begin with one."""
    length = IBAN_LENGTHS.get(text[:2].upper(), 0)
    account = text[:length].upper()
    if not length or len(account) < length or not (account.isascii() and account.isalnum()):
        return 0
    number = "".join(str(int(char, 36)) for char in account[4:] + account[:4])
    return length if int(number) % 97 == 1 else 0


def iban_check_digits(country: str, account: str) -> str:
    """The two check digits of an account, of which letters and digits are given in capitals."""
    number = "".join(str(int(char, 36)) for char in f"{account}{country}00")
    return f"{98 - int(number) % 97:02}"


def is_ssn(area: str, group: str, serial: str) -> bool:
    """True for a US social security number that can have been given out."""
    return area not in ("000", "666") and area[0] != "9" and group != "00" and serial != "0000"


def jwt_header(token: str) -> bool:
    """True when the first part decodes to a JSON object, as the header of a JWT does."""
    head = unbase64(token.partition(".")[0])
    return head is not None and head.startswith(b'{"') and b'"alg"' in head


def unbase64(text: str | bytes) -> bytes | None:
    """The bytes that base64 of either alphabet, padded or not, stands for; None when it stands for none."""
    data = text.encode() if isinstance(text, str) else text
    data = data.rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
    if len(data) % 4 == 1:
        return None
    try:
        return a2b_base64(data + b"=" * (-len(data) % 4))
    except Error:
        return None
