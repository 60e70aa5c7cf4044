"""Find the configuration of a project by its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from replaykit.errors import UsageError

PROJECT_FILES = ("replaykit.yaml", "flakestorm.yaml")
"""Names of configuration files, in the order of precedence."""


def find_project(directory: Path = Path(), has: Callable[[Path], bool] = Path.is_file) -> Path | None:
    """Return the configuration file of a directory, if any; `has` decides whether a file exists."""
    return next((directory / name for name in PROJECT_FILES if has(directory / name)), None)


def config_file(directory: Path = Path()) -> Path:
    """Return the configuration file of a directory; raise `UsageError` if there is none."""
    file = find_project(directory)
    if file is None:
        raise UsageError(f"there is no {PROJECT_FILES[0]} here", hint="Make one: replaykit init")
    return file
