"""Percent-encoding: what a value was before it was encoded, however often it was, and back.

In a form a plus stands for a blank, in the outermost layer.
"""

from __future__ import annotations

MAX_LAYERS = 4


def unquoted(raw: str, *, in_form: bool = False) -> tuple[str, int]:
    """The value behind percent-encoding, and how many layers of it there were."""
    from urllib.parse import unquote  # noqa: PLC0415 (slow to import, rarely needed)

    value, layers = raw, 0
    if in_form:
        value, layers = unquote(raw.replace("+", " ")), 1
    while layers < MAX_LAYERS and "%" in value and (plain := unquote(value)) != value:
        value, layers = plain, layers + 1
    return value, layers


def quoted(text: str, layers: int, *, in_form: bool = False) -> str:
    """The text in as many layers of percent-encoding."""
    from urllib.parse import quote, quote_plus  # noqa: PLC0415 (slow to import, rarely needed)

    for _ in range(layers - 1 if in_form else layers):
        text = quote(text, safe="")
    return quote_plus(text) if in_form else text
