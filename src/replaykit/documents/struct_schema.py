"""JSON Schemas of results, from the types of structs and the docstrings of their fields.

A schema describes written files, not accepted ones: a key that is always present is required, and other keys are
allowed, since a later version may add some.
"""

from __future__ import annotations

import ast
import inspect as sources
import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

from msgspec import NODEFAULT, Struct, inspect

from replaykit.model.values import JsonObject

DRAFT = "https://json-schema.org/draft/2020-12/schema"
VERSION_KEY = "replaykit"
"""The key of a result's version."""
_PYTHON_WORDS = re.compile(r"\b(None|True|False)\b")
_JSON_WORDS = {"None": "null", "True": "true", "False": "false"}

_SIMPLE: dict[type, JsonObject] = {
    inspect.AnyType: {},
    inspect.RawType: {},
    inspect.NoneType: {"type": "null"},
    inspect.BoolType: {"type": "boolean"},
    inspect.IntType: {"type": "integer"},
    inspect.FloatType: {"type": "number"},
    inspect.StrType: {"type": "string"},
    inspect.DateTimeType: {"type": "string", "format": "date-time"},
}


def result_schema(type_: Any, *, name: str, title: str) -> JsonObject:
    """Return the JSON Schema of a type's values, as they are written."""
    parts: dict[str, JsonObject] = {}
    schema = _schema(inspect.type_info(type_), parts)
    return {
        "$schema": DRAFT,
        "$id": f"urn:replaykit:{name}",
        "title": title,
        **schema,
        "$defs": dict(sorted(parts.items())),
    }


def _schema(info: Any, parts: dict[str, JsonObject]) -> JsonObject:
    """Return the schema of a type; structs and enumerations in it go to `parts`, by name."""
    if type(info) in _SIMPLE:
        return _SIMPLE[type(info)]
    if isinstance(info, inspect.Metadata):
        return _schema(info.type, parts)
    if isinstance(info, inspect.ListType | inspect.VarTupleType | inspect.CollectionType):
        return {"type": "array", "items": _schema(info.item_type, parts)}
    if isinstance(info, inspect.TupleType):
        items = [_schema(item, parts) for item in info.item_types]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if isinstance(info, inspect.DictType):
        return {"type": "object", "additionalProperties": _schema(info.value_type, parts)}
    if isinstance(info, inspect.UnionType):
        return {"anyOf": [_schema(member, parts) for member in info.types]}
    if isinstance(info, inspect.LiteralType):
        return {"enum": list(info.values)}
    name = info.cls.__name__
    if name not in parts:
        parts[name] = {}  # a struct may contain others of its own type
        parts[name] = _part(info, parts)
    return {"$ref": f"#/$defs/{name}"}


def _part(info: inspect.StructType | inspect.EnumType, parts: dict[str, JsonObject]) -> JsonObject:
    description = sources.cleandoc(info.cls.__doc__ or "")
    if isinstance(info, inspect.EnumType):
        return {"description": description, "enum": [member.value for member in info.cls]}
    docs = field_docs(info.cls)
    properties: JsonObject = {}
    required = []
    if info.tag_field is not None:
        properties[info.tag_field] = {"const": info.tag}
        required.append(info.tag_field)
    is_short = info.cls.__struct_config__.omit_defaults
    for field in info.fields:
        schema = _schema(field.type, parts)
        if field.encode_name == VERSION_KEY and field.default is not NODEFAULT:
            schema = {"const": field.default}
        if field.name in docs:
            schema = {"description": docs[field.name], **schema}
        properties[field.encode_name] = schema
        has_default = field.default is not NODEFAULT or field.default_factory is not NODEFAULT
        if field.required or (has_default and not is_short):  # neither is set for a value that may be UNSET
            required.append(field.encode_name)
    return {"description": description, "type": "object", "properties": properties, "required": required}


@cache
def field_docs(struct: type[Struct]) -> dict[str, str]:
    """Return the docstrings of a struct's fields, including inherited ones, each on one line."""
    docs: dict[str, str] = {}
    for cls in reversed(struct.__mro__):
        if cls.__module__.startswith("replaykit."):
            docs |= _docs_of_module(cls.__module__).get(cls.__qualname__, {})
    return docs


@cache
def _docs_of_module(module: str) -> dict[str, dict[str, str]]:
    """Return the field docstrings of each class of a module: the texts below their annotations."""
    docs: dict[str, dict[str, str]] = {}
    for node in ast.parse(sources.getsource(sys.modules[module])).body:
        if isinstance(node, ast.ClassDef):
            docs[node.name] = dict(_docs_of_class(node))
    return docs


def _docs_of_class(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, below in zip(node.body, node.body[1:], strict=False):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            yield field.target.id, _in_json_words(str(below.value.value))


def _in_json_words(text: str) -> str:
    """Return a docstring on one line, with Python's words replaced by JSON's: `null if there is none`."""
    line = _PYTHON_WORDS.sub(lambda word: _JSON_WORDS[word[0]], " ".join(text.split()))
    return line[:1].upper() + line[1:]
