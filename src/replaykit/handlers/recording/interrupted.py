"""Recordings that stop early because nothing more can be written, while the agent continues."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from replaykit.errors import RecordingWarning, StoreFull
from replaykit.model.run import RunHeader
from replaykit.model.values import raw

if TYPE_CHECKING:
    from replaykit.model.changes import Cleaning
    from replaykit.model.events import StoredEvent

STOPPED = "recording_stopped"
"""The key in a run's metadata that says why its recording stopped early."""


class NoWriter(Struct, eq=False):
    """A writer that discards everything, in place of one that failed."""

    run_id: str
    cleaning: Cleaning | None = None

    def append(self, event: StoredEvent) -> None:
        """Discard one event."""

    def finish(self, header: RunHeader) -> None:
        """Do nothing."""


def warn_stopped(error: StoreFull) -> None:
    """Warn the user without disturbing the agent."""
    warnings.warn(f"recording stopped: {error.message}. The agent continues", RecordingWarning, stacklevel=2)


def with_reason(header: RunHeader, reason: str) -> RunHeader:
    """Return the header with the reason why the recording stopped."""
    return replace(header, metadata_json=raw({**header.metadata, STOPPED: reason}))
