"""Argument flaws: what is wrong with a tool call's arguments by the definition that the model was given.

A check of the parts of JSON Schema that tool definitions use, without any library: unknown and missing arguments, types
and enumerations. Whatever else a schema says is not looked at.
"""

from __future__ import annotations

from replaykit.checks.reading import shown
from replaykit.model.values import Json
from replaykit.wire.json_fields import as_object

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_OPEN = ("anyOf", "oneOf", "allOf", "$ref", "if", "patternProperties")
"""Members of a schema that let in more than `properties` names."""


def argument_flaw(arguments: Json, schema: dict[str, Json]) -> str | None:
    """Return the first thing wrong with the arguments; None when nothing is, or the schema does not say."""
    if not isinstance(arguments, dict):
        return f"arguments that are no object: {shown(arguments)}"
    properties = schema.get("properties")
    if not isinstance(properties, dict) or any(name in schema for name in _OPEN):
        return None
    if not schema.get("additionalProperties"):
        for name in arguments:
            if name not in properties:
                return f"unknown argument {name!r}"
    required = schema.get("required")
    for name in required if isinstance(required, list) else ():
        if name not in arguments:
            return f"missing argument {name!r}"
    for name, value in arguments.items():
        flaw = _value_flaw(value, as_object(properties.get(name)))
        if flaw is not None:
            return f"argument {name!r} is {flaw}"
    return None


def _value_flaw(value: Json, schema: dict[str, Json]) -> str | None:
    if any(name in schema for name in _OPEN) or (schema.get("nullable") is True and value is None):
        return None
    choices = schema.get("enum")
    if isinstance(choices, list) and choices and value not in choices:
        return f"{shown(value)}, not one of {shown(choices)}"
    types = schema.get("type")
    listed = types if isinstance(types, list) else [types]
    kinds = [kind.lower() for kind in listed if isinstance(kind, str)]
    known = [kind for kind in kinds if kind in _TYPES]
    if not known or len(known) < len(kinds):
        return None
    if any(_is_of(value, kind) for kind in known):
        return None
    return f"{shown(value)}, not of type {' or '.join(known)}"


def _is_of(value: Json, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[kind])
