"""`replaykit verify`: is the store whole, and what can be saved of it?"""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from replaykit.cli import options
from replaykit.config import default_store_path
from replaykit.errors import CorruptStore, ExitCode, UsageError
from replaykit.report.layout import counted
from replaykit.report.retention import salvaged_json, salvaged_text
from replaykit.store.open import open_store
from replaykit.store.protocol import Damage
from replaykit.store.repair.salvage import salvage
from replaykit.terminal import style


@click.command(name="verify")
@click.option("--repair", is_flag=True, help="Save whatever is whole into a new store; the damaged one is only read.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    metavar="FILE",
    help="With --repair: the new store.  [default: the store's name and -salvaged]",
)
@options.store
@options.as_json
def command(repair: bool, out: Path | None, store_path: Path | None, as_json: bool) -> None:
    """Check the whole store, and name what is damaged.

    Reads every page, pack, event and blob. Exit 3 when one of them is damaged. With --repair every event that is whole
    goes into a new store, and what was lost is listed; exit 3 when something was.
    """
    if repair:
        _repair(store_path or default_store_path(), out, as_json)
        return
    if out is not None:
        raise UsageError("--out names the store that --repair makes")
    try:
        with open_store(store_path, read_only=True) as store:
            damage, runs = list(store.verify()), len(store.headers()) if not as_json else 0
    except CorruptStore as error:
        damage, runs = [Damage(where=error.where, what=error.reason)], 0
    if as_json:
        document = {"replaykit": 1, "whole": not damage, "damage": damage}
        click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
    else:
        for item in damage:
            click.echo(f"{style('damaged', fg='red')}  {item}")
        word = f"{len(damage)} damaged" if damage else style("whole", fg="green")
        click.echo(f"{counted(runs, 'run')}, {word}" if not damage else word)
    click.get_current_context().exit(ExitCode.CANNOT if damage else ExitCode.PASSED)


def _repair(source: Path, out: Path | None, as_json: bool) -> None:
    result = salvage(source, out or source.with_name(f"{source.stem}-salvaged{source.suffix}"))
    click.echo(salvaged_json(result) if as_json else salvaged_text(result, source))
    click.get_current_context().exit(ExitCode.CANNOT if result.lost else ExitCode.PASSED)
