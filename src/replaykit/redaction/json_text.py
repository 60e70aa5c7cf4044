"""JSON as text: its tokens with their names and paths, so that a value can be replaced and every other byte stays.

Nothing is parsed into values, so numbers keep their spelling, repeated keys are all seen, and no nesting is too deep.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

import orjson
from msgspec import Struct

from replaykit.model.jsonpath import JsonPath, Rest, advance
from replaykit.redaction.lazy_patterns import lazy

_TOKEN = lazy(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],:]|[^\s{}\[\],:"]++', re.DOTALL)
_STRICT = lazy(
    r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\],:]|(?:true|false|null|NaN|-?Infinity|-?\d++(?:\.\d++)?+(?:[eE][+-]?\d++)?+)(?![\w.+-])',
    re.DOTALL,
)
_BEGIN = lazy(r'[\s\ufeff]*(?:\{\s*["}]|\[\s*["\[\]{tfn\d-])')
_ESCAPE = lazy(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL)
PAIR_NAMES = frozenset({"name", "key", "header", "field", "param", "parameter", "variable", "env"})
_PAIR_VALUES = frozenset({"value", "val", "content", "default"})


class Leaf(Struct, frozen=True):
    """A key or a scalar of a JSON text: where its token is, the name that it belongs to, its path."""

    start: int
    end: int
    name: str
    path: str
    is_key: bool = False
    picked: bool = False
    """True when a path of the rules leads here."""


class _Frame:
    """An open object or array."""

    __slots__ = ("index", "is_object", "key", "name", "pair", "path", "rests")

    def __init__(self, is_object: bool, name: str, path: str, rests: list[Rest] | None) -> None:
        self.is_object = is_object
        self.name = name  # of the container itself
        self.path = path
        self.rests = rests  # of the paths of the rules, what is still to go; None below the end of one
        self.key: str | None = None
        self.pair = ""
        self.index = 0


def looks_like_json(text: str) -> bool:
    """True when the text begins as an object or an array does."""
    return _BEGIN.match(text) is not None


def is_scalar(text: str) -> bool:
    """True when the text may be a JSON string or a number."""
    return text[:1] in '"-0123456789' if text else False


def is_whole(text: str) -> bool:
    """True when the text is JSON from its beginning to its end: one value, or several after each other."""
    try:
        orjson.loads(text)
    except (ValueError, TypeError):
        # Nested too deep for others, or several values: then it is at least made of nothing but what JSON is made of.
        return not _STRICT.sub("", text).strip(" \t\r\n\ufeff") and _is_balanced(text)
    return True


def _is_balanced(text: str) -> bool:
    open_brackets: list[str] = []
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        if first in "{[":
            open_brackets.append("}" if first == "{" else "]")
        elif first in "}]" and (not open_brackets or open_brackets.pop() != first):
            return False
    return not open_brackets


def leaves(text: str, paths: tuple[JsonPath, ...] = (), *, name: str = "", tool: str = "") -> Iterator[Leaf]:
    """The keys and scalars of the text, in order."""
    rests = [path.steps for path in paths if path.tool is None or path.tool == tool]
    top = _Frame(False, name, "$", None if () in rests else rests)
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
            if first in "{[":
                inherited = own if first == "[" else ""
                frames.append(_Frame(first == "{", inherited, path, below))
            else:
                _note_pair(frame, token[0])
                if frame.pair and (frame.key in _PAIR_VALUES or (frame.index == 1 and not frame.is_object)):
                    own = frame.pair
                elif not frame.is_object and frame.index == 0 and len(frames) > 2 and not frames[-2].is_object:
                    frame.pair = _key(token[0])  # a list of pairs, as queries and headers are kept
                yield Leaf(token.start(), token.end(), own, path, picked=below is None)


class Places:
    """For each character of a decoded text where it stood, and one more for the end.

    Kept are only the places behind escapes: a text of 50 MB has as many characters, and few escapes.
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
        """Find the escapes, which takes a microsecond each: only where something is replaced."""
        self._decoded, self._shifts = [0], [0]
        last, length = 0, 0
        for escape in _ESCAPE.finditer(self._text):
            start, end = escape.span()
            length += start - last + 1
            self._decoded.append(length)
            self._shifts.append(end - length)
            last = end


def unescaped(text: str) -> tuple[str, Places]:
    """The inside of a JSON string, decoded, and where each of its characters stood."""
    try:
        value = orjson.loads(f'"{text}"')
    except ValueError:  # what others take for a string, or a part of one
        value = _ESCAPE.sub(lambda escape: _unescape(escape[0]), text)
    return value, Places(text)


def escaped(text: str) -> str:
    """The text as the inside of a JSON string."""
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
    inside = token[1:-1] if token[0] == '"' else token
    return unescaped(inside)[0] if "\\" in inside else inside


def _enter(frame: _Frame, *, top: bool) -> tuple[str, str, list[Rest] | None]:
    """The name, the path and the remaining paths of the value that begins."""
    if top:
        return frame.name, "$", frame.rests
    key: str | int = (frame.key or "") if frame.is_object else frame.index
    if isinstance(key, int):
        path = f"{frame.path}[{key}]"
    else:
        path = f"{frame.path}.{key}" if key.replace("_", "a").isalnum() else f"{frame.path}[{key!r}]"
    if len(path) > 400:
        path = f"{path[:200]}…{path[-190:]}"
    return frame.key or frame.name, path, advance(frame.rests, key) if frame.rests else frame.rests


def _note_pair(frame: _Frame, token: str) -> None:
    """`{"name": "API_KEY", "value": …}`: the name that tells is a value itself."""
    if frame.key in PAIR_NAMES and token[0] == '"' and len(token) < 80:
        frame.pair = token[1:-1]
