"""`replaykit examples`: list the examples, and copy one."""

from __future__ import annotations

from pathlib import Path

import click

from replaykit.cli import options
from replaykit.project.examples import DIRECTORY, Example, all_examples, copy_example
from replaykit.report.layout import table, to_json


@click.group(name="examples", cls=options.SubcommandGroup, invoke_without_command=True)
@options.as_json
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """List the examples, or copy one into your directory.

    \b
    replaykit examples
    replaykit examples copy golden
    """
    if context.invoked_subcommand is None:
        options.show(as_json, all_examples(), _examples_text, _examples_json)


@command.command(name="copy")
@click.argument("name")
@click.argument("directory", type=options.DIRECTORY, default=Path())
def copy(name: str, directory: Path) -> None:
    """Copy an example into a directory, below `examples`.

    The commands in the documentation then work in that directory as written. Existing files are never replaced.

    \b
    replaykit examples copy golden
    replaykit examples copy time_travel /tmp/try
    """
    example = copy_example(name, directory)
    for file in example.files:
        click.echo(f"created   {directory / DIRECTORY / file}")
    click.echo(f"\nNext: {example.first_command}")


def _examples_text(examples: dict[str, Example]) -> str:
    rows = [[name, example.summary] for name, example in examples.items()]
    return table(["example", "shows"], rows, is_cut=False) + "\n\nCopy one: replaykit examples copy NAME"


def _examples_json(examples: dict[str, Example]) -> str:
    return to_json({"replaykit": 1, "examples": examples})
