"""`replaykit upgrade`: cases of an older format become current ones."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from replaykit.candidates.case_check import upgrade_case
from replaykit.cases.case import CASE_FILE
from replaykit.cases.find import find_case_files
from replaykit.cli import options
from replaykit.cli.progress import progress
from replaykit.errors import ExitCode, ReplayKitError, UsageError, gravest
from replaykit.report.cases import upgraded_json, upgraded_text
from replaykit.terminal import style

if TYPE_CHECKING:
    from replaykit.candidates.case_check import Upgraded


@click.command(name="upgrade")
@click.argument("cases", nargs=-1, type=options.PATH, metavar="[CASE]...")
@options.config
@options.flag("--dry-run", help="Show what would change; write nothing.")
@options.as_json
def command(cases: tuple[Path, ...], config: Path | None, dry_run: bool, as_json: bool) -> int:
    """Rewrite cases of an older format in the current one.

    Your comments and the order of keys stay. Older cases work as they are; upgrading makes them smaller (repeated calls
    are written once, large values go to their own files), gives you the new keys, and adds a proof. A case without a
    proof is checked as `scaffold` does; if its source trace reproduces the failure, proof.json says so. Without CASE,
    all cases of the configuration are upgraded.

    Exit 2 if a case cannot be read (the others are upgraded), 3 if a newer version wrote one.

    \b
    replaykit upgrade --dry-run
    replaykit upgrade cases/search-loop
    """
    files = [file for file in find_case_files(cases or _configured(config)) if file.name == CASE_FILE]
    done: list[Upgraded] = []
    wrong: list[ReplayKitError] = []
    with progress("upgrading", len(files)) as upgrading:
        for file in files:
            try:
                done.append(upgrade_case(file.parent, dry_run=dry_run))
            except ReplayKitError as error:
                wrong.append(error)
                click.echo(f"{style('error', fg='red', bold=True)}: {error}", err=True)
            upgrading.advance()
    options.show(as_json, done, partial(upgraded_text, dry_run=dry_run), upgraded_json)
    if not files:
        return ExitCode.NOTHING
    return gravest(error.exit_code for error in wrong)


def _configured(config: Path | None) -> tuple[Path, ...]:
    """The paths of the configuration's cases."""
    project = options.project_of(config)
    if project is None or not project.cases:
        raise UsageError("no case to upgrade", hint="Name one: replaykit upgrade cases")
    return tuple(project.cases)
