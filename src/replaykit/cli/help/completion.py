"""`replaykit help completion`: what makes a shell complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from replaykit.cli import options

_SHELLS = ("bash", "zsh", "fish")


@click.command(name="completion")
@click.argument("shell", type=options.OneOf(_SHELLS))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print a completion script for bash, zsh or fish.

    Put one of these lines into the start-up file of your shell:

    \b
    eval "$(replaykit help completion bash)"
    eval "$(replaykit help completion zsh)"
    replaykit help completion fish | source
    """
    script = get_completion_class(shell)
    assert script is not None, "click knows the shells above"
    root = context.find_root()
    click.echo(script(root.command, {}, "replaykit", "_REPLAYKIT_COMPLETE").source())
