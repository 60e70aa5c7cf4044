"""JSON as text: its tokens with names and paths, to replace single values and keep every other byte.

Nothing is decoded, so numbers keep their notation, repeated keys are all seen, and no nesting is too deep.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

import orjson
from msgspec import Struct

from replaykit.model.jsonpath import JsonPath, Rest, advance, member_path
from replaykit.model.text_lines import words_of
from replaykit.redaction.lazy_patterns import lazy

_TOKEN = lazy(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],:]|[^\s{}\[\],:"]++', re.DOTALL)
_STRICT = lazy(
    r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],:]|(?:true|false|null|NaN|-?Infinity|-?\d++(?:\.\d++)?+(?:[eE][+-]?\d++)?+)(?![\w.+-])',
    re.DOTALL,
)
_BEGIN = lazy(r'[\s\ufeff]*(?:\{\s*["}]|\[\s*["\[\]{tfn\d-])')
_ESCAPE = lazy(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL)
_SCALAR_BEGINS = tuple('"-0123456789')
PAIR_NAMES = frozenset(words_of("name key header field param parameter variable env"))
_PAIR_VALUES = frozenset({"value", "val", "content", "default"})


class Leaf(Struct, frozen=True):
    """A key or scalar of a JSON text: the span of its token, the name it belongs to, and its path."""

    start: int
    end: int
    name: str
    path: str
    is_key: bool = False
    picked: bool = False
    """True if a path of the rules leads here."""


class _Frame(Struct):
    """An open object or array."""

    is_object: bool
    name: str
    """The name of the container itself."""
    path: str
    rests: list[Rest] | None
    """The remaining steps of the rules' paths; None below the end of one."""
    key: str | None = None
    pair: str = ""
    index: int = 0


def looks_like_json(text: str) -> bool:
    """Return whether the text begins like an object or an array."""
    return _BEGIN.match(text) is not None


def is_scalar(text: str) -> bool:
    """Return whether the text may be a JSON string or number."""
    return text.startswith(_SCALAR_BEGINS)


def is_whole(text: str) -> bool:
    """Return whether all of the text is JSON: one value, or several in a row."""
    try:
        orjson.loads(text)
    except (ValueError, TypeError):
        # Too deep for other parsers, or several values: check at least that only JSON tokens occur.
        return not _STRICT.sub("", text).strip(" \t\r\n\ufeff") and _is_balanced(text)
    return True


def _is_balanced(text: str) -> bool:
    open_brackets: list[str] = []
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        if first == "{":
            open_brackets.append("}")
        elif first == "[":
            open_brackets.append("]")
        elif first in "}]" and (not open_brackets or open_brackets.pop() != first):
            return False
    return not open_brackets


def leaves(text: str, paths: tuple[JsonPath, ...] = (), *, name: str = "", tool: str = "") -> Iterator[Leaf]:
    """Yield the keys and scalars of the text, in order."""
    rests = [path.steps for path in paths if path.tool is None or path.tool == tool]
    top = _Frame(False, name, "$", rests)
    if () in rests:
        top.rests = None
    frames = [top]
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        frame = frames[-1]
        if first == ",":
            frame.index += 1
            frame.key = None
        elif first in "}]":
            if len(frames) > 1:
                frames.pop()
        elif first == ":":
            continue
        elif frame.is_object and frame.key is None:
            frame.key = _key(token[0])
            yield Leaf(token.start(), token.end(), "", frame.path, is_key=True)
        else:
            own, path, below = _enter(frame, top=frame is top)
            if first == "{":
                frames.append(_Frame(True, "", path, below))
            elif first == "[":
                frames.append(_Frame(False, own, path, below))
            else:
                _note_pair(frame, token[0])
                if frame.pair and (frame.key in _PAIR_VALUES or (frame.index == 1 and not frame.is_object)):
                    own = frame.pair
                elif not frame.is_object and frame.index == 0 and len(frames) > 2 and not frames[-2].is_object:
                    frame.pair = _key(token[0])  # a list of pairs, the usual form of queries and headers
                yield Leaf(token.start(), token.end(), own, path, picked=below is None)


class Places:
    """Maps positions in a decoded text to positions in the original, including the end.

    Only positions after escapes are stored: a text of 50 MB has many characters, but few escapes.
    """

    __slots__ = ("_decoded", "_shifts", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._decoded: list[int] = []
        self._shifts: list[int] = []

    def __getitem__(self, at: int) -> int:
        if not self._decoded:
            self._read()
        return at + self._shifts[bisect_right(self._decoded, at) - 1]

    def _read(self) -> None:
        """Find the escapes, at a microsecond each: only if something is replaced."""
        self._decoded, self._shifts = [0], [0]
        last, length = 0, 0
        for escape in _ESCAPE.finditer(self._text):
            start, end = escape.span()
            length += start - last + 1
            self._decoded.append(length)
            self._shifts.append(end - length)
            last = end


def unescaped(text: str) -> tuple[str, Places]:
    """Decode the inside of a JSON string; return it with the original positions of its characters."""
    try:
        value = orjson.loads(f'"{text}"')
    except ValueError:  # a string in another dialect, or a part of one
        value = _ESCAPE.sub(lambda escape: _unescape(escape[0]), text)
    return value, Places(text)


def escaped(text: str) -> str:
    """Encode the text as the inside of a JSON string."""
    try:
        return orjson.dumps(text).decode()[1:-1]
    except TypeError:  # a lone surrogate
        import json  # noqa: PLC0415 (hardly ever)

        return json.dumps(text)[1:-1]


def _unescape(word: str) -> str:
    if word[1] != "u" or len(word) < 6:
        return {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}.get(word[1], word[1])
    code = int(word[2:6], 16)
    if len(word) == 12:
        code = 0x10000 + ((code & 0x3FF) << 10) + (int(word[8:12], 16) & 0x3FF)
    return chr(code)


def _key(token: str) -> str:
    if token[0] == '"':
        token = token[1:-1]
    if "\\" in token:
        return unescaped(token)[0]
    return token


def _enter(frame: _Frame, *, top: bool) -> tuple[str, str, list[Rest] | None]:
    """Return name, path and remaining rule paths of the value that begins here."""
    if top:
        return frame.name, "$", frame.rests
    key: str | int = frame.index
    if frame.is_object:
        key = frame.key or ""
    path = member_path(frame.path, key)
    if len(path) > 400:
        path = f"{path[:200]}…{path[-190:]}"
    rests = frame.rests
    if rests:
        rests = advance(rests, key)
    return frame.key or frame.name, path, rests


def _note_pair(frame: _Frame, token: str) -> None:
    """Note the name in `{"name": "API_KEY", "value": …}`, where the telling name is itself a value."""
    if frame.key in PAIR_NAMES and token[0] == '"' and len(token) < 80:
        frame.pair = token[1:-1]
