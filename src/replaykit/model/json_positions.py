"""Positions: the line of the value at a path in a JSON text.

Needed only if something is wrong with a file, so that reading a good one costs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

import orjson

DocumentPath: TypeAlias = tuple[str | int, ...]
"""A path in a document: keys and indexes."""

# Possessive quantifiers: a text of any size is scanned once, without backtracking.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},:]|[^\s\[\]{},:"]++', re.DOTALL)


def line_of(text: bytes, path: Sequence[str | int]) -> int:
    """Return the line, from 1, of the value at the path, or of the nearest existing value around it."""
    if not path:
        return text.count(b"\n", 0, len(text) - len(text.lstrip())) + 1
    place = _JsonPosition(path)
    nearest, offset = -1, 0
    key_start: int | None = None
    for token in _TOKEN.finditer(text):
        word = token[0]
        if word == b":":
            continue
        if word in b"}]":
            place.close()
        elif word == b",":
            place.advance()
            key_start = None
        elif place.wants_key and key_start is None:
            place.name(word)
            key_start = token.start()
        else:
            # `>=`, not `>`: of a repeated key, parsers take the last value.
            if place.on_path and place.agreed >= nearest:
                nearest, offset = place.agreed, token.start() if key_start is None else key_start
            if word in b"{[":
                place.open(word == b"{")
                key_start = None
    return text.count(b"\n", 0, offset) + 1


class _JsonPosition:
    """The position of a scan. It has its own stack, because a text may nest deeper than Python calls can."""

    __slots__ = ("_keys", "_objects", "_path", "agreed")

    def __init__(self, path: Sequence[str | int]) -> None:
        self._path = path
        self._keys: list[str | int | None] = []  # for each open container, the key or index of the current member
        self._objects: list[bool] = []
        self.agreed = 0  # number of leading steps that the position shares with the path

    @property
    def on_path(self) -> bool:
        return self.agreed == len(self._keys)

    @property
    def wants_key(self) -> bool:
        return bool(self._objects) and self._objects[-1]

    def open(self, is_object: bool) -> None:
        self._objects.append(is_object)
        self._keys.append(None)
        if not is_object:
            self._enter(0)

    def close(self) -> None:
        if self._keys:
            self._keys.pop()
            self._objects.pop()
        self.agreed = min(self.agreed, len(self._keys))

    def advance(self) -> None:
        if self._keys and isinstance(self._keys[-1], int):
            self._enter(self._keys[-1] + 1)

    def name(self, word: bytes) -> None:
        try:
            key = orjson.loads(word)
        except orjson.JSONDecodeError:
            key = None
        self._enter(key if isinstance(key, str) else None)

    def _enter(self, key: str | int | None) -> None:
        depth = len(self._keys) - 1
        self._keys[-1] = key
        if self.agreed >= depth:
            self.agreed = depth + (depth < len(self._path) and key == self._path[depth])
