"""National ids, which have a checksum or stand next to a word that names them.

Long forms with a strict check are found anywhere: codice fiscale, Chinese resident id, French NIR, a CPF with dots. Of
short numbers, one in ten or twenty passes the check by chance, so a word must name them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from operator import mul

from msgspec import Struct

from replaykit.redaction.checksums import is_ssn, luhn
from replaykit.redaction.finding import Hit
from replaykit.redaction.lazy_patterns import lazy, lazy_automaton
from replaykit.redaction.text_view import Trait, View, places_of

WORDS = (
    b"cpf dni aadhaar aadhar uidai steuer identifikationsn pesel bsn burgerservice personnummer samordningsn dselsn "
    b"kimlik nino insurance ssn social"
).split()
"""Every word that names such a number contains one of these."""
_NEAR = 60
_LONGEST = 40  # longer than any of the numbers, including the character after it
_APART = lazy(rb"[^0-9A-Za-z]+")
_SPANISH_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"
# The values of letters at odd positions of a codice fiscale; digits count like the first ten letters.
_ODD = (1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24, 23)
_AS_LETTERS = str.maketrans("0123456789", "ABCDEFGHIJ")
_FINNISH = "0123456789ABCDEFHJKLMNPRSTUVWXY"
_VERHOEFF = (
    "0123456789", "1234067895", "2340178956", "3401289567", "4012395678",
    "5987604321", "6598710432", "7659821043", "8765932104", "9876543210",
)  # fmt: skip
_VERHOEFF_SHIFTS = (
    "0123456789", "1576283094", "5803796142", "8916043527", "9453126870", "4286573901", "2793806415", "7046913258",
)  # fmt: skip


class NationalId(Struct, frozen=True):
    """One kind of number: its form, its check, and when to search for it.

    Each number has one of the character classes in `signs` (see `View.shape`), and one of `words` must be near.
    """

    form: re.Pattern[bytes]
    is_right: Callable[[str], bool]
    signs: tuple[bytes, ...] = ()
    words: tuple[bytes, ...] = ()
    kind: str = "id-number"

    def is_named_in(self, low: bytes) -> bool:
        """Return whether one of the words is in the text on its own, or none is required."""
        for word in self.words:
            for at in places_of(low, word):
                if stands_alone(low, at, at + len(word)):
                    return True
        return not self.words


def national_id_hits(view: View) -> Iterator[Hit]:
    """Yield the numbers that pass a strict check."""
    if not view.traits & Trait.DIGITS:
        return
    places: dict[NationalId, list[int]] = {}
    for index, start, _ in _SIGNS.find_matches_as_indexes(view.shape, overlapping=True):
        places.setdefault(_OWNERS[index], []).append(start)
    for national_id, starts in places.items():
        yield from _hits(view, national_id, starts, _LONGEST)


def named_id_hits(view: View, literals: frozenset[bytes]) -> Iterator[Hit]:
    """Yield the numbers next to a word for them."""
    if literals.isdisjoint(NAMES_OF_IDS):
        return
    for national_id in _NAMED:
        starts: list[int] = []
        for word in literals.intersection(national_id.words):
            starts += places_of(view.low, word)
        if starts:
            yield from _hits(view, national_id, sorted(starts), 0)


def _hits(view: View, national_id: NationalId, signs: list[int], before_sign: int) -> Iterator[Hit]:
    """Yield the numbers that begin near one of these positions, or up to `before_sign` characters before it.

    Searching the whole text would take a hundred times as long, since the patterns begin with no literal.
    """
    for first, last in _stretches(signs, before_sign, _NEAR + _LONGEST):
        for found in national_id.form.finditer(view.flat, first, last):
            start, end = found.span()
            before = view.low[max(0, start - _NEAR) : start]
            if not national_id.is_named_in(before):
                continue
            if national_id.is_right(_APART.sub(b"", found[0]).decode().upper()):
                yield Hit(national_id.kind, start, end, 4)


def _stretches(places: list[int], before: int, after: int) -> Iterator[tuple[int, int]]:
    """Yield the surroundings of these sorted positions, merged where they overlap."""
    first, last = max(0, places[0] - before), places[0] + after
    for place in places[1:]:
        if place - before > last:
            yield first, last
            first = place - before
        last = place + after
    yield first, last


def _weighted(digits: str, weights: str) -> int:
    return sum(map(mul, map(int, digits), map(int, weights.split())))


def is_cpf(digits: str) -> bool:
    """Return whether this is a number of the Brazilian taxpayers' registry."""
    first = _weighted(digits[:9], "10 9 8 7 6 5 4 3 2") * 10 % 11 % 10
    second = _weighted(digits[:10], "11 10 9 8 7 6 5 4 3 2") * 10 % 11 % 10
    return digits[9:] == f"{first}{second}" and len(set(digits)) > 1


def is_dni(text: str) -> bool:
    """Return whether this is a Spanish identity number; those of foreigners begin with X, Y or Z."""
    number = text[:-1].translate(str.maketrans("XYZ", "012"))
    return _SPANISH_LETTERS[int(number) % 23] == text[-1]


def is_aadhaar(digits: str) -> bool:
    """Return whether this is an Indian Aadhaar number (Verhoeff)."""
    check = 0
    for place, digit in enumerate(reversed(digits)):
        check = int(_VERHOEFF[check][int(_VERHOEFF_SHIFTS[place % 8][int(digit)])])
    return check == 0


def is_chinese_id(text: str) -> bool:
    """Return whether this is a Chinese resident id: region, date of birth, and check character."""
    total = _weighted(text[:17], "7 9 10 5 8 4 2 1 6 3 7 9 10 5 8 4 2")
    return "10X98765432"[total % 11] == text[17] and 11 <= int(text[:2]) <= 82 and _is_date(text[6:14])


def is_nir(text: str) -> bool:
    """Return whether this is a French social security number."""
    body = text[:13].replace("2A", "19").replace("2B", "18")
    return body.isdigit() and text[13:].isdigit() and 97 - int(body) % 97 == int(text[13:])


def is_steuer_id(digits: str) -> bool:
    """Return whether this is a German tax id: one of the first ten digits occurs two or three times."""
    counts = sorted(map(digits[:10].count, set(digits[:10])))
    if counts[-1] not in (2, 3) or counts[-2:-1] == [counts[-1]] or digits[0] == "0":
        return False
    product = 10
    for digit in digits[:10]:
        product = ((int(digit) + product) % 10 or 10) * 2 % 11
    return (11 - product) % 10 == int(digits[10])


def is_codice_fiscale(text: str) -> bool:
    """Return whether this is an Italian tax code."""
    total = 0
    for place, char in enumerate(text[:15].translate(_AS_LETTERS)):
        value = ord(char) - 65
        if place % 2 == 0:
            value = _ODD[value]
        total += value
    return chr(65 + total % 26) == text[15]


def is_pesel(digits: str) -> bool:
    """Return whether this is a Polish PESEL, whose month includes the century."""
    month = int(digits[2:4]) % 20
    is_birth = 1 <= month <= 12 and 1 <= int(digits[4:6]) <= 31
    return is_birth and (10 - _weighted(digits[:10], "1 3 7 9 1 3 7 9 1 3") % 10) % 10 == int(digits[10])


def is_bsn(digits: str) -> bool:
    """Return whether this is a Dutch citizen service number."""
    return (_weighted(digits[:8], "9 8 7 6 5 4 3 2") - int(digits[8])) % 11 == 0 and int(digits) > 0


def is_personnummer(digits: str) -> bool:
    """Return whether this is a Swedish personal number; coordination numbers add 60 to the day."""
    short = digits[-10:]
    return 1 <= int(short[2:4]) <= 12 and 1 <= int(short[4:6]) % 60 <= 31 and luhn(short)


def is_norwegian_id(digits: str) -> bool:
    """Return whether this is a Norwegian birth number."""
    first = -_weighted(digits[:9], "3 7 6 1 8 9 4 5 2") % 11
    second = -_weighted(digits[:10], "5 4 3 2 7 6 5 4 3 2") % 11
    return [first, second] == [int(digits[9]), int(digits[10])] and 1 <= int(digits[:2]) % 40 <= 31


def is_finnish_id(text: str) -> bool:
    """Return whether this is a Finnish identity code, without its century sign."""
    number = text[:6] + text[-4:-1]
    is_birth = 1 <= int(text[:2]) <= 31 and 1 <= int(text[2:4]) <= 12
    return is_birth and _FINNISH[int(number) % 31] == text[-1]


def is_belgian_id(digits: str) -> bool:
    """Return whether this is a Belgian national number; for births since 2000, a 2 is prefixed."""
    number, check = int(digits[:9]), 97 - int(digits[9:])
    return check in (number % 97, (2 * 10**9 + number) % 97)


def is_turkish_id(digits: str) -> bool:
    """Return whether this is a Turkish identity number."""
    odd, even = sum(map(int, digits[0:9:2])), sum(map(int, digits[1:8:2]))
    return (odd * 7 - even) % 10 == int(digits[9]) and sum(map(int, digits[:10])) % 10 == int(digits[10])


def _is_date(digits: str) -> bool:
    year, month, day = int(digits[:4]), int(digits[4:6]), int(digits[6:])
    return 1900 <= year <= 2100 and 1 <= month <= 12 and 1 <= day <= 31


def _has_no_check(_: str) -> bool:
    return True


_BEFORE, _AFTER = rb"(?<![A-Za-z0-9_])(?<!\d[.-])", rb"(?![A-Za-z0-9_])(?![.-]\d)"


def _form(pattern: bytes) -> re.Pattern[bytes]:
    return lazy(_BEFORE + b"(?:" + pattern + b")" + _AFTER)


_DIGITS = b"0" * 13
# Found anywhere.
_STRICT = (
    NationalId(_form(rb"\d{3}\.\d{3}\.\d{3}-\d\d"), is_cpf, (b"000.000.000-00",)),
    NationalId(_form(rb"[XYZ]\d{7}[ -]?[A-HJ-NP-TV-Z]"), is_dni, (b"A0000000",)),
    NationalId(_form(rb"[1-8]\d{5}(?:19|20)\d{9}[\dXx]"), is_chinese_id, (_DIGITS,)),
    NationalId(
        _form(rb"[12][ .-]?\d\d[ .-]?(?:0[1-9]|1[0-2]|[2-9]\d)[ .-]?(?:\d\d|2[ABab])(?:[ .-]?\d{3}){2}[ .-]?\d\d"),
        is_nir,
        (_DIGITS, b"000 000 00", b"000.000.00", b"000-000-00"),
    ),
    NationalId(_form(rb"[A-Z]{6}\d\d[A-EHLMPR-T]\d\d[A-Z]\d{3}[A-Z]"), is_codice_fiscale, (b"AAAAAA00A00A000A",)),
    NationalId(
        _form(rb"\d{6}[-+A]\d{3}[0-9A-FHJ-NPR-Y]"), is_finnish_id, (b"000000-000", b"000000+000", b"000000A000")
    ),
    NationalId(_form(rb"\d\d\.\d\d\.\d\d-\d{3}\.\d\d"), is_belgian_id, (b"00.00.00-000.00",)),
)
# Found next to one of their words.
_NAMED = (
    NationalId(_form(rb"\d{11}"), is_cpf, words=(b"cpf",)),
    NationalId(_form(rb"\d{8}[ -]?[A-HJ-NP-TV-Z]"), is_dni, words=(b"dni",)),
    NationalId(_form(rb"[2-9]\d{3}([ -]?)\d{4}\1\d{4}"), is_aadhaar, words=(b"aadhaar", b"aadhar", b"uidai")),
    NationalId(_form(rb"\d\d ?\d{3} ?\d{3} ?\d{3}"), is_steuer_id, words=(b"steuer", b"identifikationsn")),
    NationalId(
        _form(rb"[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z](?: ?\d\d){3} ?[A-D]"),
        _has_no_check,
        words=(b"nino", b"national insurance"),
    ),
    NationalId(_form(rb"\d{11}"), is_pesel, words=(b"pesel",)),
    NationalId(_form(rb"\d{9}|\d{4}[ .]\d\d[ .]\d{3}"), is_bsn, words=(b"bsn", b"burgerservice")),
    NationalId(_form(rb"(?:19|20)?\d{6}[-+]?\d{4}"), is_personnummer, words=(b"personnummer", b"samordningsn")),
    NationalId(_form(rb"\d{6} ?\d{5}"), is_norwegian_id, words=(b"dselsn", b"personnummer")),
    NationalId(_form(rb"[1-9]\d{10}"), is_turkish_id, words=(b"kimlik",)),
    NationalId(_form(rb"\d{9}|\d{3} \d\d \d{4}"), is_ssn, words=(b"ssn", b"social security"), kind="ssn"),
)
NAMES_OF_IDS = tuple(word for national_id in _NAMED for word in national_id.words)
_SIGNS_AND_OWNERS = [(sign, national_id) for national_id in _STRICT for sign in national_id.signs]
_SIGNS = lazy_automaton([sign for sign, _ in _SIGNS_AND_OWNERS])
_OWNERS = [national_id for _, national_id in _SIGNS_AND_OWNERS]
_SHORT = 5


def stands_alone(low: bytes, start: int, end: int) -> bool:
    """Return whether a word may name a number; short ones must not be part of another word (`midnight`)."""
    return end - start > _SHORT or not (low[max(0, start - 1) : start].isalpha() or low[end : end + 1].isalpha())
