"""`replaykit init`: prepare a project."""

from __future__ import annotations

from pathlib import Path

import click

from replaykit.cli import options
from replaykit.config import HOME
from replaykit.project.find import PROJECT_FILES

_README = """# Cases

Each directory here is a failure that once happened, kept so that it cannot come back unseen.

    replaykit scaffold TRACE --out cases/NAME        make one from a failed trace
    replaykit lint cases                             check them
    replaykit replay cases --agent MODULE:FUNCTION   run an agent against them
    replaykit scan cases                             look for secrets before they are committed

What is secret or personal is replaced by placeholders of the same form when a case is made.
"""


_CONFIG = """replaykit: 1

# The agent under test. `replaykit replay` runs it against everything below.
# agent:
#   type: python                 # or http, langchain, command
#   endpoint: my_agent:answer    # module:function, a URL, or a command
#   timeout: 30000               # milliseconds

cases: [cases]

# What the agent promises. A session names the contract that it must keep.
# contracts:
#   default:
#     invariants:
#       - {id: answers, type: output_not_empty, severity: critical}

# Incidents: an input, what the tools answered, and a contract.
# replays:
#   sessions:
#     - file: replays/incident_001.yaml
"""


@click.command(name="init")
@click.argument("directory", type=options.DIRECTORY, default=Path())
def command(directory: Path) -> None:
    """Set up a project: configuration, cases and store.

    Makes a configuration, a place for cases, and one for the store that stays out of git.

    What is there already is left as it is.

    \b
    replaykit init
    """
    for file, text in (
        (directory / HOME / ".gitignore", "*\n"),
        (directory / "cases" / "README.md", _README),
        (directory / PROJECT_FILES[0], _CONFIG),
    ):
        if file.exists():
            click.echo(f"there     {file}")
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        click.echo(f"created   {file}")
    click.echo("\nNext: replaykit scaffold TRACE --out cases/NAME   (or `replaykit demo` to see it work)")
