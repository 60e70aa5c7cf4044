"""`replaykit help schema`: the JSON Schema of every document and result."""

from __future__ import annotations

import json
from importlib.resources import files

import click

from replaykit.cases.chaos_shape import CHAOS
from replaykit.cases.schema import SCHEMA_FILE, document_schema
from replaykit.cases.session_shape import SESSION
from replaykit.cli import options
from replaykit.cli.result_types import RESULTS
from replaykit.contracts.shape import CONTRACT
from replaykit.project.shape import PROJECT
from replaykit.report.schemas import SchemaEntry, schemas_json, schemas_text

_SHAPES = {
    "config": ("ReplayKit configuration", PROJECT),
    "contract": ("ReplayKit contract", CONTRACT),
    "session": ("ReplayKit session", SESSION),
    "chaos": ("ReplayKit chaos profile", CHAOS),
}
DOCUMENTS = ("case", *_SHAPES)


@click.command(name="schema")
@click.argument("name", type=options.OneOf([*DOCUMENTS, *RESULTS]), required=False, metavar="[NAME]")
@options.as_json
def command(name: str | None, as_json: bool) -> None:
    """List the JSON Schemas of documents and results, or print one.

    Editors use the schema of a document to complete and check a file while you type: case.yaml, replaykit.yaml
    (config), a contract, a session, or a chaos profile. The schema of a result says what a command prints with --json:
    result.replay, result.store.stats.

    \b
    replaykit help schema
    replaykit help schema config > replaykit.schema.json
    replaykit help schema result.replay
    """
    if name is None:
        options.show(as_json, _entries(), schemas_text, schemas_json)
    elif name == "case":
        # The shipped file: as current as the loader, and it needs no import of all assertions.
        click.echo(files("replaykit.cases").joinpath(SCHEMA_FILE).read_text(encoding="utf-8").rstrip())
    elif name in RESULTS:
        click.echo(json.dumps(RESULTS[name].schema(), indent=2, ensure_ascii=False))
    else:
        click.echo(json.dumps(document_schema(*_SHAPES[name]), indent=2, ensure_ascii=False))


def _entries() -> list[SchemaEntry]:
    entries = [SchemaEntry(name="case", title="ReplayKit case")]
    entries += [SchemaEntry(name=name, title=title) for name, (title, _shape) in _SHAPES.items()]
    entries += [SchemaEntry(name=result.name, title=result.title) for result in RESULTS.values()]
    return entries
