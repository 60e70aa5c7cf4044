"""Tell the user what a run did past its recording."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable

from replaykit.errors import RecordingWarning
from replaykit.model.events import Note
from replaykit.model.run import RunHeader, TraceRun
from replaykit.model.unrecorded import UNRECORDED, Unrecorded, all_unrecorded, unrecorded_lines
from replaykit.store.protocol import Store


def cleaned_unrecorded(found: Iterable[Unrecorded], store: Store) -> list[Unrecorded]:
    """The same without what is secret or personal, as the store would write it."""
    notes = [Note(seq=seq, name=UNRECORDED, content_json=one.content) for seq, one in enumerate(found)]
    return all_unrecorded(store.cleaned(TraceRun.of(RunHeader(id=""), tuple(notes))).events)


def warn_unrecorded(found: Iterable[Unrecorded]) -> None:
    """Warn of each thing in a line of its own."""
    for line in unrecorded_lines(found):
        try:
            warnings.warn(line, RecordingWarning, stacklevel=_level_of_caller())
        except RecordingWarning:  # made an error by a filter; a recording does not change what the agent does
            print(f"replaykit: {line}", file=sys.stderr)


def _level_of_caller() -> int:
    """How many frames above `warn_unrecorded` the code is that recorded the run."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_below_caller(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    return level


def _is_below_caller(module: str) -> bool:
    return module.startswith("replaykit.") or module == "contextlib"
