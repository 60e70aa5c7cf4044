"""`replaykit store prune`: what nobody needs any more goes."""

from __future__ import annotations

from pathlib import Path

import click

from replaykit.cli import options
from replaykit.cli.progress import progress
from replaykit.cli.verbosity import reports
from replaykit.config import default_store_path
from replaykit.errors import UsageError
from replaykit.report.retention import pruned_text
from replaykit.retention.policy import RetentionPolicy
from replaykit.retention.prune import prune, referenced_runs
from replaykit.store.open import existing_store_path


@click.command(name="prune")
@options.flag("--dry-run", help="Show what would be deleted and why; delete nothing.")
@options.flag("--compact", help="Also rewrite the whole file; other writers wait.")
@options.flag("--auto", help="Do nothing unless the configuration says `retention: {auto: true}`.")
@options.config
@options.store
@options.as_json
@reports
def command(
    dry_run: bool, compact: bool, auto: bool, config: Path | None, store_path: Path | None, as_json: bool
) -> None:
    """Delete expired runs and reclaim their space.

    Successful runs expire after 14 days and failed ones after 90, unless `retention` in replaykit.yaml says otherwise.
    A run stays if it is being recorded, if a case names it, if a stored fork comes from it, or if it is tagged `keep`.
    Other processes can record meanwhile.

    \b
    replaykit store prune --dry-run
    replaykit store prune
    """
    if compact and dry_run:
        raise UsageError("--compact and --dry-run cannot be combined")
    project = options.project_of(config)
    policy = RetentionPolicy() if project is None else project.retention
    if auto and not policy.auto:
        return
    named = referenced_runs(() if project is None else project.cases)
    with existing_store_path(store_path or default_store_path(), read_only=dry_run) as store, progress("pruning"):
        result = prune(store, policy, named=named, dry_run=dry_run, compact=compact)
    options.show(as_json, result, pruned_text)
