"""`replaykit export`: a run as a file."""

from __future__ import annotations

from pathlib import Path

import click

from replaykit.cli import options


@click.command(name="export")
@click.argument("run_id", metavar="RUN")
@click.option(
    "--format", "form", default="run_log", show_default=True, help="The form: run_log, replaykit, or an installed one."
)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="The file.  [default: print it]")
@options.store
def command(run_id: str, form: str, output: Path | None, store_path: Path | None) -> None:
    """Write a run to a file that others can read.

    `run_log` keeps everything; `replaykit` is the small trace that `scaffold` reads.
    """
    from replaykit.errors import StoreError
    from replaykit.export.forms import export_run
    from replaykit.store.opening import opened

    with opened(store_path, read_only=True) as store:
        text = export_run(store.load(run_id), form)
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        output.write_bytes(text)
    except OSError as error:
        raise StoreError(f"{output} cannot be written: {error.strerror}") from None
    click.echo(f"wrote {output}", err=True)
