"""Copies of a project for systems without overlays: a tree writes there, and the real project stays unchanged."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path

from replaykit.errors import UsageError

MAX_FILES = 20_000
MAX_BYTES = 500_000_000


def copy_project(
    project: Path,
    target: Path,
    *,
    linked: Collection[str] = (),
    max_files: int = MAX_FILES,
    max_bytes: int = MAX_BYTES,
) -> int:
    """Copy a project to a new directory, and return the number of files.

    Symbolic links stay links. Sockets, pipes, devices and `target` itself are left out. Top-level directories named in
    `linked` become links to the real ones. A project above `max_files` or `max_bytes` raises `UsageError` before
    anything is copied.
    """
    import shutil  # noqa: PLC0415 (slow to import, and most machines need no copies)

    left_out = {project / name for name in linked if (project / name).is_dir()} | {target}
    _check_size(project, left_out, max_files, max_bytes)
    count = 0
    for directory, names, files in _walk(project, left_out):
        place = target / os.path.relpath(directory, project)
        place.mkdir(parents=True, exist_ok=True)
        links = [name for name in names if os.path.islink(os.path.join(directory, name))]
        for name in (*files, *links):
            source = Path(directory, name)
            if _is_copied(source):
                shutil.copy2(source, place / name, follow_symlinks=False)
                count += 1
    for place in left_out - {target}:
        (target / place.name).symlink_to(place, target_is_directory=True)
    return count


def _walk(project: Path, left_out: Collection[Path]) -> Iterator[tuple[str, list[str], list[str]]]:
    for directory, names, files in os.walk(project):
        names[:] = [name for name in names if Path(directory, name) not in left_out]
        yield directory, names, files


def _is_copied(path: Path) -> bool:
    mode = path.lstat().st_mode
    return stat.S_ISREG(mode) or stat.S_ISLNK(mode)


def _check_size(project: Path, left_out: Collection[Path], max_files: int, max_bytes: int) -> None:
    count = size = 0
    for directory, _, files in _walk(project, left_out):
        for name in files:
            count += 1
            size += os.lstat(os.path.join(directory, name)).st_size
        if count > max_files or size > max_bytes:
            raise UsageError(
                f"the project {str(project)!r} is too large to be copied for its replay: more than {max_files:,} files "
                f"or {max_bytes // 1_000_000:,} MB",
                hint="Use a machine with user namespaces, where nothing is copied, or a smaller project directory.",
            )
