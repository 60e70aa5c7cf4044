"""`replaykit scaffold`: a failed trace or run becomes a case."""

from __future__ import annotations

from pathlib import Path

import click

from replaykit.cli import options


@click.command(name="scaffold")
@click.argument("source", metavar="TRACE|RUN")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="The case's directory.  [default: cases/NAME]"
)
@click.option("--format", "format_", metavar="NAME", help="The trace's format, where it cannot be recognised.")
@click.option(
    "--select",
    "--run",
    "run_id",
    metavar="RUN",
    help="Which run, where a trace holds several: its id, or the beginning of it.",
)
@click.option("--id", "case_id", metavar="ID", help="The case's id.  [default: the directory's name]")
@click.option("--title", help="The case's title.")
@click.option(
    "--allow-incomplete", is_flag=True, help="Make the case though no tool call of the trace can be replayed."
)
@click.option("--force", is_flag=True, help="Replace a case that is there already.")
@options.no_redact
@options.store
@options.as_json
def command(
    source: str,
    out: Path | None,
    format_: str | None,
    run_id: str | None,
    case_id: str | None,
    title: str | None,
    allow_incomplete: bool,
    force: bool,
    store_path: Path | None,
    as_json: bool,
) -> None:
    """Make a case from a failed trace file, or from a recorded run.

    Detects how the run failed, freezes the recorded answers as fixtures, and proposes what a fix must show. What is
    secret or personal is replaced; exit 2, and nothing is written, where something is left, or where the trace tells
    too little of the run for a replay. A trace may be of any format (`replaykit import formats`), and packed.

    \b
    replaykit scaffold examples/traces/search-loop.json --out cases/search-loop
    replaykit scaffold exported.jsonl.gz --select 0199a1b2 --out cases/refund
    replaykit scaffold 20260215-143200 --out cases/checkout
    """
    from replaykit.cases.promote import promote
    from replaykit.report.cases import case_json, case_text

    made = promote(
        source,
        out,
        format=format_,
        run_id=run_id,
        case_id=case_id,
        title=title,
        allow_incomplete=allow_incomplete,
        force=force,
        store=store_path,
    )
    for note in made.notes:
        click.echo(f"note: {note}", err=True)
    click.echo(case_json(made.case) if as_json else case_text(made.case, made.command))
