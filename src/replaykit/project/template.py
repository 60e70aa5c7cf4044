"""Places in a configuration that are filled in: variables of the environment, and the input in a request.

A value that came from the environment may be a secret. It goes to the agent, and nowhere else: `Expanded.hide` takes it
out of whatever is shown or kept. In a template, a value inside of a text is escaped as JSON wants it, and a placeholder
that stands alone becomes the JSON value: what is sent is JSON, whatever the input holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import orjson
from msgspec import Struct

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


_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?::-.*)?", re.DOTALL)
MIN_HIDDEN_CHARS = 6  # shorter values occur by chance, and are no secrets


class UnsetVariable(ValueError):
    """A variable that a configuration names is not set."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the environment variable {name} is not set")
        self.name = name


class Expanded(Struct, frozen=True):
    """A text with its variables filled in; `values` are those that the environment gave, by name."""

    text: str
    values: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"Expanded({self.hide(self.text)!r})"

    def hide(self, text: str) -> str:
        """The text, with each value that the environment gave put back as its name."""
        for name, value in sorted(self.values, key=lambda pair: -len(pair[1])):
            if len(value) >= MIN_HIDDEN_CHARS:
                text = text.replace(value, f"${{{name}}}")
        return text


def check_variables(text: str) -> None:
    """A `ValueError` where `${…}` is not the form of a variable."""
    for found in _VARIABLE.finditer(text):
        if not _NAME.fullmatch(found[1]):
            raise ValueError(f"{found[0]!r} is not a variable: write ${{NAME}} or ${{NAME:-default}}")


def expand(text: str, environment: Mapping[str, str]) -> Expanded:
    """The text with its variables filled in; an empty one counts as unset where there is a default."""
    values: dict[str, str] = {}

    def fill(found: re.Match[str]) -> str:
        name, has_default, default = found[1].partition(":-")
        value = environment.get(name)
        if has_default and not value:
            return str(default)
        if value is None:
            raise UnsetVariable(name)
        values[name] = value
        return value

    return Expanded(_VARIABLE.sub(fill, text), tuple(values.items()))
