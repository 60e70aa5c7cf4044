"""`replaykit schema`: the JSON Schema of a case file."""

from __future__ import annotations

import click


@click.command(name="schema")
def command() -> None:
    """Print the JSON Schema of case.yaml.

    For editors that complete and check while one types.
    """
    from importlib.resources import files

    click.echo(files("replaykit.cases").joinpath("case.schema.json").read_text(encoding="utf-8").rstrip())
