"""`replaykit redact`: take out what should not have been written."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from replaykit.cases.fixtures import rename_changed_values
from replaykit.cli import options, scan
from replaykit.cli.plugins import load_plugins
from replaykit.cli.progress import Progress, progress
from replaykit.cli.verbosity import reports
from replaykit.errors import StoreError, failed_if
from replaykit.redaction.file_selection import Passed, files_below, texts_of
from replaykit.redaction.files import leaks_in, replace_file
from replaykit.redaction.project import project_redactor
from replaykit.report.leaks import redact_json, redact_text

if TYPE_CHECKING:
    from replaykit.redaction.files import Leak
    from replaykit.redaction.redactor import Redactor


@click.command(name="redact", cls=options.CommandWithParts)
@click.argument("targets", nargs=-1, required=True, metavar="FILE|CASE|RUN...")
@options.flag("--dry-run", help="Change nothing; exit 1 when there is something to replace.")
@options.store
@options.as_json
@reports
def command(targets: tuple[str, ...], dry_run: bool, store_path: Path | None, as_json: bool) -> int:
    """Replace secrets and personal data in files, cases and runs.

    Files and directories are redacted in place, each file completely or not at all. Binary files, links and files that
    are not UTF-8 are skipped. Anything else names a run in the store. It is rewritten together with its forks and
    ancestors, which share its history, and the store's file is rewritten so that no deleted page holds the old values.

    `scan` only looks: a gate for commits and pipelines. Backups and git's history are not touched. The output shows
    where and what kind of data was replaced, never the value.

    \b
    replaykit redact cases/checkout --dry-run
    replaykit redact 20260215-143200
    replaykit redact scan --staged
    """
    load_plugins()
    redactor = project_redactor(store_path, foreign=dry_run)
    leaks: list[Leak] = []
    passed_over: list[Passed] = []
    runs = [target for target in targets if not _is_path(target)]
    with progress("redacting") as redacting:
        for target in targets:
            if target not in runs:
                _redact_files(Path(target), redactor, leaks, passed_over, redacting, dry_run=dry_run)
        if runs:
            from replaykit.store.redaction import redact_runs

            leaks += redact_runs(store_path, runs, redactor, dry_run=dry_run)
    options.note(*(f"skipped: {file.file}: {file.why}" for file in passed_over))
    as_document = partial(redact_json, passed_over=passed_over, dry_run=dry_run)
    options.show(as_json, leaks, partial(redact_text, dry_run=dry_run), as_document)
    return failed_if(dry_run and leaks)


def _is_path(target: str) -> bool:
    return os.path.lexists(target) or os.sep in target


def _redact_files(
    path: Path,
    redactor: Redactor,
    leaks: list[Leak],
    passed_over: list[Passed],
    redacting: Progress,
    *,
    dry_run: bool,
) -> None:
    changed: list[Path] = []
    files = list(files_below(path, ignored=True))
    redacting.expect(len(files))
    for found in texts_of(files):
        redacting.advance()
        if isinstance(found, Passed):
            passed_over.append(found)
            continue
        here = leaks_in(found.name, found.data, redactor)
        if not here:
            continue
        leaks += here
        try:
            if not dry_run:
                replace_file(Path(found.name), redactor.raw(found.data))
                changed.append(Path(found.name))
        except OSError as error:
            raise StoreError(f"{found.name} cannot be written: {error.strerror}") from None
    rename_changed_values(changed)


command.add_command(scan.command)
