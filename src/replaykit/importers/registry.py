"""The importers, by the name of the format they read."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from replaykit.importers.source import Source
from replaykit.model.run import TraceRun
from replaykit.registry import Registry


class Imported(Struct, frozen=True, kw_only=True):
    """What an importer made of a file: its runs, and in words whatever it could not map."""

    format: str
    runs: tuple[TraceRun, ...]
    left_out: tuple[str, ...] = ()
    """Runs of the file that could not be read, and why: one bad one stops no other."""
    notes: tuple[str, ...] = ()

    @property
    def remarks(self) -> tuple[str, ...]:
        """All there is to say, one line each."""
        return (*(f"left out: {problem}" for problem in self.left_out), *self.notes)


class Importer(Protocol):
    """Reads one trace format."""

    @property
    def name(self) -> str:
        """The format's name, as in `--format NAME` and in a run's origin."""

    def recognises(self, source: Source) -> bool:
        """True when the file is of this format. Never raises."""

    def read(self, source: Source) -> Imported:
        """The file's runs; `InvalidFile` says what is wrong, and where."""


IMPORTERS: Registry[Importer] = Registry("importer")
"""Every trace format that can be read; asked in this order when none is named."""
