"""`replaykit checkpoints`: the steps of a run."""

from __future__ import annotations

from pathlib import Path

import click

from replaykit.cli import options
from replaykit.report.forks import checkpoints_text
from replaykit.report.layout import fit, to_json
from replaykit.travel.checkpoints import CheckpointStore


@click.command(name="checkpoints")
@click.argument("run_id", metavar="RUN")
@options.store
@options.as_json
def command(run_id: str, store_path: Path | None, as_json: bool) -> None:
    """List the steps of a run that you can resume or fork from.

    If the agent marks no steps, each call is one. To see the state after a step: replaykit show RUN --step STEP --state

    \b
    replaykit checkpoints last
    """
    found = CheckpointStore(store_path).list_checkpoints(run_id)
    if as_json:
        options.print_json(to_json({"replaykit": 1, "checkpoints": found}))
    elif found:
        click.echo(fit(checkpoints_text(found)))
    else:
        click.echo("no steps: the run made no calls", err=True)
