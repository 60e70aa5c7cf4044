"""`replaykit export`: a run as a file, or the failures of a report as sessions."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from replaykit.cli import options
from replaykit.cli.plugins import load_plugins
from replaykit.cli.verbosity import hint, reports
from replaykit.errors import StoreError, UsageError
from replaykit.export.forms import export_run
from replaykit.report.exports import ExportedRun, failures_json, failures_text, written_files
from replaykit.report.layout import to_json
from replaykit.store.open import open_store
from replaykit.trials.failure_sessions import export_failures

_JSON_FORMS = ("run_log", "replaykit", "otlp")


@click.command(name="export")
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option(
    "--format",
    "form",
    default="run_log",
    show_default=True,
    help="The form: run_log, replaykit, otlp, or an installed one.",
)
@click.option(
    "--from-report",
    "report",
    type=options.PATH,
    metavar="FILE",
    help="Write each failure of this report of `ci` (or of Flakestorm's) as a session.",
)
@click.option("--contract", metavar="NAME", help="With --from-report: the contract where the report names none.")
@options.flag("--force", help="With --from-report: replace sessions whose content differs.")
@options.destination(
    "output", "The file; with --from-report the directory.  [default: print it; replays]", type=options.PATH
)
@options.no_redact
@options.store
@options.flag("--json", "as_json", help="With -o or --from-report: print what was written as JSON.")
@reports
def command(
    run_id: str | None,
    form: str,
    report: Path | None,
    contract: str | None,
    force: bool,
    output: Path | None,
    store_path: Path | None,
    as_json: bool,
) -> None:
    """Write a run to a file that other tools can read.

    `run_log` keeps everything, `replaykit` is the small trace that `scaffold` reads, and `otlp` is an OpenTelemetry
    trace with all contents, as JSON. With --from-report, each failure becomes a session: the input that failed, the
    answers of the tools, and the broken contract.

    Secrets and personal data are redacted. If any are left, nothing is written and the exit code is 2.

    \b
    replaykit export refunds -o refunds.json
    replaykit export --from-report reports/ci.json -o replays
    """
    if (run_id is None) == (report is None):
        raise UsageError("give a RUN, or --from-report FILE", hint="List runs: replaykit runs")
    load_plugins()
    if report is not None:
        _export_failures(report, output or Path("replays"), contract, force, as_json=as_json)
    elif contract is not None or force:
        raise UsageError("--contract and --force need --from-report")
    elif output is None and as_json:
        raise UsageError("--json needs -o or --from-report", hint="Without them the run itself is printed.")
    else:
        _export_run(str(run_id), form, output, store_path, as_json=as_json)


def _export_failures(report: Path, directory: Path, contract: str | None, force: bool, *, as_json: bool) -> None:
    done = export_failures(report, directory, contract=contract, force=force)
    options.note(*done.notices)
    options.show(as_json, done, failures_text, failures_json, brief=written_files)


def _export_run(run_id: str, form: str, output: Path | None, store_path: Path | None, *, as_json: bool) -> None:
    with open_store(store_path, read_only=True) as store:
        run = store.load(run_id)
    text = export_run(run, form)
    if output is None:
        _print(text, form)
        return
    try:
        output.write_bytes(text)
    except OSError as error:
        raise StoreError(f"{output} cannot be written: {error.strerror}") from None
    if as_json:
        click.echo(to_json(ExportedRun(run=run.id, format=form, file=str(output))))
    else:
        hint(f"wrote {output}")


def _print(text: bytes, form: str) -> None:
    """Print a run: the forms of our own are JSON, whose meaning escapes leave as it is; others may be anything."""
    if form in _JSON_FORMS or sys.stdout.isatty():
        click.echo(text.decode("utf-8", "backslashreplace"), nl=False)
    else:
        click.echo(text, nl=False)
