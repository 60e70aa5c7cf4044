"""Find the configuration of a project by its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from replaykit.errors import UsageError

PROJECT_FILES = ("replaykit.yaml", "flakestorm.yaml")
"""Configuration files that are found by their names, in this order."""


def find_project(directory: Path = Path(), has: Callable[[Path], bool] = Path.is_file) -> Path | None:
    """The configuration file of a directory, if there is one; `has` says whether there is a file."""
    return next((directory / name for name in PROJECT_FILES if has(directory / name)), None)


def config_file(directory: Path = Path()) -> Path:
    """The configuration file of a directory; a UsageError when there is none."""
    found = find_project(directory)
    if found is None:
        raise UsageError(f"there is no {PROJECT_FILES[0]} here", hint="Make one: replaykit init")
    return found
