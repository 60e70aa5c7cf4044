"""`replaykit lint --upgrade`: cases of an older format become current ones."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from replaykit.candidates.case_check import upgrade_case
from replaykit.cases.case import CASE_FILE
from replaykit.cases.find import find_case_files
from replaykit.cli import options
from replaykit.cli.plugins import load_plugins
from replaykit.cli.progress import progress
from replaykit.errors import ExitCode, ReplayKitError, UsageError, gravest
from replaykit.report.upgrades import upgraded_json, upgraded_text
from replaykit.terminal import style

if TYPE_CHECKING:
    from replaykit.candidates.case_check import Upgraded


def upgrade(cases: tuple[Path, ...], config: Path | None, *, dry_run: bool, as_json: bool) -> ExitCode:
    """Rewrite these cases, or those of the configuration, in the current format, and print what changed."""
    if cases:
        load_plugins(config)
    else:
        project = options.project_of(config)
        if project is None or not project.cases:
            raise UsageError("no case to upgrade", hint="Name one: replaykit lint --upgrade cases")
        cases = tuple(project.cases)
    files = [file for file in find_case_files(cases) if file.name == CASE_FILE]
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
