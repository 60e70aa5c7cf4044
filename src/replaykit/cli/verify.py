"""`replaykit verify`: is the store whole?"""

from __future__ import annotations

from pathlib import Path

import click

from replaykit.cli import options


@click.command(name="verify")
@options.store
@options.as_json
def command(store_path: Path | None, as_json: bool) -> None:
    """Check the whole store, and name what is damaged.

    Reads every page, pack, event and blob. Exit 3 when one of them is damaged.
    """
    import msgspec

    from replaykit.errors import CorruptStore, ExitCode
    from replaykit.report.panel import counted
    from replaykit.store.opening import opened
    from replaykit.store.protocol import Damage

    try:
        with opened(store_path, read_only=True) as store:
            damage, runs = list(store.verify()), len(store.headers()) if not as_json else 0
    except CorruptStore as error:
        damage, runs = [Damage(where=error.where, what=error.reason)], 0
    if as_json:
        document = {"replaykit": 1, "whole": not damage, "damage": damage}
        click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
    else:
        for item in damage:
            click.echo(f"{click.style('damaged', fg='red')}  {item}")
        word = f"{len(damage)} damaged" if damage else click.style("whole", fg="green")
        click.echo(f"{counted(runs, 'run')}, {word}" if not damage else word)
    click.get_current_context().exit(ExitCode.CANNOT if damage else ExitCode.PASSED)
