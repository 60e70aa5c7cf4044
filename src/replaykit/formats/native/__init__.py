"""The native trace: one JSON object with `run_id`, `status` and `events`, easy to write by hand or by a logger.

    input_message {content}                 message  {role, content}      output_message | final_output {content}
    tool_call {tool_name, tool_args}        tool_result {output | error}  llm_call {model, messages, response, usage}
    state {state}   decision {content}      error {error}                 note {content}

Any event may have `timestamp` (ISO or epoch), `duration_ms`, `step` and `tool_call_id`. A file may hold one
trace, a list of them, or one a line.
"""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.errors import InvalidFile, nearest
from replaykit.formats.core.errors import STATUSES, error_of, status_of
from replaykit.formats.core.fields import Fields
from replaykit.formats.core.registry import IMPORTERS, Found
from replaykit.formats.core.source import JsonPath, Source
from replaykit.formats.native.events import EventReader
from replaykit.model.events import AnyEvent, ErrorEvent, ErrorInfo, Message
from replaykit.model.run import Origin, RunStatus, TraceRun
from replaykit.model.values import ABSENT, NULL, Json, Raw

FORMAT = "replaykit"


class NativeImporter:
    """Reads the native trace."""

    name = FORMAT
    title = "ReplayKit's own trace: `run_id`, `status`, `events`"

    def recognises(self, source: Source) -> bool:
        value = source.first[0] if source.first else None
        first = value[0] if isinstance(value, list) and value else value
        return isinstance(first, dict) and "events" in first and "run_id" in first

    def read(self, source: Source) -> Iterator[Found]:
        for document in source.documents():
            yield from _read_document(document)


IMPORTERS.register(FORMAT)(NativeImporter())


def _read_document(source: Source) -> Iterator[Found]:
    try:
        value = source.value
    except InvalidFile as problem:
        yield problem
        return
    items = enumerate(value) if isinstance(value, list) else [(None, value)]
    for index, item in items:
        notes: list[str] = []
        try:
            yield _read_run(source, item, () if index is None else (index,), notes)
        except InvalidFile as problem:
            yield problem
        else:
            yield from notes


def _read_run(source: Source, value: Json, path: JsonPath, notes: list[str]) -> TraceRun:
    fields = Fields(source, value, path, "a trace: an object with `run_id`, `status` and `events`")
    if "events" not in fields.value:
        raise source.error("'events' is missing", path)
    run_id = fields.required_text("run_id")
    reader = EventReader(source, (*path, "events"), notes)
    for index, item in enumerate(fields.items("events")):
        reader.add(index, item)
    events = tuple(reader.events)
    status, error = _ending(fields, events)
    started_at, ended_at = _times(fields, events)
    return TraceRun(
        id=run_id,
        name=fields.text("name") or "",
        agent=fields.text("agent") or "",
        agent_version=fields.text("agent_version") or "",
        input_json=_input(fields, events),
        output_json=_output(fields, reader, status),
        status=status,
        error=error,
        started_at=started_at,
        ended_at=ended_at,
        tags=_tags(fields),
        metadata_json=_metadata(fields, reader),  # last: it keeps whatever nothing above has taken
        origin=Origin(kind="imported", format=FORMAT),
        event_count=len(events),
        events=events,
    )


def _ending(fields: Fields, events: tuple[AnyEvent, ...]) -> tuple[RunStatus, ErrorInfo | None]:
    errors = [event.error for event in events if isinstance(event, ErrorEvent)]
    error_value = fields.take("error")
    if error_value is not None:
        error = error_of(error_value)
    elif errors:
        error = errors[-1]
    else:
        error = None
    word = fields.text("status")
    if word is None:
        raise fields.source.error("'status' is missing", fields.path, hint=f"For example: {', '.join(RunStatus)}")
    status = status_of(word)
    if status is None:
        raise fields.error(f"unknown status {word!r}; {nearest(word, STATUSES)}", "status")
    # A run that recovered from an error event did not end with it.
    return status, error if error_value is not None or status is not RunStatus.SUCCESS else None


def _input(fields: Fields, events: tuple[AnyEvent, ...]) -> Raw:
    if fields.key("input"):
        return fields.raw("input")
    questions = (event.content_json for event in events if isinstance(event, Message) and event.role == "user")
    return next(questions, NULL)


def _output(fields: Fields, reader: EventReader, status: RunStatus) -> Raw:
    output = fields.raw("final_output", "output")
    if output != NULL:
        return output
    if reader.output_json is not None:
        return reader.output_json
    last = reader.events[-1] if reader.events else None
    if status is RunStatus.SUCCESS and isinstance(last, Message) and last.role == "assistant":
        return last.content_json
    return ABSENT


def _times(fields: Fields, events: tuple[AnyEvent, ...]) -> tuple[float, float | None]:
    timed = [event for event in events if event.at]
    started = fields.time("started_at", "start_time")
    ended = fields.time("ended_at", "end_time")
    if started is None:
        started = min((event.at for event in timed), default=0.0)
    if ended is None and timed:
        ended = max(event.at + event.duration_s for event in timed)
    return started, ended


def _tags(fields: Fields) -> tuple[str, ...]:
    tags = fields.items("tags")
    for tag in tags:
        if not isinstance(tag, str):
            raise fields.error("expected a list of texts", "tags")
    return tuple(tags)


def _metadata(fields: Fields, reader: EventReader) -> Raw:
    metadata = dict(fields.object("metadata"))
    max_steps = fields.number("max_steps")
    if max_steps is not None:
        metadata["max_steps"] = int(max_steps)
    unmapped = {"run": fields.rest(), "events": reader.unmapped}
    if any(unmapped.values()):
        metadata["unmapped"] = {key: value for key, value in unmapped.items() if value}
    return fields.source.raw(metadata, fields.path)
