"""`examine`: look at everything once."""

from __future__ import annotations

from pathlib import Path

from replaykit.config import default_store_path
from replaykit.doctor.files import examine_files
from replaykit.doctor.isolation import examine_isolation
from replaykit.doctor.libraries import examine_libraries, examine_machine
from replaykit.doctor.results import Examination


def examine(store: Path | None = None, config: Path | None = None) -> Examination:
    """Look at the machine, what is installed, and the project in the working directory. Nothing is written."""
    isolation, level = examine_isolation()
    items = [
        *examine_machine(),
        level,
        *examine_libraries(),
        *examine_files(store if store is not None else default_store_path(), config),
    ]
    return Examination(isolation=isolation, items=tuple(items))
