"""`replaykit lint`: is a case sound?"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from replaykit.cases.find import find_case_files
from replaykit.cases.lint import lint_cases
from replaykit.cli import options, trusted_config
from replaykit.cli.progress import progress
from replaykit.config import default_store_path
from replaykit.documents.shape import FlawSeverity
from replaykit.errors import ExitCode, failed_if
from replaykit.redaction.project import rules_beside
from replaykit.report.cases import problems_json, problems_text


@click.command(name="lint")
@click.argument("cases", nargs=-1, required=True, type=options.PATH, metavar="CASE...")
@options.flag("--strict", help="Treat warnings as errors.")
@trusted_config.config_from
@options.as_json
def command(cases: tuple[Path, ...], strict: bool, config_from: str | None, untrusted: bool, as_json: bool) -> int:
    """Check cases for schema errors, missing files and contradictions.

    Shows every problem with its file, its line and its fix. A secret or personal data in a case is an error. Exit 1 if
    there is an error, 3 if a newer version wrote a case.

    \b
    replaykit lint cases/search-loop/case.yaml
    replaykit lint cases
    """
    trusted = trusted_config.config_files(config_from, untrusted=untrusted)
    options.note(*trusted.notices, *rules_beside(default_store_path()).notices)
    files = find_case_files(cases)
    with progress("linting", len(files)) as linting:
        problems = lint_cases(files, linting.advance)
    options.show(as_json, problems, partial(problems_text, count=len(files)), problems_json)
    if any(problem.code == "format-too-new" for problem in problems):
        return ExitCode.CANNOT
    return failed_if(any(strict or problem.severity is FlawSeverity.ERROR for problem in problems))
