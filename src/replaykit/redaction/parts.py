"""Compare texts with placeholders by parts: an agent may extract from a placeholder what it extracted from the value.

Parts are the domain of an address, the digits of a phone, the name before the @, or a whole value next to a telling
name in one place only. A recording has them in clear text.
"""

from __future__ import annotations

from collections.abc import Callable

from replaykit.redaction.lazy_patterns import lazy
from replaykit.redaction.placeholders import FoundPlaceholder, canonical, digest, placeholder, placeholders_in

_NAME = lazy(rb"(?<![\w@-])p-([0-9a-f]{8})(?![\w@-])")
# Kinds that are recognised by more than their form, and the form of their values in clear text.
_PLAIN = {
    "domain": lazy(rb"[\w-]+(?:\.[\w-]+)+"),
    "name": lazy(rb"[^@\s\"\\<>]{1,64}"),
    "phone": lazy(rb"\+?[\d ().-]{7,24}"),
    "secret": lazy(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"),
}


class Parts:
    """The placeholders in a text, including parts of them, and the text in between."""

    def __init__(self, text: bytes) -> None:
        found = placeholders_in(text)
        for name in _NAME.finditer(text):
            found.append(FoundPlaceholder(*name.span(), "name", name[1].decode()))
        self._found = sorted(found)
        self._texts: list[bytes] = []
        self._between: list[bytes] = []
        at = 0
        for part in self._found:
            self._texts.append(text[part.start : part.end])
            self._between.append(text[at : part.start])
            at = part.end
        self._between.append(text[at:])

    def __bool__(self) -> bool:
        return bool(self._found)

    def __len__(self) -> int:
        return len(self._found)

    @property
    def beginning(self) -> bytes:
        """The text before the first placeholder."""
        return self._between[0]

    @property
    def end(self) -> bytes:
        """The text after the last placeholder."""
        return self._between[-1]

    @property
    def first(self) -> tuple[str, str, bytes]:
        """The kind, the slot and the text of the first placeholder."""
        return self._found[0].kind, self._found[0].slot, self._texts[0]

    @property
    def are_names(self) -> bool:
        """True if there is a name before an @, which no key can verify on its own."""
        return any(part.kind == "name" for part in self._found)

    def agree_with(self, other: bytes, key: bytes) -> bool:
        """Return whether the key shows that the other text is the same with some values in clear text."""
        return self._each(other, lambda part, text: slot_of_value(key, part.kind, text) == part.slot)

    def fit(self, other: bytes) -> bool:
        """Return whether the other text may be the same with some values in clear text."""
        return self._each(other, _may_be)

    def _each(self, other: bytes, is_same: Callable[[FoundPlaceholder, bytes], bool]) -> bool:
        plain = self.values_in(other)
        if plain is None:
            return False
        rows = zip(self._found, self._texts, plain, strict=True)
        return all(text == own or is_same(part, text) for part, own, text in rows)

    def values_in(self, other: bytes) -> list[bytes] | None:
        """Return what the other text has in place of the placeholders; None if the rest differs."""
        first, *rest = self._between
        if not other.startswith(first):
            return None
        at, plain = len(first), []
        for number, between in enumerate(rest, 1):
            end = other.find(between, at)
            if number == len(rest):
                end = len(other) - len(between)
            if end < at or not other.startswith(between, end):
                return None
            plain.append(other[at:end])
            at = end + len(between)
        return plain


def _may_be(part: FoundPlaceholder, text: bytes) -> bool:
    form = _PLAIN.get(part.kind)
    return form is not None and form.fullmatch(text) is not None and not placeholders_in(text)


def slot_of_value(key: bytes, kind: str, text: bytes) -> str:
    """Return the slot of a value's placeholder, or of a part of it."""
    value = text.decode("utf-8", "replace")
    if kind == "domain":
        return f"{digest(key, kind, value.lower()):08x}"
    if kind == "name":
        return ""
    found = placeholders_in(b"(%b)" % canonical(placeholder(key, kind, value).encode()))
    if not found:
        return ""
    return found[0].slot
