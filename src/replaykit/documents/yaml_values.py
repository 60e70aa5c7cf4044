"""YAML values: build plain data from YAML events, within limits for any file.

The events come from libyaml, without PyYAML's constructors. An explicit stack keeps deep files from exhausting
Python's, and aliases share their targets while a budget counts their expansion.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

import yaml

from replaykit.errors import InvalidFile
from replaykit.model.values import Json, JsonObject
from replaykit.redaction.lazy_patterns import lazy

MAX_DEPTH = 100
ALIAS_FLOOR = 10_000  # how much aliases may add to a small file; a large one may grow threefold
SHORT = 8
MAX_SHARED = 4096
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml if PyYAML was built with it

_WORDS: JsonObject = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER_START = frozenset("+-.0123456789")
_INT = re.compile(r"[-+]?[0-9]+")
_BASED = lazy(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = lazy(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = lazy(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def build_value(data: bytes, file: str) -> Json:
    """Return the value of the YAML document in `data`; raise `InvalidFile` with the line for anything else."""
    builder = _YamlBuilder(data, file)
    try:
        for event in yaml.parse(data, Loader=LOADER):
            builder.take(event)
    except yaml.YAMLError as error:
        raise _syntax_error(error, data, file) from None
    return builder.root


def resolve_plain(text: str) -> Json:
    """Return the value of an unquoted scalar in YAML 1.2's core schema; raise `ValueError` for too long a number."""
    if text[:1] not in _NUMBER_START:
        return _WORDS.get(text, text)
    if _INT.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text[2:], 8 if text[1] == "o" else 16)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _SPECIAL.fullmatch(text):
        return float(text.replace(".", "", 1))
    return text


class _OpenCollection:
    """An open list or mapping."""

    __slots__ = ("anchor", "height", "key", "value", "weight_before")

    def __init__(self, value: Json, anchor: str | None, weight_before: int) -> None:
        self.value = value
        self.anchor = anchor
        self.weight_before = weight_before
        self.key: str | None = None
        self.height = 1


class _Anchored:
    """The target of an alias: the value, its size in characters and nodes, and its levels."""

    __slots__ = ("height", "value", "weight")

    def __init__(self, value: Json, weight: int, height: int) -> None:
        self.value = value
        self.weight = weight
        self.height = height


class _YamlBuilder:
    def __init__(self, data: bytes, file: str) -> None:
        self.root: Json = None
        self._file = file
        self._stack: list[_OpenCollection] = []
        self._anchors: dict[str, _Anchored | None] = {}  # None while the anchored node is open
        self._shared: dict[str, str] = {}
        self._weight = 0
        self._alias_budget = max(ALIAS_FLOOR, 2 * len(data))
        self._documents = 0

    def take(self, event: Any) -> None:
        """Add the next event to the value."""
        kind = type(event)
        if kind is yaml.ScalarEvent:
            self._scalar(event)
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            self._open({} if kind is yaml.MappingStartEvent else [], event)
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            self._close()
        elif kind is yaml.AliasEvent:
            self._alias(event)
        elif kind is yaml.DocumentStartEvent:
            self._documents += 1
            if self._documents > 1:
                self._fail("a second document begins here; expected one per file", event)

    def _scalar(self, event: Any) -> None:
        self._refuse_tag(event)
        value: Json = event.value
        weight = 1 + len(value)
        self._weight += weight
        if event.implicit[0]:  # no quotes, no block style
            try:
                value = resolve_plain(value)
            except ValueError:
                self._fail("the number is too long", event)
        if type(value) is str and len(value) <= SHORT:
            value = self._share(value)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, weight, 0)
        self._add(value, event)

    def _open(self, value: Json, event: Any) -> None:
        self._refuse_tag(event)
        self._refuse_deep(1, event)
        self._add(value, event)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        self._stack.append(_OpenCollection(value, event.anchor, self._weight))
        self._weight += 1

    def _close(self) -> None:
        done = self._stack.pop()
        if self._stack:
            self._stack[-1].height = max(self._stack[-1].height, done.height + 1)
        if done.anchor is not None:
            weight = self._weight - done.weight_before
            self._anchors[done.anchor] = _Anchored(done.value, weight, done.height)

    def _alias(self, event: Any) -> None:
        name = event.anchor
        if name not in self._anchors:
            self._fail(f"alias *{name} names no anchor above it", event)
        target = self._anchors[name]
        if target is None:
            self._fail(f"alias *{name} contains itself", event)
        self._weight += target.weight
        self._alias_budget -= target.weight
        if self._alias_budget < 0:
            self._fail(f"aliases expand to too much data (at *{name})", event)
        self._refuse_deep(target.height, event)
        if self._stack:
            self._stack[-1].height = max(self._stack[-1].height, target.height + 1)
        self._add(target.value, event)

    def _add(self, value: Json, event: Any) -> None:
        if not self._stack:
            self.root = value
            return
        top = self._stack[-1]
        if type(top.value) is list:
            top.value.append(value)
        elif top.key is None:
            top.key = self._new_key(top.value, value, event)
        else:
            top.value[top.key] = value
            top.key = None

    def _new_key(self, mapping: JsonObject, key: Json, event: Any) -> str:
        if type(key) is not str:
            if type(event) is not yaml.ScalarEvent:
                self._fail("a key must be text, got a list or mapping", event)
            self._fail(f"a key must be text, got {event.value or 'nothing'}", event, hint=f'Quote it: "{event.value}"')
        if key in mapping:
            self._fail(f"the key {key!r} is given twice", event)
        return self._share(key)

    def _share(self, text: str) -> str:
        """Return one string for equal short texts: keys and words repeat, and each copy costs 50 bytes."""
        if len(self._shared) < MAX_SHARED:
            return self._shared.setdefault(text, text)
        return self._shared.get(text, text)

    def _refuse_tag(self, event: Any) -> None:
        if event.tag is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            self._fail(f"the tag {tag!r} is not allowed", event, hint="Files hold plain data: remove the tag.")

    def _refuse_deep(self, levels: int, event: Any) -> None:
        if len(self._stack) + levels > MAX_DEPTH:
            self._fail(f"nested deeper than {MAX_DEPTH} levels", event)

    def _fail(self, message: str, event: Any, *, hint: str | None = None) -> NoReturn:
        raise InvalidFile(message, file=self._file, line=event.start_mark.line + 1, hint=hint)


def _syntax_error(error: yaml.YAMLError, data: bytes, file: str) -> InvalidFile:
    if isinstance(error, yaml.reader.ReaderError):
        line = data.count(b"\n", 0, error.position) + 1
        return InvalidFile(f"not YAML: the character U+{_code(error):04X} is not allowed", file=file, line=line)
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return InvalidFile(f"not YAML: {error}", file=file)
    parts = [getattr(error, "problem", None), getattr(error, "context", None)]
    lines = data.splitlines()
    at = lines[mark.line][mark.column :] if mark.line < len(lines) else b""
    hint = "Indent with spaces, not tabs." if at.startswith(b"\t") else None
    message = f"not YAML: {', '.join(part for part in parts if part)}"
    return InvalidFile(message, file=file, line=min(mark.line + 1, max(len(lines), 1)), hint=hint)


def _code(error: Any) -> int:
    if isinstance(error.character, int):
        return error.character
    return ord(error.character)
