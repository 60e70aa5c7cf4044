"""`replaykit doctor`: what this machine supports, and what is wrong."""

from __future__ import annotations

from pathlib import Path

import click

from replaykit.cli import options, plugins
from replaykit.cli.verbosity import reports
from replaykit.doctor.examine import examine
from replaykit.errors import failed_if
from replaykit.report.doctor import doctor_json, doctor_text


@click.command(name="doctor")
@options.config
@options.store
@plugins.with_plugins
@options.as_json
@reports
def command(config: Path | None, store_path: Path | None, with_plugins: bool, as_json: bool) -> int:
    """Check this machine and project, and say how to fix what is wrong.

    Only reads: it writes no file and imports no agent, SDK or framework. With --plugins, it imports the plugins of the
    configuration and lists what each brings. Exit 1 if it finds something that would make commands fail or leak data.

    \b
    replaykit doctor
    replaykit doctor --plugins
    """
    found = examine(store_path, config, with_plugins=with_plugins)
    options.show(as_json, found, doctor_text, doctor_json)
    return failed_if(found.problems)
