"""`replaykit store`: upkeep of the store, a module per command."""

from __future__ import annotations

import click

from replaykit.cli.lazy_group import LazyGroup

COMMANDS = {
    "stats": "Show how large the store is, how it grows, and how runs and replays ended.",
    "verify": "Check the whole store and list what is damaged.",
    "prune": "Delete expired runs and reclaim their space.",
    "keep": "Protect runs from pruning.",
    "backup": "Copy the store to a file while others use it.",
    "restore": "Replace the store with a backup.",
}


@click.group(name="store", cls=LazyGroup, package="replaykit.cli.store", sections={"Commands": COMMANDS})
def command() -> None:
    """Look after the store: stats, verify, prune, keep, backup, restore.

    \b
    replaykit store stats
    replaykit store prune --dry-run
    replaykit store backup nightly.db
    """
