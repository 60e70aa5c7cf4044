"""The exporters, by the name of the form they write."""

from __future__ import annotations

from typing import Protocol

from replaykit.model.run import TraceRun
from replaykit.registry import Registry


class Exporter(Protocol):
    """Writes a run in one form."""

    def __call__(self, run: TraceRun) -> bytes:
        """The run, in that form."""


EXPORTERS: Registry[Exporter] = Registry("exporter")
"""Every form a run can be written in."""
