"""`replaykit lint`: is a case sound?"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click
from msgspec.structs import replace

from replaykit.cases.find import find_case_files
from replaykit.cases.lint import Problem, lint_cases
from replaykit.cli import options, plugins, trusted_config
from replaykit.cli.progress import progress
from replaykit.cli.upgrade import upgrade
from replaykit.cli.verbosity import detail, reports
from replaykit.config import default_store_path
from replaykit.documents.shape import FlawSeverity
from replaykit.errors import ExitCode, failed_if
from replaykit.redaction.project import rules_beside
from replaykit.report.cases import problems_json, problems_text


@click.command(name="lint")
@click.argument("cases", nargs=-1, type=options.PATH, metavar="[CASE]...")
@options.flag("--strict", help="Treat warnings as errors.")
@options.flag("--upgrade", "is_upgrade", help="Rewrite cases of an older format in the current one.")
@options.flag("--dry-run", help="With --upgrade: show what would change; write nothing.")
@options.config
@trusted_config.config_from
@plugins.with_plugins
@options.as_json
@reports
def command(
    cases: tuple[Path, ...],
    strict: bool,
    is_upgrade: bool,
    dry_run: bool,
    config: Path | None,
    config_from: str | None,
    untrusted: bool,
    with_plugins: bool,
    as_json: bool,
) -> int:
    """Check cases for schema errors, missing files and contradictions.

    Shows every problem with its file, its line and its fix. A secret or personal data in a case is an error. Exit 1 if
    there is an error, 3 if a newer version wrote a case.

    --upgrade rewrites older cases. Your comments and the order of keys stay. Older cases work as they are; upgrading
    makes them smaller (repeated calls are written once, large values go to their own files), gives you the new keys,
    and adds a proof: a case without one is checked as `scaffold` does, and gets one if its source trace reproduces the
    failure. Without CASE, all cases of the configuration are upgraded. Exit 2 if a case cannot be read (the others are
    upgraded), 3 if a newer version wrote one, 5 if there is none.

    \b
    replaykit lint cases/search-loop/case.yaml
    replaykit lint cases
    replaykit lint --upgrade --dry-run
    """
    if is_upgrade:
        if strict or config_from is not None or untrusted:
            raise click.UsageError("--strict, --config-from and --untrusted cannot be combined with --upgrade")
        return upgrade(cases, config, dry_run=dry_run, as_json=as_json)
    if dry_run or config is not None:
        raise click.UsageError("--dry-run and --config need --upgrade")
    if not cases:
        raise click.UsageError("Missing argument 'CASE...'.")
    trusted = trusted_config.config_files(config_from, untrusted=untrusted)
    options.note(*trusted.notices, *rules_beside(default_store_path()).notices)
    if with_plugins:
        plugins.load_plugins(None, trusted)
    files = find_case_files(cases)
    with progress("linting", len(files)) as linting:
        problems = lint_cases(files, linting.advance)
    if not with_plugins and plugins.named_plugins(None, trusted):
        problems = list(map(_with_advice, problems))
    detail(*(f"looked at {file}" for file in files))
    options.show(as_json, problems, partial(problems_text, count=len(files)), problems_json)
    if any(problem.code == "format-too-new" for problem in problems):
        return ExitCode.CANNOT
    return failed_if(any(strict or problem.severity is FlawSeverity.ERROR for problem in problems))


def _with_advice(problem: Problem) -> Problem:
    """Return a problem; one that may be none with the plugins says how they are imported."""
    if "unknown assertion" in problem.message or problem.code == "unknown-check":
        return replace(problem, hint="If a plugin of yours defines it: replaykit lint --plugins CASE")
    return problem
