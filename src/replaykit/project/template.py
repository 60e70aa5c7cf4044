"""Placeholders in a configuration: environment variables, and the input in a request.

A value from the environment may be a secret. It goes to the agent and nowhere else: `Expanded.hide` removes it from
everything that is shown or stored. In a template, a placeholder inside a string is escaped for JSON, and a bare one
becomes a JSON value, so the request is valid JSON whatever the input holds.
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
    """A template uses a member that the input does not have."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the template names {{{name}}}, and the input has no such member")
        self.name = name


def check_template(text: str) -> None:
    """Raise `ValueError` if the template does not produce JSON or does not use the input."""
    if not _PLACEHOLDER.search(text):
        raise ValueError("the template has no place for the input: write {prompt} where it goes")
    try:
        orjson.loads(_filled(text, lambda name: "x"))
    except orjson.JSONDecodeError as error:
        raise ValueError(f"the template does not give JSON: {error.msg} (line {error.lineno} of it)") from None


def fill_template(text: str, value: Json, context: Json = None) -> bytes:
    """Return the request body for an input; raise `NoSuchField` for a placeholder without a value."""
    return _filled(text, lambda name: value_of(name, value, context)).encode()


def fill_text(text: str, value: Json, context: Json = None) -> str:
    """Return a plain text with its placeholders replaced."""
    return _PLACEHOLDER.sub(lambda match: _as_text(value_of(match[1], value, context)), text)


def value_of(name: str, value: Json, context: Json) -> Json:
    """Return the value of a placeholder; members of the input take precedence."""
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
        match = _PLACEHOLDER.match(text, position)
        if match is not None:
            parts.append(_inside(value(match[1])) if in_text else _alone(value(match[1])))
            position = match.end()
            continue
        char = text[position]
        width = 2 if in_text and char == "\\" else 1  # an escaped quote does not end the string
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
    """A variable in a configuration is not set."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the environment variable {name} is not set")
        self.name = name


class Expanded(Struct, frozen=True):
    """A text with its variables replaced, and the values that came from the environment, by name."""

    text: str
    values: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"Expanded({self.hide(self.text)!r})"

    def hide(self, text: str) -> str:
        """Replace the values from the environment in a text by the names of their variables."""
        for name, value in sorted(self.values, key=lambda pair: -len(pair[1])):
            if len(value) >= MIN_HIDDEN_CHARS:
                text = text.replace(value, f"${{{name}}}")
        return text


def check_variables(text: str) -> None:
    """Raise `ValueError` for a malformed `${…}`."""
    for match in _VARIABLE.finditer(text):
        if not _NAME.fullmatch(match[1]):
            raise ValueError(f"{match[0]!r} is not a variable: write ${{NAME}} or ${{NAME:-default}}")


def expand(text: str, environment: Mapping[str, str]) -> Expanded:
    """Replace the variables in a text; an empty one counts as unset if it has a default."""
    values: dict[str, str] = {}

    def fill(match: re.Match[str]) -> str:
        name, has_default, default = match[1].partition(":-")
        value = environment.get(name)
        if has_default and not value:
            return str(default)
        if value is None:
            raise UnsetVariable(name)
        values[name] = value
        return value

    return Expanded(_VARIABLE.sub(fill, text), tuple(values.items()))
