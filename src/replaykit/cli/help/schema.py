"""`replaykit help schema`: the JSON Schema of every document."""

from __future__ import annotations

import json
from importlib.resources import files

import click

from replaykit.cases.chaos_shape import CHAOS
from replaykit.cases.schema import SCHEMA_FILE, document_schema
from replaykit.cases.session_shape import SESSION
from replaykit.cli import options
from replaykit.contracts.shape import CONTRACT
from replaykit.project.shape import PROJECT

_SHAPES = {
    "config": ("ReplayKit configuration", PROJECT),
    "contract": ("ReplayKit contract", CONTRACT),
    "session": ("ReplayKit session", SESSION),
    "chaos": ("ReplayKit chaos profile", CHAOS),
}
DOCUMENTS = ("case", *_SHAPES)


@click.command(name="schema")
@click.argument("document", type=options.OneOf(DOCUMENTS), default="case")
def command(document: str) -> None:
    """Print the JSON Schema of a document.

    Editors use it to complete and check a file while you type: case.yaml, replaykit.yaml (config), a contract, a
    session, or a chaos profile.

    \b
    replaykit help schema config > replaykit.schema.json
    """
    if document == "case":
        # The shipped file: as current as the loader, and it needs no import of all assertions.
        click.echo(files("replaykit.cases").joinpath(SCHEMA_FILE).read_text(encoding="utf-8").rstrip())
        return
    click.echo(json.dumps(document_schema(*_SHAPES[document]), indent=2, ensure_ascii=False))
