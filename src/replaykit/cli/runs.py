"""`replaykit runs`: what is in the store."""

from __future__ import annotations

import sys
from itertools import takewhile
from pathlib import Path

import click

from replaykit.cli import options
from replaykit.cli.verbosity import hint, is_quiet, is_verbose, reports
from replaykit.errors import RunNotFound
from replaykit.model.run import PROCESS_LOGS, RunStatus
from replaykit.programs.recovery import interrupted_recordings
from replaykit.report.runs import runs_json, runs_text
from replaykit.store.open import open_store
from replaykit.store.protocol import Store
from replaykit.telemetry.span import trace_id_of

_SHORTEST = 8
"""Characters of an id that are shown at least."""


@click.command(name="runs")
@click.option("-n", "--limit", type=click.IntRange(1), default=20, show_default=True, help="How many, newest first.")
@options.flag("--all", "everything", help="Show all runs.")
@click.option(
    "--status", type=options.OneOf([status.value for status in RunStatus]), help="Only runs with this status."
)
@click.option("--name", help="Only runs of this name.")
@click.option("--trace", metavar="ID", help="Only the runs of this trace of OpenTelemetry.")
@options.store
@options.as_json
@reports
def command(
    limit: int,
    everything: bool,
    status: str | None,
    name: str | None,
    trace: str | None,
    store_path: Path | None,
    as_json: bool,
) -> None:
    """List recorded runs, newest first.

    \b
    replaykit runs
    replaykit runs --status error -n 5
    """
    with open_store(store_path, read_only=True) as store:
        # Parts of a recording that is under way, or was killed, are not runs yet.
        parts = {header.id for header in store.headers(below=PROCESS_LOGS)}
        most = None if everything or trace is not None else limit + len(parts)
        found = [run for run in store.headers(limit=most, status=status, name=name) if run.id not in parts]
        if trace is not None:
            found = [run for run in found if trace_id_of(run) == trace.strip().lower()]
        found = found if everything else found[:limit]
        killed = interrupted_recordings(store)
        names = _short_ids(store, [run.id for run in found]) if sys.stdout.isatty() and not is_verbose() else None
    for header in killed:
        hint(f"{header.id} was interrupted; put it together: replaykit record --recover")
    if as_json:
        click.echo(runs_json(found))
    elif found and is_quiet():
        click.echo("\n".join([run.id for run in found]))
    elif found:
        click.echo(runs_text(found, names, more=is_verbose()))
    else:
        hint("no runs")


def _short_ids(store: Store, run_ids: list[str]) -> dict[str, str]:
    """Return a beginning of each id that names its run and no other."""
    shortened = {}
    ordered = sorted(run_ids)
    for before, run_id, after in zip(["", *ordered], ordered, [*ordered[1:], ""], strict=False):
        length = 1 + max(_common_length(run_id, before), _common_length(run_id, after))
        shortened[run_id] = _if_unique(store, run_id[: max(length, _SHORTEST)], run_id)
    return shortened


def _common_length(one: str, other: str) -> int:
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))))


def _if_unique(store: Store, beginning: str, run_id: str) -> str:
    """Return the beginning of an id, or the whole of it where another run in the store begins alike."""
    try:
        is_unique = store.header(beginning).id == run_id
    except RunNotFound:
        is_unique = False
    return beginning if is_unique else run_id
