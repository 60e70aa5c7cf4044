"""`replaykit help formats`: the trace formats that can be imported."""

from __future__ import annotations

import click

from replaykit.cli import options
from replaykit.formats.core.registry import IMPORTERS
from replaykit.report.formats import formats_json, formats_text


@click.command(name="formats")
@options.as_json
def command(as_json: bool) -> None:
    """List the trace formats that can be imported.

    Files are tried with the formats in this order.

    \b
    replaykit help formats
    """
    options.show(as_json, list(IMPORTERS.values()), formats_text, formats_json)
