"""Find the configuration of a project by its name."""

from __future__ import annotations

from pathlib import Path

from replaykit.errors import UsageError

PROJECT_FILES = ("replaykit.yaml", "flakestorm.yaml")
"""Configuration files that are found by their names, in this order."""


def find_project(directory: Path = Path()) -> Path | None:
    """The configuration file of a directory, if there is one."""
    return next((directory / name for name in PROJECT_FILES if (directory / name).is_file()), None)


def config_file(directory: Path = Path()) -> Path:
    """The configuration file of a directory; a UsageError when there is none."""
    found = find_project(directory)
    if found is None:
        raise UsageError(f"there is no {PROJECT_FILES[0]} here", hint="Make one: replaykit init")
    return found
