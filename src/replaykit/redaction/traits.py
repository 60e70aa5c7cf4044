"""Traits of a text that decide which rules are asked at all, wherever in the text their values stand.

Of a part of a text they are those of the whole: a part is looked at as it would be inside of it. They are bits of a
number, because a flag of `enum` takes a microsecond each time it is asked.
"""

from __future__ import annotations

from replaykit.redaction.lazy_patterns import lazy

DIGITS = 1
"""Three digits: names of numbers may have a value."""
PLUS, EQUALS = 2, 4
FIELDS = PLUS | EQUALS
"""What forms are made of."""
FORM = 8
"""A field of a form with a plus, which is a blank there."""
SERVICE_ACCOUNT = 16
"""The file that Google gives out with a private key."""
_FORM = lazy(rb"=(?<=[\w.\-\]%]=)[^\s=\"'<>`]{1,4096}\+")


def traits_of(flat: bytes, shape: bytes) -> int:
    """The traits of a text, by its bytes and their classes (see `View`)."""
    traits = DIGITS if b"000" in shape else 0
    if b"=" in flat:
        traits |= EQUALS
    if b"+" in flat:
        traits |= PLUS
        if traits & EQUALS and _FORM.search(flat):
            traits |= FORM
    if b"service_account" in flat:
        traits |= SERVICE_ACCOUNT
    return traits
