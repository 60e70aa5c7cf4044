"""`replaykit lint`: is a case sound?"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click
from msgspec.structs import replace

from replaykit.cases.find import find_case_files
from replaykit.cases.lint import Problem, lint_cases
from replaykit.cli import options, plugins, trusted_config
from replaykit.config import default_store_path
from replaykit.documents.shape import FlawSeverity
from replaykit.errors import ExitCode, failed_if
from replaykit.redaction.project import rules_beside
from replaykit.report.cases import problems_json, problems_text


@click.command(name="lint")
@click.argument("cases", nargs=-1, required=True, type=options.PATH, metavar="CASE...")
@options.flag("--strict", help="Treat warnings as errors.")
@trusted_config.config_from
@plugins.with_plugins
@options.as_json
def command(
    cases: tuple[Path, ...],
    strict: bool,
    config_from: str | None,
    untrusted: bool,
    with_plugins: bool,
    as_json: bool,
) -> int:
    """Check cases for schema errors, missing files and contradictions.

    Shows every problem with its file, its line and its fix. A secret or personal data in a case is an error. Exit 1 if
    there is an error, 3 if a newer version wrote a case.

    \b
    replaykit lint cases/search-loop/case.yaml
    replaykit lint cases
    """
    trusted = trusted_config.config_files(config_from, untrusted=untrusted)
    options.note(*trusted.notices, *rules_beside(default_store_path()).notices)
    if with_plugins:
        plugins.load_plugins(None, trusted)
    files = find_case_files(cases)
    problems = lint_cases(files)
    if not with_plugins and plugins.named_plugins(None, trusted):
        problems = list(map(_with_advice, problems))
    options.show(as_json, problems, partial(problems_text, count=len(files)), problems_json)
    if any(problem.code == "format-too-new" for problem in problems):
        return ExitCode.CANNOT
    return failed_if(any(strict or problem.severity is FlawSeverity.ERROR for problem in problems))


def _with_advice(problem: Problem) -> Problem:
    """Return a problem; one that may be none with the plugins says how they are imported."""
    if "unknown assertion" in problem.message or problem.code == "unknown-check":
        return replace(problem, hint="If a plugin of yours defines it: replaykit lint --plugins CASE")
    return problem
