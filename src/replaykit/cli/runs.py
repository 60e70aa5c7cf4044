"""`replaykit runs`: what is in the store."""

from __future__ import annotations

from pathlib import Path

import click

from replaykit.cli import options
from replaykit.cli.short_ids import shown_ids
from replaykit.cli.verbosity import hint, is_quiet, is_verbose, reports
from replaykit.model.run import PROCESS_LOGS, RunStatus
from replaykit.programs.recovery import interrupted_recordings
from replaykit.report.runs import runs_json, runs_text
from replaykit.store.open import open_store
from replaykit.telemetry.span import trace_id_of


@click.command(name="runs")
@click.option("-n", "--limit", type=options.WholeNumber(1), default=20, show_default=True, help="Show at most N runs.")
@options.flag("--all", "everything", help="Show all runs.")
@click.option(
    "--status", type=options.OneOf([status.value for status in RunStatus]), help="Only runs with this status."
)
@click.option("--name", help="Only runs with this name.")
@click.option("--trace", metavar="ID", help="Only runs of this OpenTelemetry trace.")
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
        run_ids = [run.id for run in found]
        names = {run_id: run_id for run_id in run_ids} if is_verbose() else shown_ids(store, run_ids)
    for header in killed:
        hint(f"{header.id} was interrupted; recover it: replaykit record --recover")
    if as_json:
        options.print_json(runs_json(found))
    elif found and is_quiet():
        click.echo("\n".join([run.id for run in found]))
    elif found:
        click.echo(runs_text(found, names, more=is_verbose()))
    else:
        hint("no runs")
