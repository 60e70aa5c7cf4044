"""`replaykit schema`: the JSON Schema of a case file."""

from __future__ import annotations

from importlib.resources import files

import click


@click.command(name="schema")
def command() -> None:
    """Print the JSON Schema of case.yaml.

    For editors that complete and check while one types.
    """
    click.echo(files("replaykit.cases").joinpath("case.schema.json").read_text(encoding="utf-8").rstrip())
