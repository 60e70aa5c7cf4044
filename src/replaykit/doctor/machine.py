"""The machine: Python, platform, SQLite, and programs that some commands ask for."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata

from replaykit.doctor.libraries import OWN_NAME
from replaykit.doctor.results import DoctorItem, ItemState

_MAX_WAIT_S = 2.0
_TESTED = "Programming Language :: Python :: "
_PROGRAMS = {  # name: what it is for
    "git": "git is not found: whether the store stays out of git cannot be checked",
    "node": "node is not found: only needed to record or replay agents in JavaScript",
}


def examine_machine() -> Iterator[DoctorItem]:
    """Look at Python, the system and the programs."""
    yield _python()
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"
    yield DoctorItem(group="machine", name="platform", state=ItemState.OK, detail=system)
    yield DoctorItem(group="machine", name="sqlite", state=ItemState.OK, detail=sqlite3.sqlite_version)
    for name, absence in _PROGRAMS.items():
        yield _program(name, absence)


def _python() -> DoctorItem:
    version = platform.python_version()
    detail = f"{version} ({platform.python_implementation()}), {sys.executable}"
    tested = _tested_versions()
    if not tested or f"{sys.version_info.major}.{sys.version_info.minor}" in tested:
        return DoctorItem(group="machine", name="python", state=ItemState.OK, detail=detail)
    advice = f"Use one of {', '.join(tested)}."
    detail += ": ReplayKit is not tested with this version"
    return DoctorItem(group="machine", name="python", state=ItemState.NOTE, detail=detail, advice=(advice,))


def _tested_versions() -> list[str]:
    """Return the versions that ReplayKit's classifiers name; none where it runs without having been installed."""
    try:
        named = metadata.metadata(OWN_NAME).get_all("Classifier") or []
    except metadata.PackageNotFoundError:
        return []
    versions = [text.removeprefix(_TESTED) for text in named if text.startswith(_TESTED)]
    return [version for version in versions if "." in version]


def _program(name: str, absence: str) -> DoctorItem:
    path = shutil.which(name)
    if path is None:
        return DoctorItem(group="machine", name=name, state=ItemState.NOTE, detail=absence)
    try:
        done = subprocess.run(
            [path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_MAX_WAIT_S
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as error:
        detail = f"{path} does not tell its version: {type(error).__name__}"
        return DoctorItem(group="machine", name=name, state=ItemState.NOTE, detail=detail)
    if done.returncode != 0:
        detail = f"{path} does not tell its version: exit code {done.returncode}"
        return DoctorItem(group="machine", name=name, state=ItemState.NOTE, detail=detail)
    version = done.stdout.strip().split(os.linesep)[0].removeprefix("git version ")
    return DoctorItem(group="machine", name=name, state=ItemState.OK, detail=f"{version}, {path}")
