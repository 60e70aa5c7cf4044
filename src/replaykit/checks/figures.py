"""Figures: find the numbers, amounts, dates, ids, URLs and quoted names in a text, and their meaning.

A figure is something that a reader could check: "$4.2 billion", "12 March 2024", "ORD-991". List numbering, code, times
of day and small counting numbers are not figures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct

from replaykit.checks.figure_dates import Day, date_spans
from replaykit.model.text_lines import words_of
from replaykit.redaction.lazy_patterns import lazy

SMALL = 12
"""Whole numbers up to this one are used for counting, and need no source."""
_WELL_KNOWN = frozenset({24, 52, 60, 100, 180, 360, 365, 366, 1000, 1024, 3600})
_YEARS = range(1900, 2101)
_MAX_NAME_CHARS = 80
_BARE_WORDS = 6
_MIN_LINE_CHARS = 12
_LINKS = frozenset(words_of("of the and de da di du la le von van der in y e et und"))

_FENCED = lazy(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|<code>.*?(?:</code>|\Z)", re.DOTALL)
_PATCH = lazy(r"\A\s*(?:diff --git |--- a/|\*\*\* Begin Patch)")
_ESCAPE = lazy(r"\\u([0-9a-fA-F]{4})")
_NUMBERING = lazy(
    r"^[ \t>*•-]*(?:#{1,6}[ \t]*)?(?:\*\*)?(?:\(?\d{1,3}[.):]|(?:step|option|part|section|chapter|figure"
    r"|table|phase|day|question|example|item|no|nr"
    r"|schritt|étape|paso|passo|stap|krok)\.? ?#?\d{1,3}\b[.:)]?)(?=\s|\*)",
    re.MULTILINE | re.IGNORECASE,
)
_LABELLED = lazy(
    r"\b(?:step|option|part|section|chapter|figure|fig|table|phase|question|example|page|line|level|version|v|python"
    r"|gpt|claude|gemini|llama|rfc|iso|utf|http|top|grade|windows)[ -]?#?v?\d+(?:\.\d+)*\b",
    re.IGNORECASE,
)
_TIME = lazy(
    r"\b\d{1,2}:\d{2}(?::\d{2})?(?:\.\d+)?(?:\s?[ap]\.?m\b\.?)?|\b\d{1,2}\s?[ap]\.?m\b\.?|\b\d{1,2}(?:h|\s?Uhr)\b",
    re.IGNORECASE,
)
_URL = lazy(r"\b(?:https?://|www\.)[^\s<>\"'`\])}»”|]+", re.IGNORECASE)
_EMAIL = lazy(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,80}(?:\.[\w-]{1,80}){1,8}")
_ID = lazy(
    r"(?<![\w.])(?:"
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"  # UUID
    r"|\d+(?:\.\d+){2,}"  # dotted: an address, a version, a classification
    r"|\d{1,4}(?:[ -]\d{2,4}){2,5}"  # in groups: a card, a phone
    # Letters and digits:
    r"|\#?(?=[\w/-]{0,80}\d)(?=[\w/-]{0,80}[A-Za-z])[A-Za-z0-9]{1,80}(?:[_/-][A-Za-z0-9]{1,80}){0,8}"
    r"|\#\d{3,}"
    r")(?![\w])"
)
_UNITS = (
    "st|nd|rd|th|s|x|k|m|b|bn|mn|d|p|g|h|hr|hrs|min|ms|km|kg|cm|mm|mg|lb|lbs|oz|ft|in|mph|kb|mb|gb|tb|kwh|mw|gw|hz|khz"
    "|mhz|ghz|px|pt|c|f|w|v|a|er|ers|e|ème|º|ª"
)
# Letters with digits that identify nothing: `3D`, `21st`, `10km`, `Q3`, `CO2`, `COVID-19`, `30-day`.
_ORDINARY_ID = lazy(
    rf"\#?(?:\d+(?:{_UNITS})|[a-z]{{1,2}}\d|\d[a-z]|q[1-4]|fy\d{{2,4}}|covid-?19|[a-z]+-?\d|[a-z]{{2,}}\d{{1,2}}"
    rf"|\d+-[a-z]+(?:-[a-z]+)*|sha\d+|[a-z]\d{{1,2}})",
    re.IGNORECASE,
)
_QUOTED = lazy(r"[\"“„«「『](?P<name>[^\"“”„«»「」『』\n]{2,80})[\"”“»」』]")


class Figure(Struct, frozen=True, kw_only=True):
    """One figure in a text."""

    kind: str
    """`number`, `date`, `id`, `url`, `name`, or `line` of a patch."""
    text: str
    """The figure as written."""
    start: int
    values: tuple[float, ...] = ()
    """The possible values of a number: `1.234` has two."""
    tolerances: tuple[float, ...] = ()
    """How far a source may differ because of rounding, for each value."""
    days: tuple[Day, ...] = ()
    is_percent: bool = False
    is_money: bool = False
    digits: str = ""
    """The digits and separators of a number."""

    @property
    def core(self) -> str:
        """The part of the text to search elsewhere."""
        return self.digits or self.text

    @property
    def key(self) -> str:
        """An id, URL or name in normalised form."""
        return plain_key(self.text)


def plain_key(text: str) -> str:
    """Return letters and digits only, in lower case: `ORD-991`, `#ord 991` and `Ord_991` are equal."""
    return re.sub(r"[\W_]+", "", text.casefold())


def url_key(text: str) -> str:
    """Return a URL without scheme, `www.`, fragment, query and closing punctuation."""
    bare = re.sub(r"^https?://(?:www\.)?|^www\.", "", text.casefold())
    return re.split(r"[?#]", bare)[0].rstrip("/.,;:!*_")


def without_escapes(text: str) -> str:
    """Return a text with JSON escapes decoded: `\\u00e9` is not an id."""
    if "\\u" not in text:
        return text
    return _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), text)


def stated_figures(text: str) -> list[Figure]:
    """Return the figures in an answer that need a source."""
    text = without_escapes(text)
    if _PATCH.match(text):
        return _patch_lines(text)
    if not is_bare_answer(text):
        return [figure for figure in all_figures(_prose(text)) if not _needs_no_source(figure)]
    figures = [figure for figure in all_figures(text) if not _is_small(figure)]
    return figures or _bare_names(text)


def _patch_lines(text: str) -> list[Figure]:
    """Return the lines that a patch assumes to exist: removed lines and context."""
    found = []
    start = 0
    for line in text.splitlines(keepends=True):
        is_old = line[:1] in ("-", " ") and not line.startswith("--- ")
        if is_old and len(plain_key(line)) >= _MIN_LINE_CHARS:
            found.append(Figure(kind="line", text=line[1:].strip(), start=start + 1))
        start += len(line)
    return found


def is_bare_answer(text: str) -> bool:
    """Return whether an answer is only a figure or a name, such as `1937` or `Wen Jiabao`."""
    words = text.split()
    if not words or len(words) > _BARE_WORDS or len(text) > _MAX_NAME_CHARS:
        return False
    return not any(word[0].islower() and word.lower() not in _LINKS for word in words)


def all_figures(text: str) -> list[Figure]:
    """Return every figure in a text, in order."""
    found: list[Figure] = []
    rest = text
    for reader in (_urls, _emails, _dates, _times, _ids, _numbers):
        figures = list(reader(rest))
        found += figures
        rest = _blanked(rest, figures)
    found += _names(text)
    return sorted((figure for figure in found if figure.kind), key=lambda figure: figure.start)


def _prose(text: str) -> str:
    """Return the text with code, list numbering and labels such as `Step 3` blanked out."""
    for pattern in (_FENCED, _NUMBERING, _LABELLED):
        text = pattern.sub(lambda found: " " * len(found[0]), text)
    return text


def _needs_no_source(figure: Figure) -> bool:
    if figure.kind != "number" or figure.is_money:
        return False
    value = abs(figure.values[0])
    if value != int(value):
        return False
    if figure.is_percent:
        return value in (0, 100)
    return _is_small(figure) or value in _WELL_KNOWN or (value in _YEARS and figure.text.isdigit())


def _is_small(figure: Figure) -> bool:
    """Return whether this is a whole number that only counts things."""
    if figure.kind != "number" or figure.is_money or figure.is_percent:
        return False
    value = abs(figure.values[0])
    return value <= SMALL and value == int(value)


def _urls(text: str) -> Iterator[Figure]:
    for found in _URL.finditer(text):
        yield Figure(kind="url", text=found[0].rstrip(".,;:!?*_"), start=found.start())


def _emails(text: str) -> Iterator[Figure]:
    return _matches("id", _EMAIL, text)


def _matches(kind: str, pattern: re.Pattern[str], text: str) -> Iterator[Figure]:
    for found in pattern.finditer(text):
        yield Figure(kind=kind, text=found[0], start=found.start())


def _dates(text: str) -> Iterator[Figure]:
    for start, end, days in date_spans(text):
        yield Figure(kind="date", text=text[start:end], start=start, days=days)


def _times(text: str) -> Iterator[Figure]:
    """Find times of day, so that their digits are not read as numbers; they need no source."""
    return _matches("", _TIME, text)


def _ids(text: str) -> Iterator[Figure]:
    for figure in _matches("id", _ID, text):
        digits = sum(map(str.isdigit, figure.text))
        if digits >= 2 and len(figure.text) >= 4 and not _ORDINARY_ID.fullmatch(figure.text):
            yield figure


def _numbers(text: str) -> Iterator[Figure]:
    for number in read_numbers(text):
        values, tolerances = zip(*number.readings, strict=True)
        yield Figure(
            kind="number",
            text=number.text,
            start=number.start,
            values=values,
            tolerances=tolerances,
            is_percent=number.is_percent,
            is_money=number.is_money,
            digits=number.digits,
        )


def _names(text: str) -> Iterator[Figure]:
    for found in _QUOTED.finditer(text):
        name = found["name"].strip(" .,;:!?")
        if _is_name(name):
            yield Figure(kind="name", text=name, start=found.start("name"))


def _bare_names(text: str) -> list[Figure]:
    """Return the names in an answer that consists of names: at least two capitalised words, split at commas."""
    words = text.strip(" .!\"'").split()
    if len(words) < 2 or text.isupper() or not all(word[0].isupper() or not word[0].isalpha() for word in words):
        return []
    parts = [part.strip(" .!\"'") for part in re.split(r"[,;]", text)]
    return [Figure(kind="name", text=part, start=text.find(part)) for part in parts if len(part) > 3]


def _is_name(text: str) -> bool:
    """Return whether a text is two to eight words with capitals, as in names and titles."""
    words = re.findall(r"[^\W\d_][\w'’-]{3,}", text)
    return 2 <= len(text.split()) <= 8 and len(words) >= 2 and all(word[0].isupper() for word in words)


def _blanked(text: str, figures: list[Figure]) -> str:
    """Replace figures by blanks, so that nothing is read twice."""
    pieces: list[str] = []
    done = 0
    for figure in figures:
        pieces += [text[done : figure.start], " " * len(figure.text)]
        done = figure.start + len(figure.text)
    return "".join([*pieces, text[done:]])


Reading: TypeAlias = tuple[float, float]
"""A value and its tolerance."""

_MAX_DIGITS = 40
_CURRENCY = (
    r"[$€£¥₹₽₩元円]|R\$|\b(?:USD|EUR|GBP|JPY|CNY|CHF|INR|BRL|PLN|CAD|AUD|SEK|NOK|DKK|RUB|zł|kr)\b"
    r"|\b(?:dollars?|euros?|pounds?|cents)\b"
)
# Words after a number, and their powers of ten.
_SCALES = {
    **dict.fromkeys(["k", "thousand", "tsd", "mille", "mil"], 3),
    **dict.fromkeys(
        words_of("m mm mn mio million millions millionen millones millón milhões milhão milioni miljoen"),
        6,
    ),
    **dict.fromkeys(
        words_of("bn b billion billions mrd milliarden milliarde milliards miliardi miljard bilhões"),
        9,
    ),
    **dict.fromkeys(["trillion", "trillions", "t"], 12),
    "lakh": 5,
    "crore": 7,
    "万": 4,
    "萬": 4,
    "億": 8,
    "亿": 8,
}
# Letters that may also be units: they scale only amounts of money.
_SHORT_SCALES = frozenset({"k", "m", "b", "t", "mm"})
_PERCENT = r"%|percent\b|per cent\b|prozent\b|pour ?cent\b|por ciento\b|por cento\b|procent\b|パーセント"
# Not directly after a letter, except in Chinese, Japanese and Korean, which use no space before numbers.
_NOT_IN_A_WORD = r"(?<![^\W\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff])(?<!\.)"
_NUMBER = lazy(
    rf"(?P<before>(?:{_CURRENCY})\s?)?(?P<sign>(?<![\w)])[-−+])?{_NOT_IN_A_WORD}"
    rf"(?P<digits>\d+(?:[.,'’\u00a0\u202f]\d+|[ \u00a0\u202f]\d{{3}}(?!\d))*)"
    rf"(?P<scale>\s?(?:{'|'.join(sorted(_SCALES, key=len, reverse=True))})\b|[万萬億亿])?"
    rf"(?P<percent>\s?(?:{_PERCENT}))?(?P<after>\s?(?:{_CURRENCY}))?",
    re.IGNORECASE,
)
_ORDINAL = lazy(r"(?:st|nd|rd|th|er|ème|º|ª)\b", re.IGNORECASE)


class NumberText(Struct, frozen=True, kw_only=True):
    """A number as written in a text."""

    text: str
    start: int
    digits: str
    """Its digits and separators."""
    readings: tuple[Reading, ...]
    is_percent: bool
    is_money: bool


def read_numbers(text: str) -> Iterator[NumberText]:
    """Yield the numbers of a text in order, without ordinals such as `21st`."""
    for found in _NUMBER.finditer(text):
        is_money = bool(found["before"] or found["after"])
        power = _power(found["scale"] or "", is_money=is_money)
        readings = tuple(_readings(found["digits"], power))
        if not readings or _ORDINAL.match(text, found.end("digits")):
            continue
        if found["sign"] in ("-", "−"):
            readings = tuple((-value, tolerance) for value, tolerance in readings)
        blanks = len(found[0]) - len(found[0].lstrip())
        yield NumberText(
            text=found[0].strip(),
            start=found.start() + blanks,
            digits=found["digits"],
            readings=readings,
            is_percent=bool(found["percent"]),
            is_money=is_money,
        )


def _power(scale: str, *, is_money: bool) -> int:
    word = scale.strip().lower()
    if word in _SHORT_SCALES and not is_money:
        return 0
    return _SCALES.get(word, 0)


def _readings(digits: str, power: int) -> Iterator[Reading]:
    """Yield the possible readings of digits with separators."""
    plain = re.sub(r"['’ \u00a0\u202f]", "", digits)
    if len(plain) > _MAX_DIGITS:
        return
    separators = [letter for letter in plain if letter in ".,"]
    if not separators:
        yield _scaled(plain, "", power)
        return
    whole, _, fraction = plain.rpartition(separators[-1])
    is_mixed = len(set(separators)) > 1
    if is_mixed or len(separators) == 1:
        yield _scaled(re.sub(r"[.,]", "", whole), fraction, power)
    groups = re.split(r"[.,]", plain)
    # India groups by two digits, but the last group has three everywhere.
    are_thousands = all(len(group) in (2, 3) for group in groups[1:]) and len(groups[-1]) == 3
    if are_thousands and not is_mixed:
        yield _scaled("".join(groups), "", power)


def _scaled(whole: str, fraction: str, power: int) -> Reading:
    value = float(f"{whole or 0}.{fraction or 0}") * 10.0**power
    if fraction or power:
        return value, 0.5000001 * 10.0 ** (power - len(fraction))
    # A round number may have two significant digits: 1,200 may stand for 1,187.
    zeros = len(whole) - len(whole.rstrip("0"))
    rounded = min(zeros, len(whole) - 2)
    return value, 0.5 * 10.0**rounded if rounded >= 2 else 0.0
