"""Templates of requests: JSON with `{prompt}`, `{input}`, `{context}` or `{field}` where the input goes.

Inside of a text the value is escaped as JSON wants it; a placeholder that stands alone becomes the JSON value. So what
is sent is JSON, whatever the input holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import orjson

from replaykit.model.values import Json

_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")
WHOLE = ("prompt", "input")
"""Placeholders for the whole input."""
CONTEXT = "context"


class NoSuchField(ValueError):
    """A template names a member that the input does not have."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the template names {{{name}}}, and the input has no such member")
        self.name = name


def check_template(text: str) -> None:
    """A `ValueError` when the template does not give JSON, or has no place for the input."""
    if not _PLACEHOLDER.search(text):
        raise ValueError("the template has no place for the input: write {prompt} where it goes")
    try:
        orjson.loads(_filled(text, lambda name: "x"))
    except orjson.JSONDecodeError as error:
        raise ValueError(f"the template does not give JSON: {error.msg} (line {error.lineno} of it)") from None


def fill_template(text: str, value: Json, context: Json = None) -> bytes:
    """The JSON that the template gives for an input; `NoSuchField` when it asks for more than there is."""
    return _filled(text, lambda name: value_of(name, value, context)).encode()


def fill_text(text: str, value: Json, context: Json = None) -> str:
    """A plain text with its placeholders filled in."""
    return _PLACEHOLDER.sub(lambda found: _as_text(value_of(found[1], value, context)), text)


def value_of(name: str, value: Json, context: Json) -> Json:
    """Return the value of a placeholder: a member of the input before anything else."""
    if isinstance(value, dict) and name in value:
        return value[name]
    if name in WHOLE:
        return value
    if name == CONTEXT:
        return context
    raise NoSuchField(name)


def _filled(text: str, value: Callable[[str], Json]) -> str:
    parts, position, in_text = [], 0, False
    while position < len(text):
        found = _PLACEHOLDER.match(text, position)
        if found is not None:
            parts.append(_inside(value(found[1])) if in_text else _alone(value(found[1])))
            position = found.end()
            continue
        char = text[position]
        width = 2 if in_text and char == "\\" else 1  # what is escaped ends no text
        in_text ^= char == '"'
        parts.append(text[position : position + width])
        position += width
    return "".join(parts)


def _alone(value: Json) -> str:
    return orjson.dumps(value).decode()


def _inside(value: Json) -> str:
    return orjson.dumps(_as_text(value)).decode()[1:-1]


def _as_text(value: Json) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return orjson.dumps(value).decode()
