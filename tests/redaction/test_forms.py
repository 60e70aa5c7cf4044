"""Placeholders with the form of the value: what parses the value parses them, and nobody has what they say."""

from __future__ import annotations

import base64
import ipaddress
import json
import re
import subprocess
import sys
import uuid
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.redaction.made_up_secrets import jwt, with_crc

from replaykit.redaction import Redactor
from replaykit.redaction.checksums import iban_check_digits, luhn, luhn_digit
from replaykit.redaction.placeholders import (
    agree,
    canonical,
    is_placeholder,
    old_placeholder,
    placeholder,
    placeholders_in,
)

KEY = b"a key for tests, thirty-two long"
REDACTOR = Redactor(KEY)
OTHER = Redactor(b"another key, thirty-two long too")


def stand_in(kind: str, value: str) -> str:
    return placeholder(KEY, kind, value)


def skeleton(text: str) -> str:
    """The text with its digits and letters blurred: grouping and length."""
    return re.sub(r"[0-9]", "0", re.sub(r"[A-Za-z]", "a", text))


def test_an_address_has_one_at_sign_and_a_reserved_domain() -> None:
    name, domain = stand_in("email", "alice@acme.com").split("@")

    assert re.fullmatch(r"p-[0-9a-f]{8}", name)
    assert domain.endswith(".redacted.invalid")


def test_people_of_one_company_stay_people_of_one_company() -> None:
    alice, bob, carol = (stand_in("email", f"{who}.com") for who in ("alice@acme", "bob@ACME", "carol@other"))

    assert alice.split("@")[0] != bob.split("@")[0]
    assert alice.split("@")[1] == bob.split("@")[1] != carol.split("@")[1]


PHONES = [
    "+1 415 555 0132", "+14155550132", "(415) 555-0132", "415-555-0132", "1-415-555-0132", "+49 30 901820123",
    "+44 7700 900123", "+33 6 12 34 56 78", "+45 12 34 56 78", "020 7946 0958", "06 12 34 56 78", "0049 30 901820123",
]  # fmt: skip


@pytest.mark.parametrize("phone", PHONES)
def test_a_phone_keeps_its_digits_grouping_and_length(phone: str) -> None:
    shown = stand_in("phone", phone)

    assert shown != phone
    assert skeleton(shown) == skeleton(phone)
    assert is_placeholder(shown, "phone")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("+1 (415) 555-0132", "14155550132"),
        ("+1 (415) 555-0132", "+14155550132"),
        ("+49 30 901820123", "4930901820123"),
        ("4111 1111 1111 1111", "4111111111111111"),
    ],
)
def test_taking_the_digits_of_a_placeholder_is_redacting_the_digits(one: str, other: str) -> None:
    kind = "card" if one.startswith("4") else "phone"

    assert re.sub(r"\D", "", stand_in(kind, one)) == re.sub(r"\D", "", stand_in(kind, other))


def test_the_national_part_of_a_placeholder_is_the_placeholder_of_the_national_part() -> None:
    assert stand_in("phone", "+14155550132")[2:] == stand_in("phone", "4155550132")


@pytest.mark.parametrize(
    "card", ["4111 1111 1111 1111", "4111111111111111", "5555-5555-5555-4444", "3782 822463 10005", "30569309025904"]
)
def test_a_card_keeps_its_length_and_grouping_and_has_a_right_check_digit(card: str) -> None:
    shown = stand_in("card", card)

    assert skeleton(shown) == skeleton(card)
    assert luhn(re.sub(r"\D", "", shown))
    assert shown.startswith("9999")


@pytest.mark.parametrize("iban", ["DE89 3704 0044 0532 0130 00", "GB29NWBK60161331926819", "NO9386011117947"])
def test_an_iban_keeps_its_form_and_has_right_check_digits(iban: str) -> None:
    shown = stand_in("iban", iban)
    compact = shown.replace(" ", "")

    assert skeleton(shown) == skeleton(iban)
    assert compact.startswith("XX")
    assert int("".join(str(int(char, 36)) for char in compact[4:] + compact[:4])) % 97 == 1


def test_numbers_of_people_and_devices_keep_their_form() -> None:
    assert re.fullmatch(r"9\d\d-(?!00)[0-4]\d-(?!0000)\d{4}", stand_in("ssn", "123-45-6789"))
    imei = stand_in("imei", "490154203237518")
    assert imei.startswith("00")
    assert luhn(imei)


def test_addresses_of_machines_parse_and_nobody_has_them() -> None:
    four = ipaddress.ip_address(stand_in("ip", "8.8.8.8"))
    assert four in ipaddress.ip_network("240.0.0.0/4")
    for six in ("2a00:1450:4001:81b::200e", "2a00:1450:4001:081b:0000:0000:0000:200e"):
        assert ipaddress.ip_address(stand_in("ip", six)) in ipaddress.ip_network("2001:db8::/32")


def test_a_token_has_three_parts_and_the_header_says_its_algorithm() -> None:
    header, payload, signature = stand_in("jwt", jwt()).split(".")

    decoded = [json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))) for part in (header, payload)]
    assert decoded == [{"alg": "HS256", "typ": "JWT"}, {}]
    assert re.fullmatch(r"[\w-]+", signature)


def test_a_uuid_beside_a_telling_name_stays_a_uuid() -> None:
    shown = REDACTOR.value({"api_key": "550e8400-e29b-41d4-a716-446655440000"})["api_key"]

    assert uuid.UUID(shown).version == 8
    assert is_placeholder(shown)


def test_a_number_stays_a_number() -> None:
    shown = REDACTOR.value({"phone": 14155550132, "card_number": 4111111111111111, "ssn": 123456789})

    assert {name: (type(value), len(str(value))) for name, value in shown.items()} == {
        "phone": (int, 11),
        "card_number": (int, 16),
        "ssn": (int, 9),
    }


def test_a_credential_keeps_the_prefix_of_its_provider_and_is_no_key() -> None:
    shown = stand_in("github-token", with_crc("ghp_"))

    assert re.fullmatch(r"ghp_<github-token:[0-9a-f]{8}>", shown)
    assert stand_in("openai-key", "sk-proj-" + "x" * 40).startswith("sk-proj-<openai-key:")


SCANNERS = {
    "gitleaks, any key": r"(?i)[\w.-]{0,50}?(?:access|auth|api|credential|creds|key|passw(?:or)?d|secret|token)"
    r"(?:[ \t\w.-]{0,20})[\s'\"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'\"\s=]{0,5}"
    r"([\w.=-]{10,150}|[a-z0-9][a-z0-9+/]{11,}={0,3})(?:[\x60'\"\s;]|\\[nr]|$)",
    "gitleaks, jwt": r"\b(ey[a-zA-Z0-9]{17,}\.ey[a-zA-Z0-9\/\\_-]{17,}\.(?:[a-zA-Z0-9\/\\_-]{10,}={0,2})?)",
    "github": r"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{22,})",
    "openai": r"\bsk-(?:proj-|svcacct-)?[A-Za-z0-9_-]{20,}",
    "aws": r"\b(?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}",
    "stripe": r"\b[rs]k_(?:live|test)_[a-zA-Z0-9]{10,99}",
    "slack": r"\bxox[a-z]-[A-Za-z0-9-]{10,}",
    "google": r"\bAIza[\w-]{35}",
}


@pytest.mark.parametrize("scanner", SCANNERS.values(), ids=SCANNERS.keys())
@pytest.mark.parametrize("line", ["{}", 'api_key = "{}"', '"token": "{}",', "Authorization: Bearer {}", "?key={}"])
def test_no_scanner_takes_a_placeholder_for_a_key(scanner: str, line: str) -> None:
    made = {
        "github-token": with_crc("ghp_"),
        "openai-key": "sk-proj-" + "x" * 40,
        "aws-key": "AKIA" + "A" * 16,
        "stripe-key": "sk_live_" + "x" * 24,
        "slack-token": "xoxb-" + "1" * 20,
        "gcp-key": "AIza" + "x" * 35,
        "jwt": jwt(),
        "secret": "550e8400-e29b-41d4-a716-446655440000",
    }

    for kind, value in made.items():
        text = line.format(stand_in(kind, value))
        found = re.search(scanner, text)
        assert found is None or entropy(found[1] or found[0]) <= 3.5, text


def entropy(text: str) -> float:
    from math import log2

    counts = [text.count(char) for char in set(text)]
    return -sum(count / len(text) * log2(count / len(text)) for count in counts)


def cards(number: int) -> str:
    body = f"4{number % 10**14:014}"
    return body + luhn_digit(body)


def ibans(number: int) -> str:
    account = f"{number % 10**18:018}"
    return f"DE{iban_check_digits('DE', account)}{account}"


MAKERS: dict[str, Callable[[int], str]] = {
    "email": lambda n: f"user{n}@mail{n % 7}.example.com",
    "phone": lambda n: f"+1 {201 + n % 80}-{200 + n // 7 % 700}-{n % 9973:04}",
    "card": cards,
    "iban": ibans,
    "ssn": lambda n: f"{100 + n % 500}-{1 + n % 98:02}-{1 + n % 9973:04}",
    "ip": lambda n: f"{65 + n % 30}.{64 + n // 80 % 150}.{64 + n % 151}.{1 + n % 199}",
    "imei": lambda n: f"35{n % 10**12:012}" + luhn_digit(f"35{n % 10**12:012}"),
}
numbers = st.integers(0, 2**48)


@pytest.mark.parametrize("kind", MAKERS)
@given(number=numbers)
def test_a_placeholder_is_known_as_one_and_never_redacted_again(kind: str, number: int) -> None:
    shown = stand_in(kind, MAKERS[kind](number))

    assert is_placeholder(shown, kind)
    for text in (f"the {kind} {shown} here", json.dumps({kind: shown}), json.dumps({"a": f'{{"{kind}": "{shown}"}}'})):
        assert REDACTOR.text(text) == text
        assert OTHER.text(text) == text
        assert REDACTOR.scan(text) == []


@pytest.mark.parametrize("kind", MAKERS)
@given(number=numbers)
def test_a_value_is_not_taken_for_a_placeholder(kind: str, number: int) -> None:
    value = MAKERS[kind](number)
    text = f"({kind} {value})"

    assert not any(found.is_certain for found in placeholders_in(text.encode()))
    assert value not in REDACTOR.text(text)


@pytest.mark.parametrize("kind", MAKERS)
def test_two_values_stay_two(kind: str) -> None:
    values = {MAKERS[kind](number * 7919) for number in range(1500)}

    assert len({stand_in(kind, value) for value in values}) == len(values)


@pytest.mark.parametrize("kind", MAKERS)
@given(number=numbers)
def test_an_old_placeholder_is_the_new_one_of_the_same_value(kind: str, number: int) -> None:
    value = MAKERS[kind](number)
    old, new = (f'{{"q": "{text}"}}'.encode() for text in (old_placeholder(KEY, kind, value), stand_in(kind, value)))
    other = f'{{"q": "{stand_in(kind, MAKERS[kind](number + 1))}"}}'.encode()

    assert agree(old, new)
    assert not agree(old, other)


def test_the_same_value_has_the_same_placeholder_in_another_process() -> None:
    code = f"from replaykit.redaction.placeholders import placeholder; print(placeholder({KEY!r}, 'ip', '8.8.8.8'))"

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert said.strip() == stand_in("ip", "8.8.8.8")


def test_what_was_cut_off_is_no_value() -> None:
    for value in ("alice@acme.com", "+1 415 555 0132", jwt()):
        shown = REDACTOR.text(f"see {value}")
        for length in range(4, len(shown)):
            left = [found for found in REDACTOR.scan(shown[:length]) if found.kind in ("email", "phone", "jwt")]
            assert left == [], shown[:length]


@pytest.mark.parametrize("address", ["29.49.173.158", "129.49.173.158"])
def test_an_address_of_a_machine_is_no_phone_that_nobody_has(address: str) -> None:
    assert address not in REDACTOR.text(f"from host {address}")


def test_digits_in_a_reserved_range_are_still_a_password_or_a_pin() -> None:
    shown = REDACTOR.value({"password": "000 1234 5678", "pin": "912345678", "passport_number": "000123456"})

    assert shown["password"].startswith("<secret:")
    assert shown["pin"].startswith("<secret:")
    assert shown["passport_number"].startswith("<id-number:")


def test_spellings_are_compared_by_what_they_stand_for() -> None:
    one, other = stand_in("phone", "+1 415-555-0132"), stand_in("phone", "+14155550132")

    assert one != other
    assert canonical(f'"{one}"'.encode()) == canonical(f'"{other}"'.encode())
    assert canonical(b'{"at": 1731841234.567, "n": 14155550132}') == b'{"at": 1731841234.567, "n": 14155550132}'
