"""Personal data: numbers with a check, addresses, phones."""

from __future__ import annotations

import pytest

from replaykit.redaction import Redactor, find
from replaykit.redaction.checksums import IBAN_LENGTHS, iban_length, is_card, is_imei, luhn


def found_in(text: str) -> list[tuple[str, str]]:
    return [(found.kind, text[found.start : found.end]) for found in find(text)]


def by_the_book(body: str) -> str:
    total = 0
    for place, digit in enumerate(reversed(body)):
        doubled = int(digit) * (2 if place % 2 == 0 else 1)
        total += doubled - 9 if doubled > 9 else doubled
    return body + str(-total % 10)


def iban(country: str, account: str) -> str:
    number = "".join(str(int(char, 36)) for char in account + country + "00")
    return f"{country}{98 - int(number) % 97:02d}{account}"


CARDS = [
    "411111111111111",
    "555555555555444",
    "34000000000000",
    "601100099013942",
    "352800070000000",
    "222300004841001",
]


@pytest.mark.parametrize("body", CARDS)
def test_a_card_is_found_by_its_check_digit(body: str) -> None:
    card = by_the_book(body)
    wrong = card[:-1] + str((int(card[-1]) + 1) % 10)
    spaced = " ".join(card[at : at + 4] for at in range(0, 16, 4)) if len(card) == 16 else card

    assert found_in(f"pay {card} please") == [("card", card)]
    assert found_in(f"pay {spaced} please") == [("card", spaced)]
    assert found_in(f"order {wrong} shipped") == []


def test_luhn_is_the_one_of_the_book() -> None:
    assert all(luhn(by_the_book(str(number))) for number in range(12345, 12445))
    assert not luhn("0000000000000000")
    assert is_card("4111111111111111")
    assert not is_card("1234567812345670")
    assert is_imei("490154203237518", named=True)
    assert not is_imei("490154203237518")


@pytest.mark.parametrize("country", sorted(IBAN_LENGTHS))
def test_an_iban_has_the_length_of_its_country(country: str) -> None:
    account = iban(country, "1234567890123456789012345678901234"[: IBAN_LENGTHS[country] - 4])
    spaced = " ".join(account[at : at + 4] for at in range(0, len(account), 4))

    assert iban_length(account) == len(account)
    assert iban_length(account[:-1]) == 0
    assert found_in(f"to {account}.") == [("iban", account)]
    assert found_in(f"to {spaced}, thanks") == [("iban", spaced)]


@pytest.mark.parametrize(
    "address",
    [
        "jane@example.com",
        "jane.doe+news@mail.example.co.uk",
        "o'brien@example.ie",
        "müller@bücher.de",
        "用户@例子.公司",
        "x_y-z@sub.xn--bcher-kva.example",
        '"jane doe"@example.com',
    ],
)
@pytest.mark.parametrize(
    "frame", ["write to {} today", "<{}>", "mailto:{}", "a;{};b", "{}.", '{{"to": ["{}"]}}', "email={}&x=1"]
)
def test_an_address_is_found_whole(address: str, frame: str) -> None:
    if '"' in address and '"' in frame:
        return
    assert found_in(frame.format(address)) == [("email", address)]


@pytest.mark.parametrize(
    "number",
    [
        "+49 30 1234567",
        "+1 (415) 555-2671",
        "+442079460958",
        "+33 1 23 45 67 89",
        "+91 98765 43210",
        "+55 11 91234-5678",
        "+81 3-1234-5678",
        "+86 138 0013 8000",
        "+61 412 345 678",
        "+34 612 345 678",
        "+39 06 1234 5678",
        "(415) 555-2671",
        "415-555-2671",
        "415.555.2671",
        "020 7946 0958",
        "0171 1234567",
        "030/1234567",
        "01 23 45 67 89",
        "090-1234-5678",
        "0412 345 678",
        "98765 43210",
        "(11) 91234-5678",
    ],
)
def test_a_phone_is_found_by_its_shape(number: str) -> None:
    assert found_in(f"it was {number}, I think") == [("phone", number)]


@pytest.mark.parametrize(
    "word", ["phone", "Tel.", "Mobile", "Telefon", "teléfono", "电话", "телефон", "WhatsApp", "Fax"]
)
def test_bare_digits_are_a_phone_beside_a_word_for_one(word: str) -> None:
    assert found_in(f"{word}: 4155552671") == [("phone", "4155552671")]
    assert found_in("something: 4155552671") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ssn 123-45-6789", [("ssn", "123-45-6789")]),
        ("SSN: 123 45 6789", [("ssn", "123 45 6789")]),
        ("number 000-45-6789", []),
        ("number 666-45-6789", []),
        ("number 900-45-6789", []),
        ("imei: 490154203237518", [("imei", "490154203237518")]),
        ("35-209900-176148-1", [("imei", "35-209900-176148-1")]),
        ("35-209900-176148-2", []),
        ("from 203.0.113.77 port 22", [("ip", "203.0.113.77")]),
        ("seen 2001:db8:85a3::8a2e:370:7334 today", [("ip", "2001:db8:85a3::8a2e:370:7334")]),
        ("client 8.8.8.8:53", [("ip", "8.8.8.8")]),
        ("passport_number: X1234567", [("id-number", "X1234567")]),
        ('{"nationalId": "AB-123456"}', [("id-number", "AB-123456")]),
        ("Passport No. X1234567", [("id-number", "X1234567")]),
        ("driver's license: D1234567", [("id-number", "D1234567")]),
        ("Tél : 06.12.34.56.78", [("phone", "06.12.34.56.78")]),
        ("jane [at] example [dot] com", [("email", "jane [at] example [dot] com")]),
    ],
)
def test_other_numbers_and_addresses(text: str, expected: list[tuple[str, str]]) -> None:
    assert found_in(text) == expected


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("card=4111+1111+1111+1111&x=1", "card"),
        ("to=DE89+3704+0044+0532+0130+00", "iban"),
        ("the refund was refused: (415) 555-2671", "phone"),
    ],
)
def test_numbers_in_queries_and_after_words_that_only_look_like_reference(text: str, kind: str) -> None:
    assert [found.kind for found in find(text)] == [kind]


def test_a_number_in_a_query_has_the_placeholder_it_has_elsewhere(redactor: Redactor) -> None:
    elsewhere = redactor.text("4111 1111 1111 1111").replace(" ", "+")

    assert redactor.text("card=4111+1111+1111+1111&x=1") == f"card={elsewhere}&x=1"
