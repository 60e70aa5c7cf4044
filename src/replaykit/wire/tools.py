"""Tools on offer in one form for all APIs: name, description and parameters.

A schema keeps only what models follow: names, types, descriptions and choices. Whatever SDKs add, drop or rewrite for
an API is removed: titles, defaults, `required`, `additionalProperties`, `strict`, and nullability.
"""

from __future__ import annotations

from collections.abc import Iterator

import orjson
from msgspec import Struct

from replaykit.model.text_lines import words_of
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import as_object, has_list, has_object, object_in, objects_in, text_at

_DECLARATIONS = ("functionDeclarations", "function_declarations")
_SCHEMAS = words_of(
    "parameters input_schema inputSchema parametersJsonSchema parameters_json_schema args_schema jsonSchema json_schema"
)
_ALTERNATIVES = ("anyOf", "oneOf", "any_of")
_NULL = "null"
_DEEPEST = 40  # how many levels of a schema are compared


class Tool(Struct, frozen=True):
    """A tool that a model may call."""

    name: str
    description: str | None = None
    """None if it is not stated."""
    schema: Json = None
    """The reduced schema of its parameters; None if it is not stated."""


def tools_of(value: Json) -> tuple[Tool, ...]:
    """Return the tools of a request or a trace, sorted by name."""
    return tuple(sorted(_listed(value), key=lambda tool: tool.name))


def _listed(value: Json) -> Iterator[Tool]:
    if isinstance(value, dict):
        if all(isinstance(item, dict) for item in value.values()):
            value = list(value.values())
        else:
            value = [value]
    for item in value if isinstance(value, list) else ():
        definition = _loaded(item)
        declared = [one for name in _DECLARATIONS for one in objects_in(definition, name)]
        if declared:
            yield from map(_tool, declared)
        elif definition:
            yield _tool(object_in(definition, "function") or object_in(definition, "custom") or definition)


def _loaded(item: Json) -> JsonObject:
    """Return a tool definition, which a trace may hold as text."""
    if not isinstance(item, str):
        return as_object(item)
    try:
        return as_object(orjson.loads(item))
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return {"name": item}


def _tool(definition: JsonObject) -> Tool:
    name = text_at(definition, "name") or text_at(definition, "type") or next(iter(definition), "")
    described = text_at(definition, "description").strip()
    schema = next((definition[name] for name in _SCHEMAS if has_object(definition, name)), None)
    if schema is not None and has_object(schema, "json"):
        schema = schema["json"]
    return Tool(name, described or None, None if schema is None else _reduced(schema, _DEEPEST))


def _reduced(schema: Json, levels: int) -> Json:
    if not isinstance(schema, dict) or not levels:
        return None
    for name in _ALTERNATIVES:
        if has_list(schema, name):
            return _of_alternatives(schema, schema[name], levels)
    found: JsonObject = {}
    kind = _type(schema.get("type"))
    if kind:
        found["type"] = kind
    if text_at(schema, "description").strip():
        found["description"] = schema["description"].strip()
    choices = schema.get("enum")
    if isinstance(choices, list):
        found["enum"] = [choice for choice in choices if choice is not None]
    if text_at(schema, "$ref"):
        found["$ref"] = schema["$ref"].rpartition("/")[2]
    if has_object(schema, "items"):
        found["items"] = _reduced(schema["items"], levels - 1)
    for name in ("properties", "$defs"):
        members = object_in(schema, name)
        if members:
            found[name] = {key: _reduced(member, levels - 1) for key, member in members.items()}
    return found


def _of_alternatives(schema: JsonObject, alternatives: list[Json], levels: int) -> Json:
    """Return the alternatives of a schema; if only one of them is not null, that one."""
    reduced = [_reduced(one, levels - 1) for one in alternatives if as_object(one).get("type") != _NULL]
    described = text_at(schema, "description").strip()
    more: Json = {"description": described} if described else {}
    if len(reduced) == 1 and isinstance(reduced[0], dict):
        return {**reduced[0], **more}
    return {"anyOf": reduced, **more}


def _type(value: Json) -> Json:
    """Return a type in lower case and without null."""
    if isinstance(value, str):
        return value.lower()
    if not isinstance(value, list):
        return None
    kinds = sorted(kind.lower() for kind in value if isinstance(kind, str) and kind.lower() != _NULL)
    if len(kinds) == 1:
        return kinds[0]
    return kinds
