"""`replaykit scan`: is something in these files that must not be there?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from replaykit.cli import options, trusted_config
from replaykit.errors import ExitCode, UsageError
from replaykit.redaction.file_selection import Passed, as_text, files_below, staged_texts, texts_of, too_large
from replaykit.redaction.files import leaks_in, missed_leaks
from replaykit.redaction.project import project_redactor
from replaykit.report.leaks import scan_json, scan_sarif, scan_text

if TYPE_CHECKING:
    from replaykit.redaction.file_selection import TreeText

_STDIN = "-"


@click.command(name="scan")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, allow_dash=True), metavar="[PATH|-]...")
@click.option("--staged", is_flag=True, help="Look at what git has staged, as it is staged.")
@click.option("--ignored", is_flag=True, help="Look at files that git ignores as well.")
@click.option(
    "--max-mb", type=click.IntRange(1, 1024), default=16, show_default=True, help="Pass over files larger than this."
)
@click.option("--sarif", is_flag=True, help="Print the findings as SARIF 2.1.0.")
@trusted_config.config_from
@options.as_json
def command(
    paths: tuple[Path, ...],
    staged: bool,
    ignored: bool,
    max_mb: int,
    sarif: bool,
    config_from: str | None,
    untrusted: bool,
    as_json: bool,
) -> None:
    """Look for secrets and personal data in files: a gate for commits and pipelines.

    Tells file, line, column and kind of each finding, never the value. Of a directory in a git work tree what git
    ignores is left out; `.git`, `.replaykit`, binary files and links always are. Placeholders are no findings. Values
    that are no secret stand in redaction.toml. A second check, with rules of its own, names what the first one misses.
    Exit 1 when something is found, 0 when nothing is.

    \b
    replaykit scan cases fixtures
    replaykit scan --staged
    git show HEAD | replaykit scan -
    """
    if staged == bool(paths):
        raise UsageError("name files or directories, or say --staged", hint="All of this directory: replaykit scan .")
    if sarif and as_json:
        raise UsageError("--json and --sarif do not go together")
    trusted_config.tell_notices(trusted_config.config_files(config_from, untrusted=untrusted))
    redactor = project_redactor(foreign=True)
    for notice in redactor.rules.notices:
        click.echo(f"note: {notice}", err=True)
    leaks, passed_over, scanned = [], [], 0
    for found in _texts(paths, staged=staged, ignored=ignored, max_bytes=max_mb * 1024 * 1024):
        if isinstance(found, Passed):
            passed_over.append(found)
            if "bytes" in found.why or "read" in found.why:
                click.echo(f"note: not looked at: {found.file}: {found.why}", err=True)
        else:
            scanned += 1
            leaks += leaks_in(found.name, found.data, redactor)
            leaks += missed_leaks(found.name, found.data, redactor)
    if sarif:
        click.echo(scan_sarif(leaks))
    else:
        click.echo(scan_json(leaks, scanned, passed_over) if as_json else scan_text(leaks, scanned))
    click.get_current_context().exit(ExitCode.FAILED if leaks else ExitCode.PASSED)


def _texts(paths: tuple[Path, ...], *, staged: bool, ignored: bool, max_bytes: int) -> Iterator[TreeText | Passed]:
    if staged:
        yield from staged_texts(max_bytes)
    for path in paths:
        if str(path) == _STDIN:
            data = sys.stdin.buffer.read(max_bytes + 1)
            large = len(data) > max_bytes
            yield too_large("<stdin>", len(data), max_bytes) if large else as_text("<stdin>", data)
        else:
            yield from texts_of(files_below(path, ignored=ignored), max_bytes)
