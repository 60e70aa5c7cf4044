"""`replaykit store verify`: is the store whole, and what can be saved of it?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from replaykit.cli import options
from replaykit.cli.progress import progress
from replaykit.cli.verbosity import is_quiet, reports
from replaykit.config import default_store_path
from replaykit.errors import CorruptStore, ExitCode, UsageError
from replaykit.report.layout import counted
from replaykit.report.retention import health_json, salvaged_text
from replaykit.store.open import open_store
from replaykit.store.protocol import Damage
from replaykit.store.repair.salvage import salvage
from replaykit.terminal import style


@click.command(name="verify")
@options.flag("--repair", help="Save everything intact into a new store; the damaged one is only read.")
@options.destination(
    "out",
    "With --repair: the new store.  [default: STORE-salvaged.db]",
    type=options.FILE,
    metavar="FILE",
)
@options.store
@options.as_json
@reports
def command(repair: bool, out: Path | None, store_path: Path | None, as_json: bool) -> int:
    """Check the whole store and list what is damaged.

    Reads every page, pack, event and blob. Exit 3 if anything is damaged. With --repair, every intact event goes into a
    new store and lost data is listed; exit 3 if anything was lost.

    \b
    replaykit store verify
    replaykit store verify --repair --out repaired.db
    """
    if repair:
        return _repair(store_path or default_store_path(), out, as_json)
    if out is not None:
        raise UsageError("--out names the store that --repair makes")
    try:
        with open_store(store_path, read_only=True) as store, progress("checking") as checking:
            damage, runs = list(store.verify(checking.set)), len(store.headers())
    except CorruptStore as error:
        damage, runs = [Damage(where=error.where, what=error.reason)], 0
    if as_json:
        options.print_json(health_json(damage))
    elif damage:
        for item in () if is_quiet() else damage:
            click.echo(f"{style('damaged', fg='red')}  {item}")
        click.echo(f"{len(damage)} damaged")
    else:
        click.echo(f"{counted(runs, 'run')}, {style('none damaged', fg='green')}")
    return _code_of(damage)


def _repair(source: Path, out: Path | None, as_json: bool) -> int:
    with progress("repairing"):
        result = salvage(source, out or source.with_name(f"{source.stem}-salvaged{source.suffix}"))
    options.show(as_json, result, partial(salvaged_text, source=source), brief=lambda saved: str(saved.store))
    return _code_of(result.lost)


def _code_of(damage: Sequence[object]) -> int:
    if damage:
        return ExitCode.CANNOT
    return ExitCode.PASSED
