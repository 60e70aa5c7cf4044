"""The JSON Schema of the case file, for editors, built from the loader's own shapes and rules.

`python -m replaykit.cases.schema > src/replaykit/cases/case.schema.json` writes the shipped file.
"""

from __future__ import annotations

import json
import sys

import msgspec

from replaykit.cases.case_shape import CASE
from replaykit.checks.rule import ASSERTIONS, Rule
from replaykit.documents.shape import Shape
from replaykit.model.values import JsonObject

SCHEMA_FILE = "case.schema.json"


def case_schema() -> JsonObject:
    """Return the schema of a case file, with all registered assertions."""
    return document_schema("ReplayKit case", CASE)


def document_schema(title: str, shape: Shape) -> JsonObject:
    """Return the schema of a document of this shape, with all registered assertions."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **shape.schema(),
        "$defs": {"assertion": _assertion_schema(), **_shared()},
    }


def schema_text() -> str:
    """Return the schema as the text of its file."""
    return json.dumps(case_schema(), indent=2, ensure_ascii=False) + "\n"


def _assertion_schema() -> JsonObject:
    return {
        "type": "object",
        "description": "One assertion: its kind and its value.",
        "properties": {kind: _kind_schema(ASSERTIONS.get(kind)) for kind in ASSERTIONS},
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }


def _kind_schema(rule: type[Rule]) -> JsonObject:
    note = (rule.__doc__ or "").partition("\n")[0]
    return {"description": note, **_value_schema(rule)}


def _components(*rules: type[Rule]) -> dict[str, JsonObject]:
    return msgspec.json.schema_components(rules)[1]


def _shared() -> JsonObject:
    """Return the definitions that rules refer to by name."""
    rules = [rule for rule in ASSERTIONS.values() if rule.schema() is None]
    names = {rule.__name__ for rule in rules}
    return {name: part for name, part in sorted(_components(*rules).items()) if name not in names}


def _value_schema(rule: type[Rule]) -> JsonObject:
    """Return the schema of a plain value, of parameters by name, or of either, like `Rule.parse`."""
    own = rule.schema()
    if own is not None:
        return own
    components = _components(rule)
    fields = components[rule.__name__]
    forms: list[JsonObject] = []
    if rule.plain is not None:
        forms.append(fields["properties"][rule.plain])
    if rule.named:
        forms.append({key: fields[key] for key in fields if key not in ("title", "description")})
    if len(forms) == 1:
        return forms[0]
    return {"anyOf": forms}


if __name__ == "__main__":
    sys.stdout.write(schema_text())
