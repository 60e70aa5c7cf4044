"""Talk: a conversation told message by message becomes a run.

Most traces are one: the user says something, the model answers and calls tools, the tools return, the model answers
again. An importer tells each message once, in order; `Talk` makes a model's call of every answer, with all that was
said before it as its messages, and a tool's call of every call the model asks for, right after it, whenever its
result comes: found by its id, else by its name, else by its place.

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

from replaykit.importers.errors import result_error, spoken_error
from replaykit.importers.messages import answer_in
from replaykit.importers.replayable import Lack, with_lacks
from replaykit.model.events import AnyEvent, ErrorEvent, ErrorInfo, LlmCall, Note, ToolCall, Usage
from replaykit.model.run import Origin, RunStatus, TraceRun
from replaykit.model.values import ABSENT, NULL, Json, Raw, canonical, encode
from replaykit.wire.call import Answer, ToolUse
from replaykit.wire.fields import as_text

UNSET = msgspec.UNSET
UNFINISHED = ErrorInfo(type="Unfinished", message="the conversation ends before the agent's answer")

_MAX_HISTORY_BYTES = 64 * 1024 * 1024
"""The most that a run's calls repeat of what was said before; later ones hold what was new since the call before."""


class Turn:
    """Something that happened, not yet an event: what it is of may still come."""

    __slots__ = ("about", "kind", "lacks", "parent", "seq")

    def __init__(self, kind: type[AnyEvent], parent: Turn | None, about: dict[str, Any]) -> None:
        self.kind = kind
        self.parent = parent
        self.about = about
        self.lacks: set[Lack] = set()
        self.seq = 0


class Talk:
    """A conversation, and those inside of it."""

    def __init__(self, *, system: Json = None, tools: Json = None) -> None:
        self._turns: list[Turn] = []
        self._parent: Turn | None = None
        self._repeated = [0]
        self._start(system, tools)

    def _start(self, system: Json, tools: Json) -> None:
        self._system, self._tools = system, tools
        self._said: list[bytes] = []
        self._new = 0
        self._waiting: list[tuple[ToolUse, Turn]] = []
        self._input: Json = UNSET
        self._last: Answer | None = None

    def offers(self, tools: Json) -> None:
        """The tools that the model may call from here on."""
        self._tools = tools

    def says(self, role: str, content: Json, **more: Json) -> None:
        """Somebody else than the model says something: the user, the system."""
        if role == "user" and self._input is UNSET:
            self._input = content
        self._hear({"role": role, "content": content, **more})
        self._last = None

    def answers(
        self,
        answer: Answer | None,
        *,
        model: str = "",
        usage: Usage | None = None,
        finish_reason: str | None = None,
        error: ErrorInfo | None = None,
        parameters: Mapping[str, Json] | None = None,
        at: float = 0.0,
        duration_s: float = 0.0,
        step: str | None = None,
    ) -> Turn:
        """The model answers, or fails to; the tools it calls are waited for."""
        turn = self._turn(
            LlmCall,
            name=model,
            arguments_json=self._asked(parameters or {}),
            result_json=ABSENT if answer is None or error is not None else Raw(encode(answer.message)),
            error=error,
            finish_reason=finish_reason,
            usage=usage,
            at=at,
            duration_s=duration_s,
            step=step,
        )
        if self._repeated[0] > _MAX_HISTORY_BYTES:
            turn.lacks.add(Lack.MESSAGES)
        if answer is None:
            return turn
        self._hear(answer.message)
        self._last = answer
        for use in answer.tool_calls:
            called = self._turn(
                ToolCall,
                name=use.name,
                arguments_json=Raw(canonical(use.arguments)),
                at=at + duration_s if at else 0.0,
                step=step,
            )
            self._waiting.append((use, called))
        return turn

    def returns(
        self,
        content: Json,
        *,
        call_id: str = "",
        name: str = "",
        failed: bool = False,
        error: ErrorInfo | None = None,
        at: float = 0.0,
        duration_s: float | None = None,
        told: Json = UNSET,
    ) -> Turn:
        """A tool returns. `told` is what the model was told of it, where that is something else."""
        use, turn = self._called(call_id, name)
        error = error or result_error(content, is_error=failed) or spoken_error(content)
        turn.about |= {"error": error, "result_json": ABSENT if error is not None else Raw(encode(content))}
        started = turn.about["at"]
        if duration_s is None:
            duration_s = max(0.0, at - started) if at and started else 0.0
        elif at:
            turn.about["at"] = max(started, at - duration_s)
        turn.about["duration_s"] = duration_s
        said: dict[str, Json] = {"role": "tool", "content": content if told is UNSET else told}
        said |= {"tool_call_id": use.id} if use.id else {}
        self._hear(said | {"name": use.name} | ({"status": "error"} if error is not None else {}))
        self._last = None
        return turn

    def hears(self, messages: Iterable[Json]) -> None:
        """Messages of one shape (`importers.messages`), each of which is new."""
        for message in messages:
            self.hear(message)

    def hear(self, message: Json, **about: Any) -> Turn | None:
        """One message of that shape; `about` goes to `answers` or `returns`."""
        role, content = as_text(message.get("role")), message.get("content")
        if role in ("assistant", "model", "ai"):
            return self.answers(answer_in([message]), **about)
        if role in ("tool", "function"):
            ids = {"call_id": as_text(message.get("tool_call_id")), "name": as_text(message.get("name"))}
            return self.returns(content, **ids, failed=message.get("status") == "error", **about)
        self.says(role, content)
        return None

    def catches_up(self, messages: Iterable[Json]) -> None:
        """Everything that was said so far, as the next request repeats it: what is known already counts once."""
        given = list(messages)
        known = [_gist(text) for text in self._said]
        start = 0
        while start < len(given) and start < len(known) and _gist(canonical(given[start])) == known[start]:
            start += 1
        waiting = {use.id for use, _turn in self._waiting if use.id}
        if start < len(known) and not any(_id_of(message) in waiting for message in given[start:]):
            self._said = []  # another conversation, or one that was cut short to go on
            start = 0
        for message in given[start:]:
            if message.get("role") in ("tool", "function") and self._waiting:
                self.hear(message)
            elif message.get("role") == "user":
                self.says("user", message.get("content"))
            else:
                self._hear(message)

    def inside(self, turn: Turn, *, system: Json = None, tools: Json = None) -> Talk:
        """The conversation of an agent that a call started: its events are inside of that call."""
        inner = Talk.__new__(Talk)
        inner._turns, inner._parent, inner._repeated = self._turns, turn, self._repeated
        inner._start(system, tools)
        return inner

    def turn_of(self, call_id: str) -> Turn | None:
        """The call with that id that has not returned yet."""
        return next((turn for use, turn in self._waiting if use.id == call_id), None)

    def fails(self, error: ErrorInfo, *, at: float = 0.0, step: str | None = None) -> None:
        """Something went wrong outside of a call."""
        self._turn(ErrorEvent, error=error, at=at, step=step)

    def notes(self, name: str, content: Json, *, at: float = 0.0, step: str | None = None) -> None:
        """Anything else worth keeping."""
        self._turn(Note, name=name, content_json=Raw(encode(content)), at=at, step=step)

    @property
    def output(self) -> Json:
        """What the agent answered last, where nothing came after it; UNSET where there is none."""
        last = self._last
        return last.content if last is not None and last.content and not last.tool_calls else UNSET

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
        """The run. What is not given is what the conversation says: what the user asked first, the last answer."""
        events, lacks = self._events()
        output = self.output if output is UNSET else output
        if error is None and status is None and output is UNSET:
            error = UNFINISHED
        status = status or (RunStatus.SUCCESS if error is None else RunStatus.ERROR)
        given = self._input if input is UNSET else input
        times = [event.at for event in events if event.at]
        ends = [event.at + event.duration_s for event in events if event.at]
        run = TraceRun(
            id=id,
            name=name,
            agent=agent,
            agent_version=agent_version,
            input_json=NULL if given is UNSET else Raw(encode(given)),
            output_json=ABSENT if output is UNSET else Raw(encode(output)),
            status=status,
            error=error,
            started_at=started_at or min(times, default=0.0),
            ended_at=ended_at if ended_at is not None else max(ends, default=None),
            tags=tags,
            metadata_json=Raw(encode({key: value for key, value in (metadata or {}).items() if value not in _NOTHING})),
            origin=Origin(kind="imported", format=format),
            event_count=len(events),
            events=events,
        )
        return with_lacks(run, lacks, advice)

    def _events(self) -> tuple[tuple[AnyEvent, ...], dict[int, set[Lack]]]:
        for seq, turn in enumerate(self._turns):
            turn.seq = seq
        parents = [None if turn.parent is None else turn.parent.seq for turn in self._turns]
        events = tuple(
            turn.kind(seq=turn.seq, parent=parent, **turn.about)
            for turn, parent in zip(self._turns, parents, strict=True)
        )
        return events, {turn.seq: turn.lacks for turn in self._turns if turn.lacks}

    def _turn(self, kind: type[Any], **about: Any) -> Turn:
        turn = Turn(kind, self._parent, about)
        self._turns.append(turn)
        return turn

    def _called(self, call_id: str, name: str) -> tuple[ToolUse, Turn]:
        """The call that a result is of; one that nobody asked for lacks its arguments."""
        waiting = self._waiting
        for fits in (lambda use: call_id and use.id == call_id, lambda use: name and use.name == name and not call_id):
            index = next((i for i, (use, _turn) in enumerate(waiting) if fits(use)), None)
            if index is not None:
                return waiting.pop(index)
        if not call_id and not name and waiting:
            return waiting.pop(0)
        turn = self._turn(ToolCall, name=name or "unknown", arguments_json=Raw(b"{}"), at=0.0)
        turn.lacks.add(Lack.ARGUMENTS)
        return ToolUse(id=call_id, name=name or "unknown"), turn

    def _hear(self, message: dict[str, Json]) -> None:
        self._said.append(canonical(message))

    def _asked(self, parameters: Mapping[str, Json]) -> Raw:
        """The request of the next answer: keys in order, so that equal requests are equal bytes."""
        said = self._said
        self._repeated[0] += sum(map(len, said))
        if self._repeated[0] > _MAX_HISTORY_BYTES:
            said = said[self._new :]
        self._new = len(self._said)
        parts = [b'"messages":[' + b",".join(said) + b"]"]
        for name, value in (("parameters", dict(parameters)), ("system", self._system), ("tools", self._tools)):
            if value:
                parts.append(f'"{name}":'.encode() + canonical(value))
        return Raw(b"{" + b",".join(parts) + b"}")


_NOTHING: tuple[Json, ...] = (None, "", [], {})


def content_id(format: str, text: bytes) -> str:
    """An id for a run that its file gives none: the same for the same content."""
    return f"{format}-{hashlib.blake2b(text, digest_size=8).hexdigest()}"


def _gist(text: bytes) -> bytes:
    """A message without what differs when it is repeated: ids, names of results, marks of errors."""
    message = msgspec.json.decode(text)
    calls = [[call.get("name"), call.get("arguments")] for call in message.get("tool_calls") or ()]
    return canonical([message.get("role"), message.get("content"), calls])


def _id_of(message: Json) -> str:
    return as_text(message.get("tool_call_id")) if isinstance(message, dict) else ""
