"""Variables of the environment in a configuration: `${NAME}` and `${NAME:-default}`.

A value that came from the environment may be a secret. It goes to the agent, and nowhere else: `Expanded.hide` takes it
out of whatever is shown or kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

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
