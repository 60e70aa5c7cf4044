"""`replaykit store restore`: a backup becomes the store."""

from __future__ import annotations

from pathlib import Path

import click

from replaykit.cli import options
from replaykit.cli.progress import progress
from replaykit.cli.verbosity import reports
from replaykit.config import default_store_path
from replaykit.report.retention import copied_json, copied_text
from replaykit.store.backup import restore


@click.command(name="restore")
@click.argument("file", type=options.FILE)
@options.flag("--force", help="Replace the existing store.")
@options.store
@options.as_json
@reports
def command(file: Path, force: bool, store_path: Path | None, as_json: bool) -> None:
    """Replace the store with a backup.

    The backup is copied and read completely first; until then the old store stays. Refused while other processes have
    the store open.

    \b
    replaykit store restore nightly.db --force
    """
    with progress("restoring") as restoring:
        copied = restore(file, store_path or default_store_path(), force=force, on_progress=restoring.set)
    options.show(as_json, copied, copied_text, copied_json)
