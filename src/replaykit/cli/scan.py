"""`replaykit redact scan`: is something in these files that must not be there?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from replaykit.cli import options, plugins, trusted_config
from replaykit.cli.progress import Progress, progress
from replaykit.cli.verbosity import detail, reports
from replaykit.errors import UsageError, failed_if
from replaykit.redaction.file_selection import Passed, as_text, files_below, staged_texts, texts_of, too_large
from replaykit.redaction.files import leaks_in, missed_leaks
from replaykit.redaction.project import project_redactor
from replaykit.report.leaks import scan_json, scan_sarif, scan_text

if TYPE_CHECKING:
    from replaykit.redaction.file_selection import TreeText

_STDIN = "-"


@click.command(name="scan")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path, allow_dash=True), metavar="[PATH|-]...")
@options.flag("--staged", help="Scan what is staged in git.")
@options.flag("--ignored", help="Also scan files that git ignores.")
@click.option(
    "--max-mb", type=options.WholeNumber(1, 1024), default=16, show_default=True, help="Skip files larger than this."
)
@options.flag("--sarif", help="Print the findings as SARIF 2.1.0.")
@trusted_config.config_from
@plugins.with_plugins
@options.as_json
@reports
def command(
    paths: tuple[Path, ...],
    staged: bool,
    ignored: bool,
    max_mb: int,
    sarif: bool,
    config_from: str | None,
    untrusted: bool,
    with_plugins: bool,
    as_json: bool,
) -> int:
    """Find secrets and personal data in files.

    Shows file, line, column and kind of each finding, never the value. Skips binary files, links, `.git`, `.replaykit`,
    and whatever git ignores. Placeholders do not count. List values that are not secret in redaction.toml. A second
    check with its own rules reports what the first one misses. Exit 1 if something is found, 0 if not.

    \b
    replaykit redact scan cases fixtures
    replaykit redact scan --staged
    git show HEAD | replaykit redact scan -
    """
    if staged == bool(paths):
        hint = "All of this directory: replaykit redact scan ."
        raise UsageError("name files or directories, or use --staged", hint=hint)
    if sarif and as_json:
        raise UsageError("--json and --sarif cannot be combined")
    trusted = trusted_config.config_files(config_from, untrusted=untrusted)
    options.note(*trusted.notices)
    if with_plugins:
        plugins.load_plugins(None, trusted)
    redactor = project_redactor(foreign=True)
    options.note(*redactor.rules.notices)
    leaks, passed_over, scanned = [], [], 0
    with progress("scanning") as scanning:
        texts = _texts(paths, scanning, staged=staged, ignored=ignored, max_bytes=max_mb * 1024 * 1024)
        for found in texts:
            scanning.advance()
            if isinstance(found, Passed):
                passed_over.append(found)
                detail(f"not scanned: {found.file}: {found.why}")
                _report_passed(found, paths)
            else:
                scanned += 1
                leaks += leaks_in(found.name, found.data, redactor)
                leaks += missed_leaks(found.name, found.data, redactor)
    if sarif:
        options.print_json(scan_sarif(leaks))
    elif as_json:
        options.print_json(scan_json(leaks, scanned, passed_over))
    else:
        options.show(False, leaks, partial(scan_text, scanned=scanned))
    return failed_if(leaks)


def _report_passed(found: Passed, paths: tuple[Path, ...]) -> None:
    """Say what was not looked at, unless that is what anybody expects of an image or a link in a directory."""
    if found.file.endswith(".db"):
        options.note(f"not scanned: {found.file}: {found.why}; to look at a run: replaykit redact RUN --dry-run")
    elif "bytes" in found.why or "read" in found.why or Path(found.file) in paths:
        options.note(f"not scanned: {found.file}: {found.why}")


def _texts(
    paths: tuple[Path, ...], scanning: Progress, *, staged: bool, ignored: bool, max_bytes: int
) -> Iterator[TreeText | Passed]:
    if staged:
        yield from staged_texts(max_bytes)
    for path in paths:
        if str(path) == _STDIN:
            data = sys.stdin.buffer.read(max_bytes + 1)
            if len(data) > max_bytes:
                yield too_large("<stdin>", len(data), max_bytes)
            else:
                yield as_text("<stdin>", data)
        else:
            files = list(files_below(path, ignored=ignored))
            scanning.expect(len(files))
            yield from texts_of(files, max_bytes)
