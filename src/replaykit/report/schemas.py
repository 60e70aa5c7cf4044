"""The JSON Schemas that can be printed, as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from replaykit.report.layout import JsonResult, table, to_json


class SchemaEntry(Struct, frozen=True, kw_only=True):
    """A JSON Schema that can be printed."""

    name: str
    """The name that `replaykit help schema` takes."""
    title: str
    """The document, or the command that prints the result."""


class SchemaList(JsonResult, frozen=True, kw_only=True):
    """The JSON Schemas of all documents and results."""

    schemas: Sequence[SchemaEntry]
    """The schemas of the documents first."""


def schemas_text(schemas: Sequence[SchemaEntry]) -> str:
    """The schemas, a line each."""
    rows = [[entry.name, entry.title] for entry in schemas]
    return table(["name", "what it describes"], rows, is_cut=False) + "\n\nPrint one: replaykit help schema NAME"


def schemas_json(schemas: Sequence[SchemaEntry]) -> str:
    """The schemas for programs."""
    return to_json(SchemaList(schemas=schemas))
