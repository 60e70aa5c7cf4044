"""`replaykit help`: reference material, a module per topic, and the help of every command."""

from __future__ import annotations

from typing import Any

import click

from replaykit.cli.lazy_group import LazyGroup

TOPICS = {
    "assertions": "List the assertions a case can make, or explain one.",
    "formats": "List the trace formats that can be imported.",
    "schema": "List the JSON Schemas of documents and results, or print one.",
    "completion": "Print a completion script for bash, zsh or fish.",
}


class HelpGroup(LazyGroup):
    """The topics; any other word names a command, and prints the help of that one."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args[0] not in TOPICS and ctx.parent is not None:
            _show_help(ctx.parent, args)
            ctx.exit()
        return super().resolve_command(ctx, args)


def _show_help(context: click.Context, words: list[str]) -> None:
    """Print the help of the command that these words lead to from a context."""
    while words and isinstance(context.command, click.Group):
        name, command, words = context.command.resolve_command(context, words)
        if command is None:
            return
        context = command.context_class(command, info_name=name, parent=context)
    click.echo(context.get_help())


@click.group(
    name="help",
    cls=HelpGroup,
    package="replaykit.cli.help",
    sections={"Topics": TOPICS},
    invoke_without_command=True,
)
@click.pass_context
def command(context: click.Context) -> None:
    """Look up assertions, formats and schemas, or a command.

    \b
    replaykit help assertions output_contains
    replaykit help schema config
    replaykit help replay
    """
    if context.invoked_subcommand is None and context.parent is not None:
        click.echo(context.parent.get_help())
