"""`replaykit tree`: the family of forks."""

from __future__ import annotations

from pathlib import Path

import click

from replaykit.cli import options
from replaykit.report.forks import family_json, family_text
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
    options.show(as_json, family, family_text, family_json)
