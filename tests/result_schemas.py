"""Results against their JSON Schemas, strictly: a key that no schema knows is wrong."""

from __future__ import annotations

from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from replaykit.cli.result_types import RESULTS


def flaws(name: str, value: Any) -> list[str]:
    """Return what is wrong with a result of that name."""
    return [f"{error.json_path}: {error.message}" for error in validator(name).iter_errors(value)]


@cache
def validator(name: str) -> Draft202012Validator:
    """Return the validator of a result that knows every key."""
    return Draft202012Validator(closed(RESULTS[name].schema()))


def closed(schema: Any) -> Any:
    """Return a schema that allows no further keys, here and in all its parts."""
    if isinstance(schema, list):
        return list(map(closed, schema))
    if not isinstance(schema, dict):
        return schema
    strict = {key: closed(part) for key, part in schema.items()}
    if "properties" in strict:
        strict["additionalProperties"] = False
    return strict
