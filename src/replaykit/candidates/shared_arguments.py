"""Shared arguments: redact runs whose calls repeat each other's messages, searching each message once.

Results and run logs are redacted as one text before they are written, so that a value found in one place is replaced
everywhere. With 400 calls over 400 messages, that text has 80 MB and takes 6 s per search. Repeated parts are therefore
included once and restored afterwards.
"""

# No `from __future__ import annotations`: msgspec would compile the text of each annotation once per class.

import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from replaykit.cases.fixtures import reference_names
from replaykit.model.compact_run import with_large_values, without_large_values
from replaykit.model.events import AnyEvent, Call
from replaykit.model.run import TraceRun
from replaykit.model.shared_parts import ExpansionBudget, PartReader, PartWriter, Reference
from replaykit.model.values import Raw
from replaykit.redaction.files import clean_struct

if TYPE_CHECKING:
    from replaykit.redaction.redactor import Redactor

S = TypeVar("S", bound=Struct)

_LEAST_BYTES = 256 * 1024
_NO_LIMIT = 1 << 62  # what is joined was complete before
References = dict[int, dict[str, Reference]]
"""References to the shared parts of arguments, by position of the event."""


class _Shown(Struct, Generic[S], frozen=True):
    """The values that are redacted as one text."""

    rest: S
    runs: tuple[TraceRun, ...]
    parts: dict[str, tuple[Raw, ...]]


def redacted_run(run: TraceRun, redactor: "Redactor | None") -> TraceRun:
    """Return a run redacted event by event."""
    if redactor is None:
        return run
    from replaykit.redaction.events import Door  # noqa: PLC0415 (not needed with redaction off)

    return Door(redactor).run(run)


def clean_with_runs(rest: S, runs: Sequence[TraceRun], redactor: "Redactor | None") -> tuple[S, list[TraceRun]]:
    """Return a value and its runs, redacted."""
    if redactor is None:
        return rest, list(runs)
    # Redact everything as one text first, while the names beside secrets are still there. Large values would take
    # several times their memory that way, so they are redacted later, with their events.
    sharing = _Sharing(list(map(without_large_values, runs)), redactor)
    kind = cast("type[_Shown[S]]", types.GenericAlias(_Shown, (type(rest),)))
    shown = clean_struct(_Shown(rest, sharing.runs, sharing.parts), redactor, kind)
    whole = map(with_large_values, sharing.whole(shown.runs, shown.parts), runs)
    return shown.rest, [redacted_run(run, redactor) for run in whole]


class _Sharing:
    """Runs without the parts that their calls repeat, and the way to restore them."""

    def __init__(self, runs: Sequence[TraceRun], redactor: "Redactor") -> None:
        self.runs = tuple(runs)
        self.parts: dict[str, tuple[Raw, ...]] = {}
        self._references: list[References] = [{} for _ in runs]
        arguments = [call.arguments_json for run in runs for call in run.calls]
        if sum(map(len, arguments)) < _LEAST_BYTES or redactor.rules.paths:
            return  # a rule for a path needs each value in its place
        writer = PartWriter(arguments, reference_names(redactor))
        pairs = [_without_parts(run, writer) for run in runs]
        self.runs = tuple(run for run, _ in pairs)
        self._references = [references for _, references in pairs]
        self.parts = {path: tuple(items) for path, items in writer.tables.items()}

    def whole(self, runs: Sequence[TraceRun], parts: dict[str, tuple[Raw, ...]]) -> list[TraceRun]:
        """Return the runs with these parts restored in their arguments."""
        reader = PartReader(parts, ExpansionBudget(_NO_LIMIT))
        return [_with_parts(run, named, reader) for run, named in zip(runs, self._references, strict=True)]


def _without_parts(run: TraceRun, writer: PartWriter) -> tuple[TraceRun, References]:
    events: list[AnyEvent] = []
    references: References = {}
    for position, event in enumerate(run.events):
        if isinstance(event, Call):
            split = writer.split(event.arguments_json)
            if split is not None and split.parts and not split.large:
                references[position] = split.parts
                event = replace(event, arguments_json=split.rest)
        events.append(event)
    return replace(run, events=tuple(events)), references


def _with_parts(run: TraceRun, references: References, reader: PartReader) -> TraceRun:
    events = list(run.events)
    for position, parts in references.items():
        event = events[position]
        assert isinstance(event, Call)  # only calls have references
        arguments = reader.joined(event.arguments_json, parts, {})
        events[position] = replace(event, arguments_json=arguments)
    return replace(run, events=tuple(events))
