"""Every checksum in the redaction corpus, verified by other means than those it was made with."""

from __future__ import annotations

import base64
import ipaddress
import json
import random
import re
import string
from collections.abc import Iterator

import pytest
from bench.redaction import checks, corpus
from bench.redaction.marked import OPINION
from hypothesis import given
from hypothesis import strategies as st

DOUBLED = [0, 2, 4, 6, 8, 1, 3, 5, 7, 9]
IBAN_SIZES = {
    country: size
    for size, countries in {
        15: "NO",
        16: "BE",
        18: "NL",
        20: "AT",
        21: "CH",
        22: "DE GB IE",
        24: "ES SE SA",
        25: "PT",
        26: "TR",
        27: "FR IT",
        28: "PL",
    }.items()
    for country in countries.split()
}
DIGITS62 = string.digits + string.ascii_uppercase + string.ascii_lowercase


def passes_luhn(number: str) -> bool:
    odd, even = number[-1::-2], number[-2::-2]
    return (sum(map(int, odd)) + sum(DOUBLED[int(digit)] for digit in even)) % 10 == 0


def passes_mod_97(number: str) -> bool:
    remainder = 0
    for character in number[4:] + number[:4]:
        value = int(character) if character.isdigit() else ord(character) - 55
        remainder = (remainder * (10 if value < 10 else 100) + value) % 97
    return remainder == 1


def crc32(data: bytes) -> int:
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0xEDB88320 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


def from_base_62(digits: str) -> int:
    value = 0
    for digit in digits:
        value = value * 62 + DIGITS62.index(digit)
    return value


def made(kind: str, form: str = "") -> Iterator[str]:
    """Values as the forms make them, many of each."""
    forms = [made_by for made_by in corpus.POSITIVE if made_by.id.startswith(form)]
    for each in forms:
        for seed in range(25):
            for text, label in each.make(random.Random(seed)).pieces:
                if label == kind:
                    yield text


def values(kind: str, form: str = "") -> list[str]:
    found = list(made(kind, form))
    assert len(found) >= 25
    return found


def test_cards_pass_luhn_and_begin_as_their_issuers_do() -> None:
    starts = {
        "visa": r"4\d{15}",
        "mastercard": r"(5[1-5]|222)\d{13,14}",
        "amex": r"3[47]\d{13}",
        "discover": r"6011\d{12}",
    }

    for issuer, shape in starts.items():
        for card in values("card", f"card-{issuer}"):
            number = re.sub("[ -]", "", card)
            assert passes_luhn(number)
            assert re.fullmatch(shape, number)


def test_ibans_pass_mod_97_and_have_their_countries_length() -> None:
    numbers = [iban.replace(" ", "") for iban in values("iban")]

    assert {number[:2] for number in numbers} == set(IBAN_SIZES)
    assert all(passes_mod_97(number) for number in numbers)
    assert all(len(number) == IBAN_SIZES[number[:2]] for number in numbers)


def test_imeis_pass_luhn() -> None:
    numbers = [imei.replace("-", "") for imei in values("imei")]

    assert all(passes_luhn(number) and len(number) == 15 for number in numbers)


@pytest.mark.parametrize(("kind", "form"), [("github", "github-c"), ("github", "github-app"), ("npm", "npm")])
def test_tokens_of_github_and_npm_end_with_their_checksum(kind: str, form: str) -> None:
    for token in values(kind, form):
        body, end = token[4:34], token[34:]
        assert from_base_62(end) == crc32(body.encode())


def test_the_checksum_is_githubs_own() -> None:
    assert checks.crc62("zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ") == "0mLq17"  # GitHub's published example of a token


def test_jwts_decode_to_a_header_and_claims() -> None:
    for token in values("jwt"):
        header, claims, signature = (
            base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)) for part in token.split(".")
        )
        assert json.loads(header)["typ"] == "JWT"
        assert json.loads(claims)["exp"] > json.loads(claims)["iat"]
        assert len(signature) in (32, 64)


def test_private_keys_are_base64_that_begins_as_such_keys_do() -> None:
    starts = {
        "pem-rsa": b"\x30\x82",
        "pem-ec": b"\x30\x77\x02\x01\x01",
        "pem-openssh": b"openssh-key-v1\0",
        "pem-private": b"\x30\x82",
    }

    for form, start in starts.items():
        for body in values("private-key", form):
            raw = base64.b64decode(body, validate=False)
            assert raw.startswith(start)
            if start == b"\x30\x82":
                assert int.from_bytes(raw[2:4], "big") == len(raw) - 4


def test_ip_addresses_are_public_ones() -> None:
    assert all(ipaddress.ip_address(address).is_global for address in values("ip"))


def test_social_security_numbers_are_in_ranges_that_were_given_out() -> None:
    for number in values("ssn"):
        area, middle, serial = re.fullmatch(r"(\d{3})-?(\d\d)-?(\d{4})", number).groups()  # type: ignore[union-attr]
        assert area not in ("000", "666")
        assert area < "900"
        assert middle != "00"
        assert serial != "0000"


def test_pypis_tokens_are_macaroons_for_pypi() -> None:
    for token in values("pypi"):
        body = token.removeprefix("pypi-")
        assert base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))[3:11] == b".".join((b"pypi", b"org"))


def test_basic_credentials_decode_to_a_user_and_a_password() -> None:
    for text in values("basic-auth", "basic-header"):
        user, _, password = base64.b64decode(text, validate=True).decode().partition(":")
        assert user
        assert len(password) >= 12


def test_no_harmless_sample_holds_a_number_that_passes_for_a_card_or_an_iban() -> None:
    for sample in corpus.corpus():
        if sample.spans:
            continue
        for digits in re.findall(r"(?<![\w.])[3-6]\d{3}(?:[ -]?\d{4}){2}[ -]?\d{3,4}(?![\w.])", sample.text):
            assert not passes_luhn(re.sub("[ -]", "", digits)), sample
        for number in re.findall(r"\b[A-Z]{2}\d\d[A-Z0-9]{11,30}\b", sample.text):
            assert not passes_mod_97(number), sample


def test_stretches_of_opinion_are_few() -> None:
    spans = [span for sample in corpus.corpus() for span in sample.spans]

    assert sum(span.kind == OPINION for span in spans) < len(spans) / 20


@given(st.text("0123456789", min_size=1, max_size=18))
def test_a_luhn_digit_completes_a_number_and_no_other_does(digits: str) -> None:
    right = checks.luhn_digit(digits)

    assert [end for end in string.digits if passes_luhn(digits + end)] == [right]


@given(st.sampled_from(sorted(IBAN_SIZES)), st.text(string.digits, min_size=11, max_size=26))
def test_an_iban_is_right_and_with_two_digits_swapped_it_is_not(country: str, account: str) -> None:
    number = checks.iban(country, account)
    swapped = number[:-2] + number[-1] + number[-2]

    assert passes_mod_97(number)
    assert swapped == number or not passes_mod_97(swapped)


@given(st.text("0123456789", min_size=12, max_size=12))
def test_an_ean_weighs_its_digits_one_and_three(digits: str) -> None:
    number = digits + checks.ean_digit(digits)

    assert (sum(map(int, number[::2])) + 3 * sum(map(int, number[1::2]))) % 10 == 0
