"""Percent-encoding: what a value was before it was encoded, however often it was, and back."""

from __future__ import annotations

MAX_LAYERS = 4


def unquoted(raw: str) -> tuple[str, int]:
    """The value behind percent-encoding, and how many layers of it there were."""
    from urllib.parse import unquote  # noqa: PLC0415 (slow to import, rarely needed)

    value, layers = raw, 0
    while layers < MAX_LAYERS and "%" in value and (plain := unquote(value)) != value:
        value, layers = plain, layers + 1
    return value, layers


def quoted(text: str, layers: int) -> str:
    """The text in as many layers of percent-encoding."""
    from urllib.parse import quote  # noqa: PLC0415 (slow to import, rarely needed)

    for _ in range(layers):
        text = quote(text, safe="")
    return text
