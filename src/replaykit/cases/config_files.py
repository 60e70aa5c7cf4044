"""The source of configuration files: the working tree, or a revision of its repository.

Cases, sessions, traces and fixtures are data, and always come from the working tree.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from replaykit.documents.document import Document, parse_document, read_bytes
from replaykit.errors import InvalidFile, UsageError

if TYPE_CHECKING:
    from replaykit.revisions import Revision  # few commands need it


MAX_CONFIG_BYTES = 8 * 1024 * 1024
PROJECT_FILES = ("replaykit.yaml", "flakestorm.yaml")
"""Names of configuration files, in the order of precedence."""


def find_project(directory: Path = Path(), has: Callable[[Path], bool] = Path.is_file) -> Path | None:
    """Return the configuration file of a directory, if any; `has` decides whether a file exists."""
    return next((directory / name for name in PROJECT_FILES if has(directory / name)), None)


def config_file() -> Path:
    """Return the configuration file of the working directory; raise `UsageError` if there is none."""
    found = find_project()
    if found is None:
        raise UsageError(f"there is no {PROJECT_FILES[0]} here", hint="Make one: replaykit init")
    return found


class ConfigFiles(Protocol):
    """Configuration files, by their paths in the working tree."""

    @property
    def where(self) -> str:
        """Return the suffix of a file's name in a message: empty, or ` at REVISION`."""

    @property
    def options(self) -> tuple[str, ...]:
        """The options of a command line that reads the same files."""

    @property
    def revision_text(self) -> str:
        """The revision and its commit; empty for the working tree."""

    @property
    def notices(self) -> tuple[str, ...]:
        """Notes on files that differ between the revision and the working tree."""

    def has(self, file: Path) -> bool:
        """True if the file exists."""

    def read(self, file: Path, *, limit_bytes: int) -> bytes:
        """Return the content of a file; raise `InvalidFile` if it does not exist."""

    def may_import(self, file: Path) -> bool:
        """True if the working tree is trusted, or cannot have changed this module."""


class WorkingTree:
    """Files as they are now."""

    where = ""
    options: tuple[str, ...] = ()
    revision_text = ""
    notices: tuple[str, ...] = ()

    def has(self, file: Path) -> bool:
        return file.is_file()

    def read(self, file: Path, *, limit_bytes: int) -> bytes:
        return read_bytes(file, limit_bytes=limit_bytes)

    def may_import(self, file: Path) -> bool:
        """Always true: the working tree is trusted."""
        return True


class AtRevision:
    """Files as a revision has them. Those outside of its repository are not part of a change, and are read as is."""

    def __init__(self, revision: Revision) -> None:
        self.revision = revision
        self._differences: dict[str, None] = {}

    @property
    def where(self) -> str:
        return f" at {self.revision}"

    @property
    def options(self) -> tuple[str, ...]:
        return ("--config-from", self.revision.name)

    @property
    def revision_text(self) -> str:
        return f"{self.revision} ({self.revision.commit})"

    @property
    def notices(self) -> tuple[str, ...]:
        return tuple(self._differences)

    def has(self, file: Path) -> bool:
        """True if the revision has the file; notes one that only the working tree has."""
        if not self.revision.holds(file):
            return file.is_file()
        has = self.revision.has(file)
        if not has and os.path.lexists(file):
            self._differences[f"{file} is not in {self.revision}, and is not used"] = None
        return has

    def read(self, file: Path, *, limit_bytes: int) -> bytes:
        """Return the content at the revision; notes a difference in the working tree."""
        if not self.revision.holds(file):
            return read_bytes(file, limit_bytes=limit_bytes)
        data = self.revision.read(file, limit_bytes=limit_bytes)
        if data is None:
            raise InvalidFile(f"no such file{self.where}", file=str(file))
        if _now(file, limit_bytes) != data:
            note = f"{file} differs from {self.revision}; the version of {self.revision} is used"
            self._differences[note] = None
        return data

    def may_import(self, file: Path) -> bool:
        """True for modules outside of the repository, and for untracked ones, which no revision can bring in."""
        from replaykit.revisions import Revision  # noqa: PLC0415 (few commands need it)

        return not self.revision.holds(file) or not Revision("HEAD", self.revision.top).has(file)


WORKING_TREE: ConfigFiles = WorkingTree()


def _now(file: Path, limit_bytes: int) -> bytes | None:
    try:
        return read_bytes(file, limit_bytes=limit_bytes)
    except InvalidFile:
        return None


def load_config(file: Path, *, limit_bytes: int, files: ConfigFiles) -> Document:
    """Load a configuration file; raise `InvalidFile` if it cannot be read."""
    return parse_document(files.read(file, limit_bytes=limit_bytes), os.fspath(file))
