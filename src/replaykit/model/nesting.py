"""One limit on the nesting of JSON, the same on every Python.

A JSON parser stops where the interpreter does: near 950 levels on Python 3.11, near 10,000 on 3.13, and earlier the
deeper the caller's own stack is. JSON from outside is therefore read with `decode_json`, or checked with
`check_nesting` before a parser that leaves parts of it as text. Regular expressions have a limit of their own.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any, TypeVar, overload

import msgspec

from replaykit.model.values import Json, Raw

T = TypeVar("T")
Text = bytes | memoryview | Raw | str

MAX_NESTING = 500
"""More than any trace needs, and half of the stack frames that Python allows by default."""

MAX_GROUPS = 100
"""The limit for nested groups in a regular expression, which Python's compiler handles by recursion."""

_GROUP_OR_LITERAL = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()]", re.DOTALL)
_STRING_OR_BRACKET = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]', re.DOTALL)
_BRACKETS = b"[]{}"
_OTHERS = bytes(byte for byte in range(256) if byte not in _BRACKETS)
_UP, _DOWN = b"\x01", b"\xff"
_PAIR = _UP + _DOWN
_USUAL_LEVELS = 12
_AS_STEPS = bytes.maketrans(_BRACKETS, 2 * (_UP + _DOWN))


class NestedTooDeeply(msgspec.DecodeError, ValueError):
    """A value is nested deeper than its limit, in most places `MAX_NESTING` levels."""

    def __init__(self, limit: int = MAX_NESTING) -> None:
        super().__init__(f"nested deeper than {limit} levels")


@overload
def decode_json(text: Text) -> Json: ...
@overload
def decode_json(text: Text, type: type[T]) -> T: ...
def decode_json(text: Text, type: Any = None) -> Any:
    """Decode a JSON text, to a value of `type` if given.

    Raises `NestedTooDeeply`, or what `msgspec.json.decode` raises.
    """
    if type is not None:
        check_nesting(text)
        return msgspec.json.decode(text, type=type)
    try:
        value = msgspec.json.decode(text)
    except RecursionError:
        raise NestedTooDeeply from None
    check_value_nesting(value)
    return value


def check_value_nesting(value: Json, limit: int = MAX_NESTING) -> None:
    """Raise `NestedTooDeeply` if a parsed value has too many levels."""
    containers = [value] if isinstance(value, dict | list) else []
    for _ in range(limit):
        containers = [
            item
            for container in containers
            for item in (container.values() if type(container) is dict else container)
            if type(item) is dict or type(item) is list
        ]
        if not containers:
            return
    raise NestedTooDeeply(limit)


def check_nesting(text: Text) -> None:
    """Raise `NestedTooDeeply` if a JSON text has too many levels, even if it is otherwise invalid."""
    if len(text) <= 2 * MAX_NESTING:
        return  # each level takes two brackets
    if isinstance(text, str):
        data = text.encode("utf-8", "surrogatepass")
    else:
        data = bytes(text)
    if not _is_flat(data) and _levels(_steps(_without_strings(data))) > MAX_NESTING:
        raise NestedTooDeeply


def _is_flat(text: bytes) -> bool:
    """Clear most texts in a tenth of the time that removing their strings takes.

    Brackets in strings count as well, which is harmless unless they close more levels than they open.
    """
    steps = remaining = _steps(text)
    for _ in range(_USUAL_LEVELS):
        remaining = remaining.replace(_PAIR, b"")  # takes the innermost level away, in a third of the time of a count
        if not remaining:
            return True
    return steps.count(_DOWN) <= steps.count(_UP) and _levels(steps) <= MAX_NESTING


def _steps(text: bytes) -> bytes:
    """Reduce a text to its brackets: a byte of +1 where a level opens, of -1 where it closes."""
    return text.translate(_AS_STEPS, _OTHERS)


def _levels(steps: bytes) -> int:
    return max(accumulate(memoryview(steps).cast("b")), default=0)


def _without_strings(text: bytes) -> bytes:
    unescaped = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(unescaped.split(b'"')[::2])


def line_nested_too_deeply(text: bytes) -> int | None:
    """Return the line on which a JSON text exceeds the limit; None if it does not."""
    depth = 0
    for token in _STRING_OR_BRACKET.finditer(text):
        depth += (token[0] in (b"[", b"{")) - (token[0] in (b"]", b"}"))
        if depth > MAX_NESTING:
            return text.count(b"\n", 0, token.start()) + 1
    return None


def check_group_nesting(pattern: str) -> None:
    """Raise `NestedTooDeeply` if a regular expression has too many nested groups."""
    depth = 0
    for token in _GROUP_OR_LITERAL.findall(pattern):
        depth += (token == "(") - (token == ")")
        if depth > MAX_GROUPS:
            raise NestedTooDeeply(MAX_GROUPS)
