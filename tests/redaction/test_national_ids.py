"""National ids, by their checks and beside words for them. The numbers are those of manuals and encyclopedias."""

from __future__ import annotations

import pytest

from replaykit.redaction import DEFAULT, Redactor, find
from replaykit.redaction.prefilter import is_plainly_clean
from replaykit.redaction.search import hits_in

ANYWHERE = {
    "Brazil": "529.982.247-25",
    "Spain, foreigners": "X1234567L",
    "China": "11010519491231002X",
    "France": "2 95 10 99 126 111 93",
    "Italy": "RCCMNL83S18D969H",
    "Finland": "131052-308T",
    "Belgium": "85.07.30-033.28",
}
NAMED = {
    "Brazil": ("CPF", "52998224725"),
    "Spain": ("DNI", "12345678Z"),
    "India": ("Aadhaar", "2341 2341 2346"),
    "India, in one": ("UIDAI", "234123412346"),
    "Germany": ("Steuer-ID", "36574261809"),
    "Germany, in groups": ("Identifikationsnummer", "86 095 742 719"),
    "United Kingdom": ("NINO", "AB123456C"),
    "United Kingdom, in groups": ("National Insurance number", "AB 12 34 56 C"),
    "Poland": ("PESEL", "44051401359"),
    "Netherlands": ("BSN", "111222333"),
    "Sweden": ("personnummer", "811218-9876"),
    "Sweden, with the century": ("personnummer", "198112189876"),
    "Norway": ("fødselsnummer", "15108695088"),
    "Turkey": ("T.C. Kimlik No", "10000000146"),
    "United States": ("social security number", "123456789"),
    "United States, short": ("SSN", "123456789"),
}
FRAMES = ["{}", "it is {}, as we know", '{{"note": "seen: {}"}}', "row;{};x", "note={}&n=1"]


def found_in(text: str) -> list[str]:
    return [text[found.start : found.end] for found in find(text) if found.kind in ("id-number", "ssn")]


@pytest.mark.parametrize("country", ANYWHERE)
@pytest.mark.parametrize("frame", FRAMES)
def test_a_number_with_a_strict_check_is_found_anywhere(country: str, frame: str) -> None:
    assert found_in(frame.format(ANYWHERE[country])) == [ANYWHERE[country]]


@pytest.mark.parametrize("country", NAMED)
@pytest.mark.parametrize("frame", ["{}: {}", "my {} is {}, please", '{{"text": "the {} of Jane Doe: {}"}}'])
def test_a_number_beside_its_name_is_found(country: str, frame: str) -> None:
    name, number = NAMED[country]

    assert found_in(frame.format(name, number)) == [number]


def with_one_digit_more(number: str) -> str:
    """The number with its last digit but one counted up, which breaks every check here."""
    places = [place for place, char in enumerate(number) if char.isdigit()]
    place = places[-2]
    return f"{number[:place]}{(int(number[place]) + 1) % 10}{number[place + 1 :]}"


@pytest.mark.parametrize("country", ANYWHERE)
def test_a_number_with_a_wrong_check_digit_is_none(country: str) -> None:
    assert found_in(f"see {with_one_digit_more(ANYWHERE[country])} there") == []


@pytest.mark.parametrize("country", NAMED)
def test_without_its_name_a_short_number_is_an_id(country: str) -> None:
    assert found_in(f"order {NAMED[country][1]} has left") == []


@pytest.mark.parametrize("number", [*ANYWHERE.values(), *(" ".join(row) for row in NAMED.values())])
def test_a_quick_look_lets_none_pass(number: str) -> None:
    for text in (number, f"see {number}, please", f'{{"a": ["{number}"]}}', number.upper()):
        assert hits_in(text, DEFAULT) == [] or not is_plainly_clean(text.encode())


def test_a_number_is_replaced_once_and_stays_so() -> None:
    redactor = Redactor(b"a key for tests, thirty-two long")
    text = "\n".join([*ANYWHERE.values(), *(": ".join(row) for row in NAMED.values())])

    after = redactor.text(text)

    assert not [number for number in (*ANYWHERE.values(), *(row[1] for row in NAMED.values())) if number in after]
    assert redactor.text(after) == after
