"""`replaykit tree`: the family of forks."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from replaykit.cli import options
from replaykit.cli.short_ids import shown_ids
from replaykit.report.forks import family_json, family_text, runs_of
from replaykit.store.open import open_store
from replaykit.travel.fork import family_of


@click.command(name="tree")
@click.argument("run_id", metavar="RUN")
@options.store
@options.as_json
def command(run_id: str, store_path: Path | None, as_json: bool) -> None:
    """Show a run's parent and forks as a tree.

    \b
    replaykit tree last
    """
    with open_store(store_path, read_only=True) as store:
        family = family_of(store, run_id)
        names = shown_ids(store, list(runs_of(family)))
    options.show(as_json, family, partial(family_text, names=names), family_json)
