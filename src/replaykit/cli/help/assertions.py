"""`replaykit help assertions`: what a case can assert."""

from __future__ import annotations

import click

from replaykit.checks.reference import all_kinds, kind_info
from replaykit.cli import options
from replaykit.report.assertions import kind_text, kinds_json, kinds_text


@click.command(name="assertions")
@click.argument("kind", required=False)
@options.as_json
def command(kind: str | None, as_json: bool) -> None:
    """List the assertions a case can make, or explain one.

    \b
    replaykit help assertions
    replaykit help assertions trajectory.match
    """
    if kind is None:
        options.show(as_json, all_kinds(), kinds_text, kinds_json)
    else:
        options.show(as_json, [kind_info(kind)], lambda kinds: kind_text(kinds[0]), kinds_json)
