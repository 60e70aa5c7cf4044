"""`replaykit store keep`: this run stays."""

from __future__ import annotations

from pathlib import Path

import click

from replaykit.cli import options
from replaykit.cli.verbosity import is_quiet, reports
from replaykit.config import default_store_path
from replaykit.errors import UsageError
from replaykit.model.run import RunStatus
from replaykit.report.retention import tagged_json
from replaykit.retention.policy import KEEP
from replaykit.store.open import existing_store_path
from replaykit.store.run_locks import running_numbers


@click.command(name="keep")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@options.flag("--undo", help="Allow pruning them again.")
@options.store
@options.as_json
@reports
def command(runs: tuple[str, ...], undo: bool, store_path: Path | None, as_json: bool) -> None:
    """Protect runs from pruning.

    A RUN is an id, the beginning of one, or a name (its newest run).

    \b
    replaykit store keep 20260215-143200
    replaykit store keep billing --undo
    """
    with existing_store_path(store_path or default_store_path()) as store, store.exclusive():
        found = [store.header(run) for run in runs]
        for header in found:
            if header.status is RunStatus.RUNNING and running_numbers(store.real_path, [store.number_of(header.id)]):
                raise UsageError(
                    f"run {header.id} is still being recorded, and nothing prunes it",
                    hint=f"When it has ended: replaykit store keep {header.id}",
                )
        change = {"remove" if undo else "add": (KEEP,)}
        tagged = [store.tag(header.id, **change) for header in found]
    if as_json:
        options.print_json(tagged_json(tagged))
        return
    what = "can be pruned again" if undo else "stays"
    for header in tagged:
        click.echo(header.id if is_quiet() else f"{header.id}  {what}")
