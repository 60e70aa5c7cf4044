"""A recording that stops before its run does, since nothing more can be written; the agent goes on."""

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
"""The member of a run's metadata that says why its recording ended before it did."""


class NoWriter(Struct, eq=False):
    """Writes nothing: in the place of a writer that cannot go on, or could not begin."""

    run_id: str
    cleaning: Cleaning | None = None

    def append(self, event: StoredEvent) -> None:
        """Drop one event."""

    def finish(self, header: RunHeader) -> None:
        """Leave the run as it is."""


def warn_stopped(error: StoreFull) -> None:
    """Tell whoever looks on, and not the agent."""
    warnings.warn(f"recording stopped: {error.message}. The agent goes on", RecordingWarning, stacklevel=2)


def with_reason(header: RunHeader, reason: str) -> RunHeader:
    """Return the header with the reason why the recording stopped."""
    return replace(header, metadata_json=raw({**header.metadata, STOPPED: reason}))
