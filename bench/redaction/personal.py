"""Personal data: right by every rule of its form, random from the seed, and nobody's as far as that can be.

Cards begin with the issuers' test ranges. Addresses are at invented domains.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

from .checks import iban, luhn_digit
from .forms import DIGITS, LOWER_HEX, Form, digits, pick, word
from .marked import Marked, sensitive

Text = Callable[[random.Random], str]


def _of(kind: str, text: Text) -> Callable[[random.Random], Marked]:
    return lambda rng: sensitive(text(rng), kind)


def _domain(rng: random.Random, tld: str) -> str:
    return f"{word(rng)}{rng.choice(('', '', '-'))}{word(rng)}.{tld}"


_EMAILS: dict[str, Text] = {
    "plain": lambda rng: f"{word(rng)}.{word(rng)}@{_domain(rng, 'com')}",
    "de": lambda rng: f"{word(rng)}_{word(rng)}@{_domain(rng, 'de')}",
    "co-uk": lambda rng: f"{word(rng)[0]}{word(rng)}{rng.randint(60, 99)}@{_domain(rng, 'co.uk')}",
    "jp": lambda rng: f"{word(rng)}-{word(rng)}@{_domain(rng, 'ac.jp')}",
    "plus": lambda rng: f"{word(rng)}+{word(rng)}{rng.randint(1, 99)}@{_domain(rng, 'io')}",
    "subdomain": lambda rng: f"{word(rng)}@mail.{word(rng)}.{_domain(rng, 'org')}",
    "capitals": lambda rng: f"{word(rng).capitalize()}.{word(rng).capitalize()}@{_domain(rng, 'FR').upper()}",
    "long-tld": lambda rng: f"{word(rng)}@{_domain(rng, rng.choice(('photography', 'technology', 'museum')))}",
    "punycode": lambda rng: f"{word(rng)}@xn--{word(rng)}-{pick(rng, 'abkpq1234', 4)}.ch",
    "idn": lambda rng: f"{word(rng)}@{word(rng)}-{rng.choice(('bücher', 'señal', 'forêt', 'straße'))}.eu",
    "quoted": lambda rng: f'"{word(rng)} {word(rng)}"@{_domain(rng, "net")}',
}

# d is any digit; n one from 2 to 9. Prefixes are of ranges that are in use.
_PHONES = {
    "us": ("+1 {a} nnd dddd", "+1-{a}-nnd-dddd", "({a}) nnd-dddd", "{a}-nnd-dddd", "{a}.nnd.dddd", "+1{a}nnddddd"),
    "gb": ("+44 20 7nnd dddd", "+44 7412 dddddd", "020 7nnd dddd", "07412 dddddd", "+442079nddddd"),
    "de": ("+49 30 nddddddd", "+49 (0)151 nddddddd", "030 / nddddddd", "0151-nddddddd", "+49151nddddddd"),
    "fr": ("+33 6 2d dd dd dd", "+33 1 4n dd dd dd", "06 2d dd dd dd", "01.4n.dd.dd.dd", "+3362ddddddd"),
    "es": ("+34 6nd ddd ddd", "+34 91 nnd dd dd", "6nd ddd ddd", "+346nddddddd"),
    "it": ("+39 06 nddd dddd", "+39 34n ddddddd", "34n-ddddddd", "+3934nddddddd"),
    "nl": ("+31 6 4ddddddd", "+31 20 ndd dddd", "06-4ddddddd", "+3164ddddddd"),
    "br": ("+55 11 9nddd-dddd", "(11) 9nddd-dddd", "+55119nddddddd"),
    "in": ("+91 98ndd ddddd", "+91-98nddddddd", "098ndd ddddd"),
    "jp": ("+81 3-nddd-dddd", "+81 90-nddd-dddd", "090-nddd-dddd", "03-nddd-dddd"),
    "au": ("+61 2 9ndd dddd", "+61 41d ddd ddd", "041d ddd ddd", "(02) 9ndd dddd"),
    "se": ("+46 70 ndd dd dd", "070-ndd dd dd", "+4670ndddddd"),
    "ch": ("+41 44 ndd dd dd", "+41 79 ndd dd dd", "079 ndd dd dd"),
    "za": ("+27 82 ndd dddd", "082 ndd dddd"),
    "kr": ("+82 10-nddd-dddd", "010-nddd-dddd"),
    "mx": ("+52 55 nddd dddd", "55 nddd dddd"),
    "pl": ("+48 60n ddd ddd", "60n ddd ddd"),
}
_AREAS = ("212", "415", "312", "206", "617", "303", "404", "713")
_PHONE_NAMES = ("phone", "Phone", "tel", "mobile", "phone_number", "phoneNumber", "Telefon", "téléphone", "fax")


def _phone(shape: str) -> Text:
    draw = {"d": DIGITS, "n": "23456789"}

    def text(rng: random.Random) -> str:
        filled = shape.replace("{a}", rng.choice(_AREAS))
        return "".join(rng.choice(draw[letter]) if letter in draw else letter for letter in filled)

    return text


_CARDS = {
    "visa": (("400000", "424242", "401288"), 16, (4, 4, 4, 4)),
    "mastercard": (("555555", "222300", "510510"), 16, (4, 4, 4, 4)),
    "amex": (("378282", "371449"), 15, (4, 6, 5)),
    "discover": (("601111", "601198"), 16, (4, 4, 4, 4)),
}


def _card(issuer: str, separator: str) -> Text:
    starts, size, groups = _CARDS[issuer]

    def text(rng: random.Random) -> str:
        number = rng.choice(starts)
        number += pick(rng, DIGITS, size - 1 - len(number))
        number += luhn_digit(number)
        cuts = [sum(groups[:index]) for index in range(len(groups) + 1)]
        return separator.join(number[start:end] for start, end in pairwise(cuts))

    return text


# How accounts are written in each country: d digit, A capital letter, X either.
_ACCOUNTS = {
    "DE": "d" * 18,
    "FR": "d" * 10 + "X" * 11 + "dd",
    "GB": "AAAA" + "d" * 14,
    "NL": "AAAA" + "d" * 10,
    "ES": "d" * 20,
    "IT": "A" + "d" * 10 + "X" * 12,
    "BE": "d" * 12,
    "CH": "d" * 5 + "X" * 12,
    "AT": "d" * 16,
    "PL": "d" * 24,
    "SE": "d" * 20,
    "NO": "d" * 11,
    "PT": "d" * 21,
    "IE": "AAAA" + "d" * 14,
    "SA": "dd" + "X" * 18,
    "TR": "d" * 6 + "X" * 16,
}
ACCOUNT_SIZES = {country: len(shape) + 4 for country, shape in _ACCOUNTS.items()}


def _iban(country: str, *, spaced: bool) -> Text:
    draw = {"d": DIGITS, "A": "BCDGKLMNRSTUW", "X": "0123456789ABCDKLMNP"}

    def text(rng: random.Random) -> str:
        number = iban(country, "".join(rng.choice(draw[letter]) for letter in _ACCOUNTS[country]))
        return " ".join(number[at : at + 4] for at in range(0, len(number), 4)) if spaced else number

    return text


def _imei(rng: random.Random) -> str:
    number = rng.choice(("35", "86", "01")) + pick(rng, DIGITS, 12)
    return number + luhn_digit(number)


def _imei_dashed(rng: random.Random) -> str:
    number = _imei(rng)
    return f"{number[:2]}-{number[2:8]}-{number[8:14]}-{number[14]}"


def _ssn(rng: random.Random) -> str:
    area = rng.choice([number for number in range(1, 900) if number != 666])
    return f"{area:03}-{rng.randint(1, 99):02}-{rng.randint(1, 9999):04}"


def _ipv4(rng: random.Random) -> str:
    # First numbers of networks in use, without those for private, local, documentation or multicast addresses.
    first = rng.choice((5, 13, 31, 34, 46, 52, 62, 78, 81, 85, 91, 93, 109, 151, 178, 185, 194, 212, 217))
    return ".".join(str(part) for part in (first, *(rng.randint(20, 250) for _ in range(3))))


def _ipv6(*, short: bool) -> Text:
    def text(rng: random.Random) -> str:
        start = rng.choice(("2a02", "2a01", "2600", "2607", "2400"))
        parts = [start, *(rng.choice("123456789abcdef") + pick(rng, LOWER_HEX, 3) for _ in range(3 if short else 7))]
        return ":".join(parts[:-1]) + "::" + parts[-1] if short else ":".join(parts)

    return text


def _passport(rng: random.Random) -> str:
    return rng.choice(
        (digits(rng, 9), f"{pick(rng, 'CFGHJK', 1)}{pick(rng, 'CFGHJKLMN0123456789', 7)}{pick(rng, DIGITS, 1)}")
    )


_IMEI_NAMES = ("imei", "IMEI", "device_imei")
_PASSPORT_NAMES = ("passport_number", "passportNumber", "passport_no", "reisepassnummer")
_ID_NAMES = ("national_id", "nationalId", "drivers_license", "driver_license_number", "identity_card_number")


FORMS = [
    *(
        Form(f"email-{name}", _of("email", text), ("email", "user", "from", "contact"), places=14)
        for name, text in _EMAILS.items()
    ),
    *(
        Form(
            f"phone-{country}-{number}", _of("phone", _phone(shape)), _PHONE_NAMES, not shape.startswith("+"), places=5
        )
        for country, shapes in _PHONES.items()
        for number, shape in enumerate(shapes)
    ),
    *(
        Form(f"card-{issuer}-{name}", _of("card", _card(issuer, separator)), ("card", "card_number", "pan", "value"))
        for issuer in _CARDS
        for name, separator in (("solid", ""), ("spaces", " "), ("dashes", "-"))
    ),
    *(
        Form(
            f"iban-{country.lower()}{'-spaced' * spaced}",
            _of("iban", _iban(country, spaced=spaced)),
            ("iban", "IBAN", "account"),
            places=6,
        )
        for index, country in enumerate(_ACCOUNTS)
        for spaced in ((False, True) if index < 6 else (index % 2 == 0,))
    ),
    Form("ssn-dashes", _of("ssn", _ssn), ("ssn", "SSN", "social_security_number", "value"), places=36),
    Form(
        "ssn-solid",
        _of("ssn", lambda rng: _ssn(rng).replace("-", "")),
        ("ssn", "SSN", "social_security_number"),
        True,
        places=36,
    ),
    Form("ipv4", _of("ip", _ipv4), ("ip", "client_ip", "remote_addr", "value"), places=36),
    Form("ipv6-full", _of("ip", _ipv6(short=False)), ("ip", "client_ip", "value"), places=36),
    Form("ipv6-short", _of("ip", _ipv6(short=True)), ("ip", "client_ip", "value"), places=36),
    Form("imei", _of("imei", _imei), _IMEI_NAMES, needs_name=True, places=36),
    Form("imei-dashed", _of("imei", _imei_dashed), _IMEI_NAMES, needs_name=True, places=36),
    Form("passport", _of("document", _passport), _PASSPORT_NAMES, needs_name=True, places=36),
    Form(
        "national-id",
        _of("document", lambda rng: f"{pick(rng, 'ABCDEFGHJK', 2)}{digits(rng, 7)}"),
        _ID_NAMES,
        True,
        places=36,
    ),
]
