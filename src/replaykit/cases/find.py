"""Find cases: a case file, a case's directory, or a directory of cases."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from replaykit.cases.case import CASE_FILE, ReplayCase, load_case
from replaykit.errors import NothingSelected, UsageError


def find_case_files(paths: Iterable[Path]) -> list[Path]:
    """The case files at these paths, each once, in the order given; directories are searched, by name."""
    found: dict[Path, None] = {}
    for path in paths:
        if path.is_dir() and not (path / CASE_FILE).is_file():
            below = sorted(file for file in path.rglob(CASE_FILE) if ".replaykit" not in file.parts)
            if not below:
                raise NothingSelected(
                    f"{path} holds no case", hint=f"Make one: replaykit scaffold TRACE --out {path}/NAME"
                )
            found.update(dict.fromkeys(below))
        elif path.exists():
            found[path / CASE_FILE if path.is_dir() else path] = None
        else:
            hint = "A CASE is a case.yaml, its directory, or a directory of cases."
            raise UsageError(f"{path} does not exist", hint=hint)
    return list(found)


def find_cases(paths: Iterable[Path]) -> list[ReplayCase]:
    """The cases at these paths, loaded."""
    return [load_case(file) for file in find_case_files(paths)]
