"""Text that knows which of its characters are sensitive, and stays so when it is quoted or encoded."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass

OPINION = "opinion"
"""A stretch where one may well differ: neither asked for nor counted against anybody."""


@dataclass(frozen=True)
class Span:
    """Characters `start` to `end` of a text are of this kind."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True)
class Marked:
    """Pieces of text, each with its kind; pieces without one are harmless."""

    pieces: tuple[tuple[str, str], ...]

    def __add__(self, other: Marked | str) -> Marked:
        return Marked(self.pieces + _pieces(other))

    def __radd__(self, other: str) -> Marked:
        return Marked(_pieces(other) + self.pieces)

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.pieces)

    @property
    def spans(self) -> tuple[Span, ...]:
        spans, at = [], 0
        for text, kind in self.pieces:
            if kind:
                spans.append(Span(at, at + len(text), kind))
            at += len(text)
        return tuple(spans)

    def map(self, encode: Callable[[str], str]) -> Marked:
        """Each piece encoded; for encodings that go character by character."""
        return Marked(tuple((encode(text), kind) for text, kind in self.pieces))

    def base64(self) -> Marked:
        """The whole as base64; marked are the characters that hold bits of what was marked."""
        encoded = base64.b64encode(self.text.encode()).decode()
        pieces, at, byte = [], 0, 0
        for text, kind in self.pieces:
            first, byte = byte, byte + len(text.encode())
            if kind:
                start, end = first * 8 // 6, -(-byte * 8 // 6)
                pieces += [(encoded[at:start], ""), (encoded[max(at, start) : end], kind)]
                at = end
        return Marked((*pieces, (encoded[at:], "")))


def plain(text: str) -> Marked:
    return Marked(((text, ""),))


def sensitive(text: str, kind: str) -> Marked:
    return Marked(((text, kind),))


def _pieces(value: Marked | str) -> tuple[tuple[str, str], ...]:
    return ((value, ""),) if isinstance(value, str) else value.pieces
