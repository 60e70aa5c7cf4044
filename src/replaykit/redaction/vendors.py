"""Vendors: keys without a form of their own, beside the name of who hands them out."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from replaykit.redaction.finding import Hit
from replaykit.redaction.lazy_patterns import lazy
from replaykit.redaction.text_view import View

_NEAR = 80
_LONGEST = 41
"""More characters than any of the keys has, with the one that may not stand behind it."""
_ID = lazy(
    rb"(?:\bids?|[_-]id|[a-z]Id|sha\d*|md5|hash|digest|etag|commit|trace|span)[\"'`]?\s{0,3}[:=]?\s{0,3}[\"'`]?\Z"
)
"""What names a number that opens nothing."""


class Vendor(Struct, frozen=True):
    """One vendor: the word for it, the form of its keys, and whether a key has letters of both cases and digits."""

    kind: str
    word: bytes
    form: re.Pattern[bytes]
    is_mixed: bool = True


_VENDORS = (
    Vendor("twilio-key", b"twilio", lazy(rb"(?<![A-Za-z0-9_-])[0-9a-f]{32}(?![A-Za-z0-9_-])"), is_mixed=False),
    Vendor("mistral-key", b"mistral", lazy(rb"(?<![A-Za-z0-9_-])[A-Za-z0-9]{32}(?![A-Za-z0-9_-])")),
    Vendor("cohere-key", b"cohere", lazy(rb"(?<![A-Za-z0-9_-])[A-Za-z0-9]{40}(?![A-Za-z0-9_-])")),
)
WORDS = tuple(vendor.word for vendor in _VENDORS)
"""One of these is near every such key."""
_TWILIO_LOGIN = lazy(rb"AC(?<![A-Za-z0-9]AC)[0-9a-f]{32}[\"']?\s{0,2}[:,]\s{0,2}[\"']?([0-9a-f]{32})(?![A-Za-z0-9])")


def vendor_hits(view: View) -> Iterator[Hit]:
    """Keys within a line's length of their vendor's name, and the two parts of Twilio's login."""
    for vendor in _VENDORS:
        if vendor.word in view.low:
            yield from _near(view, vendor)
    if b"AC" in view.flat:
        yield from (Hit("twilio-key", *found.span(1), 2) for found in _TWILIO_LOGIN.finditer(view.flat))


def _near(view: View, vendor: Vendor) -> Iterator[Hit]:
    for found in _behind(view, vendor):
        start = found.start()
        if _ID.search(view.flat[max(0, start - 20) : start]):
            continue
        if not vendor.is_mixed or _is_mixed(found[0]):
            yield Hit(vendor.kind, *found.span(), 2)


def _behind(view: View, vendor: Vendor) -> Iterator[re.Match[bytes]]:
    """What has the form of a key and begins within a line's length of the name.

    A search of the whole text takes thirty times as long as one for the name: the forms begin with no literal.
    """
    done = 0
    at = view.low.find(vendor.word)
    while at >= 0:
        first = max(done, at + len(vendor.word))
        done = at + _NEAR + 1
        for found in vendor.form.finditer(view.flat, first, done + _LONGEST):
            if found.start() < done:
                yield found
        at = view.low.find(vendor.word, at + 1)


def _is_mixed(key: bytes) -> bool:
    return key != key.lower() and key != key.upper() and any(48 <= char <= 57 for char in key)
