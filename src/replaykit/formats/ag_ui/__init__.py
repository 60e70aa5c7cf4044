"""AG-UI: the events that an agent sends to a user interface, one on each line, in a list, or as an event stream.

    RUN_STARTED {threadId, runId, input?}     RUN_FINISHED {result?, outcome?, usage?}     RUN_ERROR {message, code}
    TEXT_MESSAGE_START | CONTENT | END | CHUNK {messageId, delta}       REASONING_… {delta}
    TOOL_CALL_START | ARGS | END | CHUNK {toolCallId, toolCallName, parentMessageId, delta}    TOOL_CALL_RESULT
    STATE_SNAPSHOT   STATE_DELTA (a JSON Patch)   MESSAGES_SNAPSHOT {messages}   STEP_STARTED {stepName}   SUBAGENT_…

A file may hold several runs in sequence. The protocol names no model, and has no prompt except in a run's input or a
snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from replaykit.errors import InvalidFile
from replaykit.formats.ag_ui.entries import AgUiEntries, AgUiEntry, AgUiEntryKind, camel, camel_messages
from replaykit.formats.core.fields import Fields, TraceItem, error_of
from replaykit.formats.core.messages import messages_of
from replaykit.formats.core.registry import Found, first_items, items_of, mostly, nothing_of, register_format
from replaykit.formats.core.source import Source
from replaykit.formats.core.talk import Talk, content_id
from replaykit.model.events import ErrorInfo, Usage
from replaykit.model.patch import PatchError, apply_patch
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json, JsonObject, encode
from replaykit.wire.json_fields import as_objects, as_text, count_in, of_role, pick, text_in, value_in
from replaykit.wire.model_calls import ModelAnswer, ToolUse

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


def _recognises(source: Source) -> bool:
    values = first_items(source)
    return mostly(_is_event, values) and not {"RAW", "CUSTOM", ""}.issuperset(map(_type, values))


def _read_file(source: Source) -> Iterator[Found]:
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


register_format(FORMAT, "AG-UI: events as JSONL, a list or an event stream", _recognises, _read_file)


def _type(value: Json) -> str:
    return as_text(value_in(value, "type"))


def _is_event(value: Json) -> bool:
    kind = _type(value)
    return kind.startswith(_FAMILIES) or kind in _ALONE


def _add(run: AgUiRun, item: TraceItem) -> Iterator[Found]:
    try:
        run.add(TraceItem(item.source, camel(item.value), item.path).fields())
    except InvalidFile as problem:
        yield problem


PROMPT = "The events leave out what was asked: keep the `input` of RUN_STARTED, or send a MESSAGES_SNAPSHOT."
_OUTCOMES = {"interrupt": RunStatus.RUNNING, "cancelled": RunStatus.CANCELLED}


class AgUiRun:
    """The events of a run until it ends."""

    def __init__(self, format: str) -> None:
        self.has_ended = False
        self._format = format
        self._entries = AgUiEntries()
        self._talk = Talk()
        self._talks: dict[str, Talk] = {"": self._talk}
        self._names: dict[str, str] = {}
        self._input: Json = UNSET
        self._output: Json = UNSET
        self._status: RunStatus | None = None
        self._error: ErrorInfo | None = None
        self._metadata: JsonObject = {}
        self._usage: list[JsonObject] = []
        self._times: list[float] = []
        self._state: Json = UNSET
        self._notes: list[str] = []
        self._seen: list[Json] = []

    def add(self, event: Fields) -> None:
        kind, at = event.required_text("type"), event.time("timestamp")
        self._times += [at] if at else []
        self._seen.append(event.value)
        if kind == "RUN_STARTED":
            self._begin(event)
        elif kind in ("RUN_FINISHED", "RUN_ERROR"):
            self._end(event, kind)
        else:
            self._entries.add(event)

    def found(self) -> Iterator[Found]:
        """Yield the run, and notes about it."""
        yield self._run()
        yield from self._notes

    def _begin(self, event: Fields) -> None:
        run_input = camel(event.object("input"))
        self._entries.add_history(camel_messages(run_input.get("messages")))
        self._talk.offers(run_input.get("tools"))
        self._state = run_input.get("state") or UNSET
        self._metadata |= pick(event.value, ("runId", "threadId", "parentRunId", "protocolVersion"))
        self._metadata |= pick(run_input, ("context", "forwardedProps", "resume"))

    def _end(self, event: Fields, kind: str) -> None:
        self.has_ended = True
        self._usage = as_objects(event.items("usage"))
        if kind == "RUN_ERROR":
            self._error = error_of({"type": event.text("code"), "message": event.text("message")}, "RunError")
            return
        outcome = event.object("outcome")
        self._metadata["interrupts"] = outcome.get("interrupts")
        self._status = _OUTCOMES.get(text_in(outcome, "type"), RunStatus.SUCCESS)
        result = event.take("result")
        self._output = UNSET if result is None else result

    def _run(self) -> TraceRun:
        entries = self._entries
        entries.close()
        self._remember()
        kinds = [entry.kind for entry in entries.entries]
        for entry in entries.entries:
            talk = self._talks.get(entry.agent, self._talk)
            self._add_entry(talk, entry, alone=kinds.count(AgUiEntryKind.SPOKEN) == 1)
        run_id = text_in(self._metadata, "runId")
        if entries.passed:
            passed_over = ", ".join(f"{count} {kind}" for kind, count in sorted(entries.passed.items()))
            self._notes.append(f"run {run_id!r}: passed over {passed_over}")
        return self._talk.run(
            id=run_id or content_id(self._format, encode(self._seen)),
            format=self._format,
            name=text_in(self._metadata, "threadId"),
            input=self._input,
            output=self._output,
            status=self._status,
            error=self._error,
            started_at=min(self._times, default=0.0),
            ended_at=max(self._times, default=None),
            metadata={**self._metadata, "usage": self._usage, "passed_over": entries.passed},
            advice=[PROMPT],
        )

    def _remember(self) -> None:
        """Add messages from before the run; the last one of the user is the run's input."""
        messages = messages_of(list(map(_message, self._entries.history))) or []
        self._talk.catches_up(messages)
        for question in of_role(messages, "user"):
            self._input = question.get("content")
        for entry in self._entries.entries:
            if entry.kind is AgUiEntryKind.SAYS and entry.role == "user":
                self._input = entry.value
                break

    def _add_entry(self, talk: Talk, entry: AgUiEntry, *, alone: bool) -> None:
        step = entry.step or self._names.get(entry.agent)
        if entry.kind is AgUiEntryKind.SPOKEN:
            self._add_answer(talk, entry, step, alone=alone)
        elif entry.kind is AgUiEntryKind.SAYS:
            talk.says(entry.role, "".join(entry.texts) if entry.value is None else entry.value)
        elif entry.kind is AgUiEntryKind.RESULT:
            error = error_of(entry.error, "ToolError") if entry.error else None
            for waiting in self._talks.values():
                if waiting.turn_of(entry.id):
                    talk = waiting
                    break
            talk.returns(entry.value, call_id=entry.id, error=error, at=entry.at)
        elif entry.kind in (AgUiEntryKind.SNAPSHOT, AgUiEntryKind.DELTA):
            self._keep(talk, entry, step)
        elif entry.kind is AgUiEntryKind.AGENT:
            self._start(entry)
        elif entry.kind is AgUiEntryKind.ERROR:
            failure = {"type": text_in(entry.value, "code") or None, "message": text_in(entry.value, "message")}
            talk.fails(error_of(failure, "SubagentError"), at=entry.at, step=step)
        else:
            talk.notes(entry.id, entry.value, at=entry.at, step=step)

    def _add_answer(self, talk: Talk, entry: AgUiEntry, step: str | None, *, alone: bool) -> None:
        text, thinking = "".join(entry.texts), "".join(entry.thoughts)
        uses = tuple(ToolUse(id=call.id, name=call.name, arguments=call.arguments) for call in entry.calls.values())
        if not (text or thinking or uses):
            return
        talk.answers(
            ModelAnswer(content=text or None, tool_calls=uses, thinking=thinking or None),
            model=self._model(),
            usage=self._used() if alone else None,
            at=entry.at,
            duration_s=max(0.0, entry.until - entry.at),
            step=step,
        )

    def _keep(self, talk: Talk, entry: AgUiEntry, step: str | None) -> None:
        if entry.kind is AgUiEntryKind.SNAPSHOT:
            self._state = entry.value.get("snapshot")
        else:
            try:
                self._state = apply_patch({} if self._state is UNSET else self._state, entry.value.get("delta") or [])
            except PatchError as problem:
                self._state = UNSET
                self._notes.append(f"run {text_in(self._metadata, 'runId')!r}: a STATE_DELTA does not fit: {problem}")
        talk.keeps(self._state, at=entry.at, step=step)

    def _start(self, entry: AgUiEntry) -> None:
        """Start a sub-agent, inside the call that started it if the event names one."""
        subagent = entry.value
        above = self._talks.get(text_in(subagent, "parentSubagentRunId"), self._talk)
        turn = above.turn_of(text_in(subagent, "parentToolCallId"))
        talk = self._talks[entry.agent] = above.inside(turn)
        self._names[entry.agent] = text_in(subagent, "name") if turn is None else ""
        details = {name: subagent[name] for name in ("name", "description", "subagentRunId") if subagent.get(name)}
        talk.notes("subagent", details, at=entry.at, step=self._names[entry.agent] or None)

    def _model(self) -> str:
        """Return the model if the run's usage names exactly one."""
        names = {text_in(used, "model") for used in self._usage}
        if len(names) == 1:
            return names.pop()
        return ""

    def _used(self) -> Usage | None:
        if len(self._usage) != 1:
            return None
        used = self._usage[0]
        return Usage(input_tokens=count_in(used, "inputTokens"), output_tokens=count_in(used, "outputTokens"))


def _message(message: JsonObject) -> JsonObject:
    """Return a message of the protocol in the shape that `messages_of` reads."""
    renamed = camel(message)
    for name, plain_name in (("toolCalls", "tool_calls"), ("toolCallId", "tool_call_id")):
        if name in renamed:
            renamed[plain_name] = renamed.pop(name)
    if renamed.get("error"):
        renamed["status"] = "error"
    return renamed
