"""`replaykit examples`: list the examples, and copy one."""

from __future__ import annotations

from pathlib import Path

import click

from replaykit.cli import options
from replaykit.project.examples import all_examples, copy_example
from replaykit.report.examples import CopiedExample, copied_text, examples_json, examples_text


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
        options.show(as_json, all_examples(), examples_text, examples_json)


@command.command(name="copy")
@click.argument("name")
@click.argument("directory", type=options.DIRECTORY, default=Path())
@options.as_json
def copy(name: str, directory: Path, as_json: bool) -> None:
    """Copy an example into a directory, below `examples`.

    The commands in the documentation then work in that directory as written. An existing file with other content is
    never replaced.

    \b
    replaykit examples copy golden
    replaykit examples copy time_travel /tmp/try
    """
    copied = copy_example(name, directory)
    result = CopiedExample(
        example=name,
        created=list(map(str, copied.created)),
        existing=list(map(str, copied.existing)),
        first_command=copied.example.first_command,
    )
    options.show(as_json, result, copied_text)
