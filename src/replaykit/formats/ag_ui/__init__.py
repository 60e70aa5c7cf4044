"""AG-UI: the events that an agent sends to a user's screen, one a line, in a list, or as the text of an event stream.

    RUN_STARTED {threadId, runId, input?}     RUN_FINISHED {result?, outcome?, usage?}     RUN_ERROR {message, code}
    TEXT_MESSAGE_START | CONTENT | END | CHUNK {messageId, delta}       REASONING_… {delta}
    TOOL_CALL_START | ARGS | END | CHUNK {toolCallId, toolCallName, parentMessageId, delta}    TOOL_CALL_RESULT
    STATE_SNAPSHOT   STATE_DELTA (a JSON Patch)   MESSAGES_SNAPSHOT {messages}   STEP_STARTED {stepName}   SUBAGENT_…

A file may hold several runs, one after another. The protocol names no model and has no prompt but what a run's input
or a snapshot tells.
"""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.errors import InvalidFile
from replaykit.formats.ag_ui.entries import camel
from replaykit.formats.ag_ui.runs import AgUiRun
from replaykit.formats.core.items import TraceItem, first_items, items_of, mostly, nothing_of
from replaykit.formats.core.registry import IMPORTERS, Found
from replaykit.formats.core.source import Source
from replaykit.model.values import Json
from replaykit.wire.json_fields import as_object, as_text

FORMAT = "ag_ui"
_FAMILIES = (
    "RUN_",
    "STEP_",
    "TEXT_MESSAGE_",
    "TOOL_CALL_",
    "STATE_",
    "ACTIVITY_",
    "REASONING_",
    "THINKING_",
    "SUBAGENT_",
)
_ALONE = ("MESSAGES_SNAPSHOT", "RAW", "CUSTOM")
_EXPECTED = "expected an event of AG-UI: an object with a `type` such as RUN_STARTED"


class AgUiImporter:
    """Reads events of AG-UI."""

    name = FORMAT
    title = "AG-UI: events as JSONL, a list or an event stream"

    def recognises(self, source: Source) -> bool:
        values = first_items(source)
        return mostly(_is_event, values) and any(_type(value) not in ("RAW", "CUSTOM", "") for value in values)

    def read(self, source: Source) -> Iterator[Found]:
        if not any(map(_is_event, first_items(source))):
            raise nothing_of(source, _EXPECTED)
        run: AgUiRun | None = None
        for item in items_of(source):
            if isinstance(item, InvalidFile):
                yield item
                continue
            if not _is_event(item.value):
                yield item.error(_EXPECTED)
                continue
            if run is not None and (run.has_ended or _type(item.value) == "RUN_STARTED"):
                yield from run.found()
                run = None
            run = run or AgUiRun(FORMAT)
            yield from _add(run, item)
        if run is not None:
            yield from run.found()


IMPORTERS.register(FORMAT)(AgUiImporter())


def _type(value: Json) -> str:
    return as_text(as_object(value).get("type"))


def _is_event(value: Json) -> bool:
    kind = _type(value)
    return kind.startswith(_FAMILIES) or kind in _ALONE


def _add(run: AgUiRun, item: TraceItem) -> Iterator[Found]:
    try:
        run.add(TraceItem(item.source, dict(camel(item.value)), item.path).fields())
    except InvalidFile as problem:
        yield problem
