"""A view of a text for searching: bytes of the same length, so that positions stay the same.

Searching literals in bytes runs at gigabytes a second, and a translated copy (`shape`) turns character classes into
literals. Escaped line ends and placeholders are blanked: neither may hide or cause a finding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from string import ascii_lowercase, ascii_uppercase, digits

from replaykit.redaction.finding import Hit
from replaykit.redaction.lazy_patterns import lazy

# Typographic dashes, blanks, quotes and signs, and their ASCII counterparts.
_TYPOGRAPHIC = (
    "\u00a0\u2009\u202f\u3000\u2010\u2011\u2012\u2013\u2212\u201c\u201d\u201e\u2018\u2019\uff1a\uff0b",
    '    -----"""\'\':+',
)
_FORM = lazy(rb"=(?<=[\w.\-\]%]=)[^\s=\"'<>`]{1,4096}\+")
_RARE_ESCAPE = lazy(rb"\\[rt]")
# Escapes in JSON strings that were escaped one to four times, by the backslashes of their `\n`.
_LEVELS = {
    count: lazy(
        rb"(?<!\\)(?:\\{%d}(?P<control>[nrt])|\\{%d}(?P<border>\")|(?P<quotes>(?:\\{%d}\"){1,64}))"
        % (count, count - 1, 2 * count - 1)
    )
    for count in (1, 2, 4, 8)
}
_CONTROLS = {b"n": b"\n", b"t": b"\t", b"r": b" "}


class Trait:
    """Traits of a text that decide which rules run at all, wherever in the text their values are.

    A part of a text has the traits of the whole, so that it is searched as it would be inside it. Traits are bits of a
    number, because checking a flag of `enum` takes a microsecond.
    """

    DIGITS = 1
    """Three digits, so that names of numbers may have a value."""
    PLUS = 2
    EQUALS = 4
    FIELDS = PLUS | EQUALS
    """The characters of form encoding."""
    FORM = 8
    """A form field with a plus, which stands for a blank."""
    SERVICE_ACCOUNT = 16
    """Google's file with a private key."""


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
    """Yield every position of the word."""
    at = text.find(word, first, last)
    while at >= 0:
        yield at
        at = text.find(word, at + 1, last)


def class_table(classes: dict[str, str], other: str) -> bytes:
    """Return a table for `bytes.translate` that maps the members of each class to its name."""
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
    """A text as bytes (`flat`), in lower case (`low`), and as character classes (`shape`, `runs`).

    In `shape`, lower-case letters are `a`, upper-case ones `A`, digits `0`; in `runs`, characters of tokens are `a`.
    """

    __slots__ = ("_unescaped", "findings", "flat", "low", "runs", "shape", "text", "traits")

    def __init__(self, text: str, around: int = 0) -> None:
        self.text = text
        self.findings: list[Hit] = []
        """The findings so far: a value next to a name may contain some."""
        self._unescaped: dict[int, bytes] = {}
        flat = _flattened(text)
        if b"\\" in flat:
            # Whitespace ends a number in patterns, like a real line end.
            flat = _RARE_ESCAPE.sub(b"\v ", flat.replace(b"\\n", b"\v "))
        flat = _without_placeholders(flat)
        self.flat = flat
        self.low = flat.lower()
        self.shape = flat.translate(_SHAPE)
        self.runs = flat.translate(RUNS)
        self.traits = around | _traits_of(flat, self.shape)

    def unescaped(self, backslashes: int) -> bytes | None:
        """Return the bytes decoded as in the JSON strings whose line ends have so many backslashes.

        Blanks keep the length of escapes, and a quote at the start or end of such a string becomes a line end.
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


# Sequences that make escapes depend on each other, and the byte that temporarily replaces a quote.
_NOT_SIMPLE = (b"\\\\", b'\\"' * 4, b"\0")
_SIMPLE = (
    (b"\\n", b"\n "),
    (b"\\t", b"\t "),
    (b"\\r", b"  "),
    *((b'\\"' * count, b" " * count + b"\0" * count) for count in (3, 2, 1)),
    (b'"', b"\n"),
    (b"\0", b'"'),
)


def _unescaped_once(flat: bytes) -> bytes:
    """Replace simple escapes as the pattern for one backslash would, in a tenth of the time."""
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
    """Return the text as bytes of the same length, with ASCII counterparts of typographic characters."""
    if not text.isascii():
        for char, plain in zip(*_TYPOGRAPHIC, strict=True):
            text = text.replace(char, plain)  # most are absent; `translate` would look up each character in a table
    return text.encode("ascii", "replace")
