"""`replaykit store stats`: the store in figures."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click

from replaykit.cli import options
from replaykit.cli.verbosity import reports
from replaykit.config import default_evidence_path, default_results_path, default_store_path
from replaykit.errors import UsageError
from replaykit.report.stats import stats_prometheus, stats_text
from replaykit.retention.stats import gather_stats
from replaykit.store.open import existing_store_path


@click.command(name="stats")
@click.option(
    "--days",
    metavar="N",
    type=options.NumberRange(min=0, min_open=True, max=36_500),
    default=30,
    show_default=True,
    help="Count the replays of the last N days.",
)
@options.flag("--prometheus", help="Print metrics in Prometheus' text format.")
@click.option(
    "--evidence",
    type=options.DIRECTORY,
    help="Where replays left their files.  [default: .replaykit/runs]",
)
@options.store
@options.as_json
@reports
def command(days: float, prometheus: bool, evidence: Path | None, store_path: Path | None, as_json: bool) -> None:
    """Show how large the store is, how it grows, and how runs and replays ended.

    \b
    replaykit store stats
    replaykit store stats --prometheus > /var/lib/node_exporter/replaykit.prom
    """
    if prometheus and as_json:
        raise UsageError("--prometheus and --json cannot be combined")
    with existing_store_path(store_path or default_store_path(), read_only=True) as store:
        ci_results = default_results_path() if evidence is None else None
        stats = gather_stats(store, evidence or default_evidence_path(), replay_days=days, ci_results=ci_results)
    if prometheus:
        click.echo(stats_prometheus(stats), nl=False)
    else:
        as_text = partial(stats_text, bars=sys.stdout.isatty())
        options.show(as_json, stats, as_text, brief=lambda found: as_text(found).partition("\n")[0])
