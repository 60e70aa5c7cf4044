"""`replaykit store backup`: the store in one file, to be put away."""

from __future__ import annotations

from pathlib import Path

import click

from replaykit.cli import options
from replaykit.cli.progress import progress
from replaykit.cli.verbosity import reports
from replaykit.config import default_store_path
from replaykit.report.retention import copied_json, copied_text
from replaykit.store.backup import backup
from replaykit.store.open import existing_store_path


@click.command(name="backup")
@click.argument("file", type=options.FILE)
@options.flag("--force", help="Replace the file if it exists.")
@options.store
@options.as_json
@reports
def command(file: Path, force: bool, store_path: Path | None, as_json: bool) -> None:
    """Copy the store to a file while others use it.

    The copy is a snapshot of one moment. Every row is read back before the copy gets its name, so a failure leaves an
    existing file as it was.

    \b
    replaykit store backup nightly.db --force
    """
    source = existing_store_path(store_path or default_store_path(), read_only=True)
    with source as store, progress("copying") as copying:
        copied = backup(store, file, force=force, on_progress=copying.set)
    options.show(as_json, copied, copied_text, copied_json)
