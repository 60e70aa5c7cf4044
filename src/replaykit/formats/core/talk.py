"""Talk: turn a conversation into a run, message by message.

Most traces are one: the user says something, the model answers and calls tools, the tools return, the model answers
again. An importer adds each message once, in order. `Talk` makes each answer a model call whose messages are everything
before it, and each requested call a tool call right after the answer, whenever the result comes. A result is matched
to its call by id, else by name, else by position.

    talk = Talk(system="Be kind.", tools=[…])
    talk.says("user", "Where is my order?")
    talk.answers(Answer(tool_calls=(ToolUse(id="c1", name="find", arguments={"id": 7}),)), model="gpt-5")
    talk.returns({"state": "sent"}, call_id="c1")
    talk.answers(Answer(content="On its way."), model="gpt-5")
    run = talk.run(id="r1", format="mine")
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from replaykit.formats.core.fields import ending_of, result_error, tool_outcome
from replaykit.formats.core.messages import RETURNING, SPEAKING, START, answer_in, fingerprint, fingerprints
from replaykit.formats.core.replayability import Lack, with_lacks
from replaykit.model.changes import StateFold
from replaykit.model.events import AnyEvent, ErrorEvent, ErrorInfo, LlmCall, Note, State, ToolCall, Usage
from replaykit.model.matching import ToolErrors
from replaykit.model.run import Origin, RunStatus, TraceRun
from replaykit.model.values import ABSENT, NULL, Json, JsonObject, Raw, canonical, raw
from replaykit.wire.json_fields import filled, text_in
from replaykit.wire.model_calls import ModelAnswer, ToolUse

UNSET = msgspec.UNSET
UNFINISHED = ErrorInfo(type="Unfinished", message="the conversation ends before the agent's answer")

_ANSWERING = (*SPEAKING, *RETURNING)

# A run's calls may repeat this much of the history; later calls hold only what is new since the call before.
_MAX_HISTORY_BYTES = 64 * 1024 * 1024


class Turn:
    """Something that happened, not yet an event: results and parents may still come."""

    __slots__ = ("fields", "kind", "lacks", "parent", "seq")

    def __init__(self, kind: type[AnyEvent], parent: Turn | None, fields: dict[str, Any]) -> None:
        self.kind = kind
        self.parent = parent
        self.fields = fields
        self.lacks: set[Lack] = set()
        self.seq = 0


class Talk:
    """A conversation, and those of the agents that its calls started."""

    def __init__(self, *, system: Json = None, tools: Json = None) -> None:
        self._turns: list[Turn] = []
        self._parent: Turn | None = None
        self._repeated = [0]
        self._fold = StateFold()
        self._start(system, tools)

    def _start(self, system: Json, tools: Json) -> None:
        self._system, self._tools = system, tools
        self._above = _frame(system=system, tools=tools)
        self._messages: list[bytes] = []
        self._fingerprints: list[bytes] = []
        self._new = 0  # the number of messages of the previous call
        self._old_bytes = 0  # the size of those messages in bytes
        self._prompted = bool(system)
        self._waiting: list[tuple[ToolUse, Turn]] = []
        self._input: Json = UNSET
        self._last: ModelAnswer | None = None
        self._failure: ErrorInfo | None = None

    def offers(self, tools: Json) -> None:
        """Set the tools on offer from here on."""
        self._tools = tools
        self._above = _frame(system=self._system, tools=tools)

    def instructs(self, system: Json) -> None:
        """Set the system prompt from here on."""
        self._system = system
        self._above = _frame(system=system, tools=self._tools)
        self._prompted = self._prompted or bool(system)

    def says(self, role: str, content: Json, **more: Json) -> None:
        """Add a message of the user or the system."""
        if role == "user" and self._input is UNSET:
            self._input = content
        self._hear({"role": role, "content": content, **more})
        self._ends_with()

    def mentions(self, role: str, content: Json) -> None:
        """Add a message that asks nothing of the model: the conversation may have ended before it."""
        self._hear({"role": role, "content": content})

    def answers(
        self,
        answer: ModelAnswer | None,
        *,
        model: str = "",
        usage: Usage | None = None,
        finish_reason: str | None = None,
        error: ErrorInfo | None = None,
        parameters: Mapping[str, Json] | None = None,
        at: float = 0.0,
        duration_s: float = 0.0,
        step: str | None = None,
        complete: bool = True,
    ) -> Turn:
        """Add an answer or a failure of the model, and the calls it asks for. `complete` is false for a cut stream."""
        arguments, is_whole = self._request_arguments(parameters or {})
        turn = self._turn(
            LlmCall,
            name=model,
            arguments_json=arguments,
            result_json=ABSENT if answer is None or error is not None else raw(answer.message),
            error=error,
            finish_reason=finish_reason,
            usage=usage,
            at=at,
            duration_s=duration_s,
            step=step,
            complete=complete,
        )
        if not is_whole or not self._prompted:
            turn.lacks.add(Lack.MESSAGES)
        if not complete:
            turn.lacks.add(Lack.CUT)
        self._ends_with(answer, error)
        if answer is None:
            return turn
        self._hear(answer.message)
        for use in answer.tool_calls:
            self.calls(use, at=at + duration_s if at else 0.0, step=step)
        return turn

    def calls(self, use: ToolUse, *, at: float = 0.0, step: str | None = None) -> Turn:
        """Add a tool call whose result is still to come, of the model that answered or of the agent itself."""
        turn = self._turn(ToolCall, name=use.name, arguments_json=Raw(canonical(use.arguments)), at=at, step=step)
        self._waiting.append((use, turn))
        return turn

    def returns(
        self,
        content: Json,
        *,
        call_id: str = "",
        name: str = "",
        failed: bool | None = None,
        error: ErrorInfo | None = None,
        ending: ToolErrors | None = None,
        at: float = 0.0,
        duration_s: float | None = None,
        told_model: Json = UNSET,
    ) -> Turn:
        """Add the result of a tool call. `told_model` is the content that the model saw, if it differs.

        `failed`, `error` and `ending` are the format's statements about a failure, as for `fields.tool_outcome`.
        """
        use, turn = self._called(call_id, name)
        message: JsonObject = {"role": "tool", "content": content if told_model is UNSET else told_model}
        if use.id:
            message["tool_call_id"] = use.id
        message["name"] = use.name
        if failed is True or error is not None:
            message["status"] = "error"
        error, result = tool_outcome(content, failed=failed, error=error, ending=ending)
        started = turn.fields["at"]
        if duration_s is not None:
            if at:
                # No call starts before it is requested, though the clocks of two machines may say so.
                started = max(started, at - duration_s)
        else:
            # Only the time of the result is known: the call took the time since it was requested.
            started = started or at
            duration_s = max(0.0, at - started) if at else 0.0
        turn.fields |= {"error": error, "result_json": result, "at": started, "duration_s": duration_s}
        self._hear(message)
        self._ends_with()
        return turn

    def uses(
        self, turn: Turn, use: ToolUse, content: Json = UNSET, *, failed: bool = False, error: ErrorInfo | None = None
    ) -> Turn:
        """Add a call of a tool that the provider ran while the model answered: it belongs inside the model call."""
        if error is None and content is not UNSET:
            error = result_error(content, is_error=failed)
        used = self._turn(
            ToolCall,
            name=use.name,
            arguments_json=Raw(canonical(use.arguments)),
            result_json=ABSENT if error is not None else _raw_or_absent(content),
            error=error,
            at=turn.fields["at"],
            step=turn.fields["step"],
        )
        used.parent = turn
        return used

    def hears(self, messages: Iterable[Json]) -> None:
        """Messages of one shape (`core.messages`), each of which is new."""
        for message in messages:
            self.hear(message)

    def hear(self, message: Json, **details: Any) -> Turn | None:
        """Add a message in the shape of `core.messages`; `details` go to `answers` or `returns`."""
        role, content = text_in(message, "role"), message.get("content")
        if role in SPEAKING:
            return self.answers(_answer(message), **details)
        if role in RETURNING:
            call_id, name = text_in(message, "tool_call_id"), text_in(message, "name")
            # None, not False: the text may still describe an error.
            failed = True if message.get("status") == "error" else None
            return self.returns(content, call_id=call_id, name=name, failed=failed, **details)
        self.says(role, content)
        return None

    @property
    def fingerprint(self) -> bytes:
        """The fingerprint of everything said so far (`core.messages.fingerprint`)."""
        if self._fingerprints:
            return self._fingerprints[-1]
        return START

    @property
    def waiting(self) -> list[str]:
        """The ids of calls that have not returned yet."""
        return [use.id for use, _turn in self._waiting if use.id]

    def knows(self, messages: list[Json]) -> int | None:
        """Return the number of known messages if the list starts with the whole talk; else None."""
        known = len(self._fingerprints)
        if self._common(messages) == known:
            return known
        return None

    def catches_up(self, messages: Iterable[Json], *, at: float = 0.0) -> None:
        """Compare the history that the next request repeats with what is known, and add what is new.

        The next answer has exactly these messages: a history may have been cut short or changed. The results of open
        calls are new; in a changed history, only those after the last answer are, since an older one may merely look
        the same.
        """
        history = list(messages)
        start = fresh = self._common(history)
        if start < len(self._fingerprints):
            fresh = max(start, _last_answer(history) + 1)
        del self._messages[start:], self._fingerprints[start:]
        self._new = min(self._new, start)
        self._old_bytes = sum(map(len, self._messages[: self._new]))
        for index, message in enumerate(history[start:], start):
            if index >= fresh and message.get("role") in RETURNING and self._is_awaited(message):
                self.hear(message, at=at)
            elif message.get("role") == "user":
                self.says("user", message.get("content"))
            else:
                self._hear(message)

    def inside(self, turn: Turn | None, *, system: Json = None, tools: Json = None) -> Talk:
        """Return the conversation of an agent that a call started, inside that call, or beside everything for None."""
        # Bypass the constructor: both talks share one list of turns, so that their events stay in one order.
        inner = Talk.__new__(Talk)
        inner._turns, inner._parent, inner._repeated = self._turns, turn, self._repeated
        inner._fold = self._fold
        inner._start(system, tools)
        return inner

    def turn_of(self, call_id: str) -> Turn | None:
        """Return the open call with that id."""
        return next((turn for use, turn in self._waiting if use.id == call_id), None)

    def fails(self, error: ErrorInfo, *, at: float = 0.0, step: str | None = None) -> None:
        """Add an error outside of any call."""
        self._turn(ErrorEvent, error=error, at=at, step=step)

    def keeps(self, state: Json, *, details: Json = UNSET, at: float = 0.0, step: str | None = None) -> None:
        """Add the agent's state after a step; UNSET if it is not known. `details` is the framework's own metadata."""
        whole, change = ABSENT, None
        if state is not UNSET:
            whole, change = self._fold.advance(state)
        self._turn(State, state_json=whole, change=change, about_json=_raw_or_absent(details), at=at, step=step)

    def notes(self, name: str, content: Json, *, at: float = 0.0, step: str | None = None) -> None:
        """Add a note: anything else worth keeping."""
        self._turn(Note, name=name, content_json=raw(content), at=at, step=step)

    @property
    def output(self) -> Json:
        """The agent's last answer if nothing came after it; else UNSET."""
        last = self._last
        if last is None or last.tool_calls:
            return UNSET
        return last.content or last.refusal or list(last.parts) or UNSET

    def run(
        self,
        *,
        id: str,
        format: str,
        name: str = "",
        agent: str = "",
        agent_version: str = "",
        input: Json = UNSET,
        output: Json = UNSET,
        status: RunStatus | None = None,
        error: ErrorInfo | None = None,
        started_at: float = 0.0,
        ended_at: float | None = None,
        tags: tuple[str, ...] = (),
        metadata: Mapping[str, Json] | None = None,
        advice: Iterable[str] = (),
    ) -> TraceRun:
        """Return the run. Defaults come from the conversation: the user's first message, the last answer."""
        events, lacks = self._events()
        output = self.output if output is UNSET else output
        if error is None and status is None and output is UNSET:
            error = self._failure or UNFINISHED
        status = status or (RunStatus.SUCCESS if error is None else ending_of(error))
        run_input = self._input if input is UNSET else input
        times = [event.at for event in events if event.at]
        ends = [event.at + event.duration_s for event in events if event.at]
        run = TraceRun(
            id=id,
            name=name,
            agent=agent,
            agent_version=agent_version,
            input_json=NULL if run_input is UNSET else raw(run_input),
            output_json=_raw_or_absent(output),
            status=status,
            error=error,
            started_at=started_at or min(times, default=0.0),
            ended_at=ended_at if ended_at is not None else max(ends, default=None),
            tags=tags,
            metadata_json=raw(filled(metadata or {})),
            origin=Origin(kind="imported", format=format),
            event_count=len(events),
            events=events,
        )
        return with_lacks(run, lacks, advice)

    def _events(self) -> tuple[tuple[AnyEvent, ...], dict[int, set[Lack]]]:
        events: list[AnyEvent] = []
        lacks: dict[int, set[Lack]] = {}
        for seq, turn in enumerate(self._turns):
            turn.seq = seq
            lacks[seq] = turn.lacks
        for turn in self._turns:  # in a second pass: the call around a turn may come after it
            parent = None if turn.parent is None else turn.parent.seq
            events.append(turn.kind(seq=turn.seq, parent=parent, **turn.fields))
        return tuple(events), lacks

    def _turn(self, kind: type[Any], **fields: Any) -> Turn:
        turn = Turn(kind, self._parent, fields)
        self._turns.append(turn)
        return turn

    def _called(self, call_id: str, name: str) -> tuple[ToolUse, Turn]:
        """Return the call of a result; without one, add a call that lacks its arguments."""
        index = self._place(call_id, name)
        if index is not None:
            return self._waiting.pop(index)
        turn = self._turn(ToolCall, name=name or "unknown", arguments_json=Raw(b"{}"), at=0.0)
        turn.lacks.add(Lack.ARGUMENTS)
        return ToolUse(id=call_id, name=name or "unknown"), turn

    def _place(self, call_id: str, name: str) -> int | None:
        """Return the index of an open call by its id; if either id is missing, by name or else by order."""
        uses = [use for use, _turn in self._waiting]
        for index, use in enumerate(uses):
            if call_id and use.id == call_id:
                return index
        for index, use in enumerate(uses):
            if not (call_id and use.id) and (not name or use.name == name):
                return index
        return None

    def _is_awaited(self, message: Json) -> bool:
        return self._place(text_in(message, "tool_call_id"), text_in(message, "name")) is not None

    def _common(self, messages: list[Json]) -> int:
        """Return the number of leading messages that are known."""
        for index, (new, known) in enumerate(zip(fingerprints(messages), self._fingerprints, strict=False)):
            if new != known:
                return index
        return min(len(messages), len(self._fingerprints))

    def _hear(self, message: JsonObject) -> None:
        # A conversation that begins with an answer lacks the question.
        self._prompted = self._prompted or message.get("role") not in _ANSWERING
        self._fingerprints.append(fingerprint(self.fingerprint, message))
        self._messages.append(canonical(message))

    def _ends_with(self, answer: ModelAnswer | None = None, failure: ErrorInfo | None = None) -> None:
        """Note how the run ends if nothing follows."""
        self._last, self._failure = answer if failure is None else None, failure

    def _request_arguments(self, parameters: Mapping[str, Json]) -> tuple[Raw, bool]:
        """Return the request of the next answer, and whether it is complete. Sorted keys make equal requests equal
        bytes."""
        messages = self._messages
        self._repeated[0] += self._old_bytes
        is_whole = self._repeated[0] <= _MAX_HISTORY_BYTES or not self._new
        if not is_whole:
            messages = messages[self._new :]
        self._old_bytes += sum(map(len, self._messages[self._new :]))
        self._new = len(self._messages)
        parts = [b'"messages":[' + b",".join(messages) + b"]"]
        if parameters:
            parts.append(b'"parameters":' + canonical(dict(parameters)))
        return Raw(b"{" + b",".join((*parts, *self._above)) + b"}"), is_whole


def _frame(**values: Json) -> tuple[bytes, ...]:
    """Return the members of a request that every call repeats, by name."""
    return tuple(f'"{name}":'.encode() + canonical(value) for name, value in sorted(values.items()) if value)


def content_id(format: str, text: bytes) -> str:
    """Return an id for a run that has none in its file: the same for the same content."""
    return f"{format}-{hashlib.blake2b(text, digest_size=8).hexdigest()}"


def _answer(message: Json) -> ModelAnswer | None:
    answer, parts = answer_in([message]), message.get("parts")
    if answer is None or not isinstance(parts, list):
        return answer
    return replace(answer, parts=(*parts, *answer.parts))


def _last_answer(messages: list[Json]) -> int:
    """Return the index of the model's last message, or -1."""
    return max((index for index, message in enumerate(messages) if message.get("role") in SPEAKING), default=-1)


def _raw_or_absent(value: Json) -> Raw:
    if value is UNSET:
        return ABSENT
    return raw(value)
