"""`examine`: check everything once."""

from __future__ import annotations

from pathlib import Path

from replaykit.config import default_store_path
from replaykit.doctor.config import examine_config
from replaykit.doctor.files import examine_files, examine_mcp
from replaykit.doctor.isolation import examine_isolation
from replaykit.doctor.libraries import examine_libraries, examine_machine
from replaykit.doctor.results import Examination


def examine(store: Path | None, config: Path | None, *, with_plugins: bool) -> Examination:
    """Check the machine, the installed libraries, and the project in the working directory. Nothing is written.

    `with_plugins` imports the plugins of the configuration. No other code of the project is run.
    """
    isolation, level = examine_isolation()
    items = [
        *examine_machine(),
        level,
        *examine_libraries(),
        *examine_files(store if store is not None else default_store_path()),
        *examine_config(config, with_plugins=with_plugins),
        *examine_mcp(),
    ]
    return Examination(isolation=isolation, items=tuple(items))
