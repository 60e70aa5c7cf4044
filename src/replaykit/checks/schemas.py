"""Validate values against JSON Schema with the library `jsonschema`, which is an extra.

References that double at each level make small schemas take exponential time, and the library has no timeout: each
validation step checks the clock, and after `DEADLINE_S` the result is `CannotTell`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from replaykit.checks.reading import short, shown
from replaykit.checks.regexes import check_pattern, search
from replaykit.checks.rule import CannotTell
from replaykit.errors import install_hint
from replaykit.model.nesting import NestedTooDeeply, check_value_nesting
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import has_object

DEADLINE_S = 2.0
MAX_NESTING = 100
"""The depth limit of schemas and values: the library takes up to ten stack frames per level."""


def check_schema(schema: JsonObject) -> None:
    """Raise `ValueError` for an invalid schema. Without the library, only its form is checked."""
    try:
        check_value_nesting(schema, MAX_NESTING)
    except NestedTooDeeply as error:
        raise ValueError(f"bad JSON Schema: {error}") from None
    for pattern in _patterns(schema):
        check_pattern(pattern)
    try:
        library = _library()
    except CannotTell:
        return  # without the library, a case can be inspected but not replayed
    try:
        _draft(library, schema).check_schema(schema)
    except library.SchemaError as error:
        raise ValueError(f"bad JSON Schema at {error.json_path}: {short(error.message)}") from None


def schema_flaw(schema: Json, value: Json) -> str | None:
    """Return the first violation in one line, or None.

    Raises `CannotTell` if the library is missing, validation takes too long, or the schema has an external reference,
    since nothing is ever fetched.
    """
    library = _library()
    try:
        check_value_nesting(value, MAX_NESTING)
        error = next(_validator(library, schema).iter_errors(value), None)
    except NestedTooDeeply as problem:
        raise CannotTell(f"a JSON Schema cannot be applied: the value is {problem}") from None
    except RecursionError:
        raise CannotTell("the JSON Schema refers to itself without an end") from None
    except Exception as problem:
        if type(problem).__module__.split(".")[0] not in ("jsonschema", "referencing"):
            raise
        raise CannotTell(f"the JSON Schema cannot be followed: {short(str(problem))}") from None
    if error is not None:
        return f"{error.json_path}: {short(error.message)}"
    return None


def _patterns(schema: Json) -> Iterator[str]:
    """Yield every pattern in a schema, except in examples and constants."""
    if isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        if has_object(schema, "patternProperties"):
            yield from map(str, schema["patternProperties"])
        for key, below in schema.items():
            if key not in ("const", "enum", "default", "examples"):
                yield from _patterns(below)
    elif isinstance(schema, list):
        for below in schema:
            yield from _patterns(below)


def _library() -> Any:
    try:
        import jsonschema  # noqa: PLC0415 (an extra, and slow to import)
    except ImportError:
        raise CannotTell("JSON Schema needs the library `jsonschema`", hint=install_hint("schema")) from None
    return jsonschema


def _draft(library: Any, schema: Json) -> Any:
    """Return the draft that `$schema` names; by default 2020-12."""
    return library.validators.validator_for(schema, default=library.Draft202012Validator)


def _validator(library: Any, schema: Json) -> Any:
    """Return a validator that fetches nothing and is bounded in time, including its patterns."""
    from referencing import Registry  # noqa: PLC0415 (comes with jsonschema)

    own = {"pattern": _pattern, "patternProperties": _pattern_properties, "uniqueItems": _unique_items}
    bounded = library.validators.extend(_draft(library, schema), own)
    ends_at = time.monotonic() + DEADLINE_S
    plain_step = bounded.evolve

    def step(self: Any, **changes: Any) -> Any:
        if time.monotonic() > ends_at:
            hint = "Write it with fewer references to the same definition."
            raise CannotTell(f"the JSON Schema took more than {DEADLINE_S:g} s", hint=hint)
        part = changes.get("schema")
        # a nested `$schema` would select the library's unbounded validator
        if isinstance(part, dict) and "$schema" in part:
            changes["schema"] = {key: value for key, value in part.items() if key != "$schema"}
        return plain_step(self, **changes)

    bounded.evolve = step  # each step into a part or a reference creates its validator with this
    return bounded(schema, registry=Registry())


def _pattern(_validator: Any, pattern: str, value: Json, _schema: Json) -> Any:
    import jsonschema  # noqa: PLC0415 (loaded already)

    if isinstance(value, str) and search(pattern, value) is None:
        yield jsonschema.ValidationError(f"{shown(value)} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: JsonObject, value: Json, _schema: Json) -> Any:
    if not isinstance(value, dict):
        return
    for pattern, below in patterns.items():
        for key, item in value.items():
            if search(pattern, key) is not None:
                yield from validator.descend(item, below, path=key, schema_path=pattern)


def _unique_items(_validator: Any, unique: bool, value: Json, _schema: Json) -> Any:
    """Check uniqueness in linear time: the library compares every pair."""
    import jsonschema  # noqa: PLC0415 (loaded already)

    if unique is True and isinstance(value, list) and len({_hashed(item) for item in value}) < len(value):
        yield jsonschema.ValidationError(f"the items are not unique: {shown(value)}")


def _hashed(value: Json) -> object:
    """Return a hashable key that is equal for equal values: 1 is 1.0, and true is not 1."""
    if isinstance(value, dict):
        return frozenset((key, _hashed(item)) for key, item in value.items())
    if isinstance(value, list):
        return tuple(map(_hashed, value))
    if isinstance(value, bool):
        return (value,)
    return value
