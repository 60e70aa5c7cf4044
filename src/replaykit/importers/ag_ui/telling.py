"""One run of AG-UI, from its events to the run."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from replaykit.importers.ag_ui.entries import Entries, Entry, Kind, camel
from replaykit.importers.errors import error_of
from replaykit.importers.fields import Fields
from replaykit.importers.messages import messages_of
from replaykit.importers.registry import Found
from replaykit.importers.talk import Talk, content_id
from replaykit.model.events import ErrorInfo, Usage
from replaykit.model.patch import PatchError, apply_patch
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json, encode
from replaykit.wire.call import Answer, ToolUse
from replaykit.wire.fields import as_count, as_object, as_objects, as_text

PROMPT = "The events leave out what was asked: keep the `input` of RUN_STARTED, or send a MESSAGES_SNAPSHOT."
_OUTCOMES = {"interrupt": RunStatus.RUNNING, "cancelled": RunStatus.CANCELLED}


class Run:
    """The events of a run, until it has ended."""

    def __init__(self, format: str) -> None:
        self.has_ended = False
        self._format = format
        self._entries = Entries()
        self._talk = Talk()
        self._talks: dict[str, Talk] = {"": self._talk}
        self._names: dict[str, str] = {}
        self._input: Json = UNSET
        self._output: Json = UNSET
        self._status: RunStatus | None = None
        self._error: ErrorInfo | None = None
        self._about: dict[str, Json] = {}
        self._usage: list[dict[str, Json]] = []
        self._times: list[float] = []
        self._state: Json = UNSET
        self._notes: list[str] = []
        self._seen: list[Json] = []

    def add(self, event: Fields) -> None:
        """One more event."""
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
        """The run, and what there is to say of it."""
        yield self._run()
        yield from self._notes

    def _begin(self, event: Fields) -> None:
        self._about |= {name: event.take(name) for name in ("runId", "threadId", "parentRunId", "protocolVersion")}
        given = dict(camel(event.object("input")))
        self._entries.begins_with([dict(camel(message)) for message in as_objects(given.get("messages"))])
        self._talk.offers(given.get("tools"))
        self._state = given["state"] if given.get("state") else UNSET
        self._about |= {name: given.get(name) for name in ("context", "forwardedProps", "resume")}

    def _end(self, event: Fields, kind: str) -> None:
        self.has_ended = True
        self._usage = as_objects(event.items("usage"))
        if kind == "RUN_ERROR":
            self._error = error_of({"type": event.text("code"), "message": event.text("message")}, "RunError")
            return
        outcome = event.object("outcome")
        self._about["interrupts"] = outcome.get("interrupts")
        self._status = _OUTCOMES.get(as_text(outcome.get("type")), RunStatus.SUCCESS)
        result = event.take("result")
        self._output = UNSET if result is None else result

    def _run(self) -> TraceRun:
        self._entries.close()
        self._remember()
        answers = sum(entry.kind is Kind.SPOKEN for entry in self._entries.entries)
        for entry in self._entries.entries:
            self._tell(self._talk_of(entry.agent), entry, alone=answers == 1)
        if self._entries.passed:
            told = ", ".join(f"{count} {kind}" for kind, count in sorted(self._entries.passed.items()))
            self._notes.append(f"run {as_text(self._about.get('runId'))!r}: passed over {told}")
        return self._talk.run(
            id=as_text(self._about.get("runId")) or content_id(self._format, encode(self._seen)),
            format=self._format,
            name=as_text(self._about.get("threadId")),
            input=self._input,
            output=self._output,
            status=self._status,
            error=self._error,
            started_at=min(self._times, default=0.0),
            ended_at=max(self._times, default=None),
            metadata={**self._about, "usage": self._usage, "passed_over": self._entries.passed},
            advice=[PROMPT],
        )

    def _remember(self) -> None:
        """What was said before the run; what it was asked is the last that the user said there."""
        said = _messages(self._entries.history)
        self._talk.catches_up(said)
        asked = [message for message in said if message.get("role") == "user"]
        told = any(entry.kind is Kind.SAYS and entry.role == "user" for entry in self._entries.entries)
        if told:
            self._input = next(e.value for e in self._entries.entries if e.kind is Kind.SAYS and e.role == "user")
        elif asked:
            self._input = asked[-1].get("content")

    def _talk_of(self, agent: str) -> Talk:
        return self._talks.get(agent, self._talk)

    def _tell(self, talk: Talk, entry: Entry, *, alone: bool) -> None:
        step = entry.step or self._names.get(entry.agent)
        if entry.kind is Kind.SPOKEN:
            self._tell_answer(talk, entry, step, alone=alone)
        elif entry.kind is Kind.SAYS:
            talk.says(entry.role, entry.value if entry.value is not None else "".join(entry.texts))
        elif entry.kind is Kind.RESULT:
            waits = next((one for one in self._talks.values() if one.turn_of(entry.id)), talk)
            error = error_of(entry.error, "ToolError") if entry.error else None
            waits.returns(entry.value, call_id=entry.id, error=error, at=entry.at)
        elif entry.kind in (Kind.SNAPSHOT, Kind.DELTA):
            self._keep(talk, entry, step)
        elif entry.kind is Kind.AGENT:
            self._start(entry)
        elif entry.kind is Kind.ERROR:
            told = {"type": as_text(entry.value.get("code")) or None, "message": as_text(entry.value.get("message"))}
            talk.fails(error_of(told, "SubagentError"), at=entry.at, step=step)
        else:
            talk.notes(entry.id, entry.value, at=entry.at, step=step)

    def _tell_answer(self, talk: Talk, entry: Entry, step: str | None, *, alone: bool) -> None:
        text, thinking = "".join(entry.texts), "".join(entry.thoughts)
        uses = tuple(ToolUse(id=call.id, name=call.name, arguments=call.arguments) for call in entry.calls.values())
        if not (text or thinking or uses):
            return
        talk.answers(
            Answer(content=text or None, tool_calls=uses, thinking=thinking or None),
            model=self._model(),
            usage=self._used() if alone else None,
            at=entry.at,
            duration_s=max(0.0, entry.until - entry.at),
            step=step,
        )

    def _keep(self, talk: Talk, entry: Entry, step: str | None) -> None:
        if entry.kind is Kind.SNAPSHOT:
            self._state = entry.value.get("snapshot")
        else:
            try:
                self._state = apply_patch({} if self._state is UNSET else self._state, entry.value.get("delta") or [])
            except PatchError as problem:
                self._state = UNSET
                self._notes.append(f"run {as_text(self._about.get('runId'))!r}: a STATE_DELTA does not fit: {problem}")
        talk.keeps(self._state, at=entry.at, step=step)

    def _start(self, entry: Entry) -> None:
        """A sub-agent begins: inside of the call that started it, where the event names one."""
        about = entry.value
        above = self._talk_of(as_text(about.get("parentSubagentRunId")))
        turn = above.turn_of(as_text(about.get("parentToolCallId")))
        talk = self._talks[entry.agent] = above.inside(turn)
        self._names[entry.agent] = as_text(about.get("name")) if turn is None else ""
        told = {name: about[name] for name in ("name", "description", "subagentRunId") if about.get(name)}
        talk.notes("subagent", told, at=entry.at, step=self._names[entry.agent] or None)

    def _model(self) -> str:
        """The model, where the run's usage names one and no other."""
        names = {as_text(used.get("model")) for used in self._usage}
        return names.pop() if len(names) == 1 else ""

    def _used(self) -> Usage | None:
        if len(self._usage) != 1:
            return None
        used = self._usage[0]
        return Usage(input_tokens=as_count(used.get("inputTokens")), output_tokens=as_count(used.get("outputTokens")))


def _messages(messages: list[dict[str, Json]]) -> list[Json]:
    """Messages of the protocol in one shape."""
    return messages_of([_message(dict(camel(message))) for message in messages]) or []


def _message(message: dict[str, Json]) -> dict[str, Json]:
    names = {"toolCalls": "tool_calls", "toolCallId": "tool_call_id"}
    said = {names.get(name, name): value for name, value in message.items()}
    return said | ({"status": "error"} if as_object(message).get("error") else {})
