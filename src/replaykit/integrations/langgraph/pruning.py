"""A thread without some of its checkpoints."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from replaykit.integrations.langgraph.records import CheckpointRecord, read_record, read_writes
from replaykit.integrations.langgraph.run_summary import is_passing
from replaykit.integrations.langgraph.thread import ThreadLog
from replaykit.model.changes import StateFold
from replaykit.model.events import AnyEvent, Note, State
from replaykit.model.run import TraceRun
from replaykit.model.values import Raw


def without(log: ThreadLog, removed: Collection[str]) -> TraceRun:
    """The run of a thread as it would be without these checkpoints. Delta channels keep their history."""
    run = log.store.load(log.place.run_id)
    before, after = StateFold(), StateFold()
    events: list[AnyEvent] = []
    steps: set[str | None] = set()
    for event in run.events:
        if isinstance(event, State):
            before.apply(event)
            record = read_record(event.about_json)
            if record.id in removed or log.saved[record.id].seq != event.seq:
                continue
            whole, change = after.advance_to_text(msgspec.json.decode(before.text, type=dict[str, Raw]))
            about_json = Raw(msgspec.json.encode(_with_history(log, record, removed)))
            event = msgspec.structs.replace(event, state_json=whole, change=change, about_json=about_json)
        elif isinstance(event, Note):
            if read_writes(event.content_json).checkpoint in removed:
                continue
        elif event.step not in steps:
            continue
        steps.add(event.step)
        events.append(msgspec.structs.replace(event, seq=len(events)))
    return TraceRun.of(run.header, tuple(events))


def _with_history(log: ThreadLog, record: CheckpointRecord, removed: Collection[str]) -> CheckpointRecord:
    """The `about` of a checkpoint that loses its parent: it takes over what delta channels need of it."""
    if record.parent not in removed:
        return record
    # A channel that has a version and no value may be one: LangGraph does not say it of all checkpoints.
    channels = log.versions(record.id).keys() - log.saved[record.id].channels
    channels_with_history = [channel for channel in channels if not is_passing(channel)]
    return msgspec.structs.replace(record, history=log.history(record.id, channels_with_history))
