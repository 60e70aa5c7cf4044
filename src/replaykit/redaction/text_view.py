"""A view of a text for searching: bytes of the same length, so that every position is one of the text.

Looking for literals in bytes runs at gigabytes a second, and a translated copy (`shape`) turns character classes into
literals. Escaped line ends and placeholders are blanked: neither may hide or make a finding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from string import ascii_lowercase, ascii_uppercase, digits

from replaykit.redaction.finding import Hit
from replaykit.redaction.lazy_patterns import lazy

_TYPOGRAPHIC = (
    "\u00a0\u2009\u202f\u3000\u2010\u2011\u2012\u2013\u2212\u201c\u201d\u201e\u2018\u2019\uff1a\uff0b",
    '    -----"""\'\':+',
)
"""Dashes, blanks, quotes and signs, and the plain ones that stand for them."""
_FORM = lazy(rb"=(?<=[\w.\-\]%]=)[^\s=\"'<>`]{1,4096}\+")
_RARE_ESCAPE = lazy(rb"\\[rt]")
_LEVELS = {
    count: lazy(
        rb"(?<!\\)(?:\\{%d}(?P<control>[nrt])|\\{%d}(?P<border>\")|(?P<quotes>(?:\\{%d}\"){1,64}))"
        % (count, count - 1, 2 * count - 1)
    )
    for count in (1, 2, 4, 8)
}
"""Escapes in a string of JSON that was escaped once, twice, three or four times, by the backslashes of its `\\n`."""
_CONTROLS = {b"n": b"\n", b"t": b"\t", b"r": b" "}


class Trait:
    """Traits of a text that decide which rules are asked at all, wherever in the text their values stand.

    A part of a text has the traits of the whole: it is searched as it would be inside of it. They are bits of a
    number, because a flag of `enum` takes a microsecond each time it is asked.
    """

    DIGITS = 1
    """Three digits: names of numbers may have a value."""
    PLUS = 2
    EQUALS = 4
    FIELDS = PLUS | EQUALS
    """The characters that forms are made of."""
    FORM = 8
    """A field of a form with a plus, which is a blank there."""
    SERVICE_ACCOUNT = 16
    """The file that Google gives out with a private key."""


def _traits_of(flat: bytes, shape: bytes) -> int:
    traits = 0
    if b"000" in shape:
        traits |= Trait.DIGITS
    if b"=" in flat:
        traits |= Trait.EQUALS
    if b"+" in flat:
        traits |= Trait.PLUS
        if traits & Trait.EQUALS and _FORM.search(flat):
            traits |= Trait.FORM
    if b"service_account" in flat:
        traits |= Trait.SERVICE_ACCOUNT
    return traits


def places_of(text: bytes, word: bytes, first: int = 0, last: int | None = None) -> Iterator[int]:
    """Yield every place where the word begins."""
    at = text.find(word, first, last)
    while at >= 0:
        yield at
        at = text.find(word, at + 1, last)


def class_table(classes: dict[str, str], other: str) -> bytes:
    """Return a table for `bytes.translate` that turns the members of each class into its name."""
    table = bytearray(other.encode() * 256)
    for name, members in classes.items():
        for member in members:
            table[ord(member)] = ord(name)
    return bytes(table)


_SHAPE = class_table(
    {"a": ascii_lowercase + "_", "A": ascii_uppercase, "0": digits, **{char: char for char in " .-()/+:"}}, "x"
)
RUNS = class_table({"a": ascii_lowercase + ascii_uppercase + digits + "_-+/"}, " ")


class View:
    """The text, its bytes (`flat`), those in lower case (`low`), and classes of characters (`shape`, `runs`).

    In `shape` a lower-case letter is `a`, an upper-case one `A`, a digit `0`; in `runs` what tokens are made of is `a`.
    """

    __slots__ = ("_unescaped", "findings", "flat", "low", "runs", "shape", "text", "traits")

    def __init__(self, text: str, around: int = 0) -> None:
        self.text = text
        self.findings: list[Hit] = []
        """The findings in it so far: a value beside a name may hold them."""
        self._unescaped: dict[int, bytes] = {}
        flat = _flattened(text)
        if b"\\" in flat:
            # A blank to patterns that ends a number, as a real line end does.
            flat = _RARE_ESCAPE.sub(b"\v ", flat.replace(b"\\n", b"\v "))
        flat = _without_placeholders(flat)
        self.flat = flat
        self.low = flat.lower()
        self.shape = flat.translate(_SHAPE)
        self.runs = flat.translate(RUNS)
        self.traits = around | _traits_of(flat, self.shape)

    def unescaped(self, backslashes: int) -> bytes | None:
        """Return the bytes as they read inside of the JSON strings whose line ends have so many backslashes.

        Escapes keep their length by blanks, and a quote that begins or ends such a string is a line end.
        """
        level = _LEVELS.get(backslashes)
        if level is None:
            return None
        if backslashes not in self._unescaped:
            flat = _flattened(self.text)
            if backslashes == 1 and not any(map(flat.__contains__, _NOT_SIMPLE)):
                plain = _unescaped_once(flat)
            else:
                plain = level.sub(_unescape, flat)
            self._unescaped[backslashes] = _without_placeholders(plain)
        return self._unescaped[backslashes]


def _without_placeholders(flat: bytes) -> bytes:
    from replaykit.redaction.placeholders import blanked, spans  # noqa: PLC0415 (the quick look has no view of a text)

    return blanked(flat, spans(flat))


_NOT_SIMPLE = (b"\\\\", b'\\"' * 4, b"\0")
"""The characters that make escapes depend on each other, and the byte that stands for a quote in between."""
_SIMPLE = (
    (b"\\n", b"\n "),
    (b"\\t", b"\t "),
    (b"\\r", b"  "),
    *((b'\\"' * count, b" " * count + b"\0" * count) for count in (3, 2, 1)),
    (b'"', b"\n"),
    (b"\0", b'"'),
)


def _unescaped_once(flat: bytes) -> bytes:
    """Return what the pattern for one backslash makes of the bytes, in a tenth of the time: most JSON is simple."""
    for escape, char in _SIMPLE:
        flat = flat.replace(escape, char)
    return flat


def _unescape(escape: re.Match[bytes]) -> bytes:
    width = len(escape[0])
    if escape["control"]:
        return _CONTROLS[escape["control"]].ljust(width)
    if escape["border"]:
        return b"\n".ljust(width)
    return (b'"' * escape["quotes"].count(b'"')).rjust(width)


def _flattened(text: str) -> bytes:
    """Return the text as bytes of the same length, with plain dashes, blanks and quotes for typographic ones."""
    if not text.isascii():
        for char, plain in zip(*_TYPOGRAPHIC, strict=True):
            text = text.replace(char, plain)  # most are not there; `translate` asks a table for each character
    return text.encode("ascii", "replace")
