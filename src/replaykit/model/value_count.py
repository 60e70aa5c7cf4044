"""Count the values in a JSON text: a value takes a few bytes of text, but many in memory.

A text of 64 MB that repeats `{},` makes 21 million objects, in more than a gigabyte. So texts from outside are counted
before they are parsed.
"""

from __future__ import annotations

import re

import msgspec

FREE_VALUES = 2_000_000
"""Any text may have this many, however dense."""
MAX_VALUES = 20_000_000
_DENSE_BYTES = 4  # a value of a real trace takes more, with its name and quotes
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{\[,]', re.DOTALL)


class TooManyValues(msgspec.DecodeError, ValueError):
    """A text would create more values than any trace needs."""

    def __init__(self, size: int) -> None:
        super().__init__(f"more values than a trace of {size:,} bytes holds")


def check_value_count(text: bytes) -> None:
    """Raise `TooManyValues` for a text with more values than fit in memory, or with implausibly dense ones."""
    count = _at_most(text)
    is_dense = count > FREE_VALUES and count * _DENSE_BYTES > len(text)
    if is_dense or count > MAX_VALUES:
        raise TooManyValues(len(text))


def has_more_values(text: bytes, limit: int) -> bool:
    """Return whether a text has more values, strings and separators than the limit; brackets in strings do not
    count."""
    if _at_most(text) <= limit // 3:  # names and strings count too, at most two for each of these
        return False
    for number, _ in enumerate(_TOKEN.finditer(text)):
        if number > limit:
            return True
    return False


def _at_most(text: bytes) -> int:
    """Return an upper bound of the number of values, in a thousandth of the time that parsing takes."""
    if len(text) <= FREE_VALUES:
        return 0
    return text.count(b",") + text.count(b"{") + text.count(b"[")
