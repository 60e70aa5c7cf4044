"""Join the events of one AG-UI run into entries: messages, calls, results and states, in the order they began.

Texts and arguments arrive in chunks that are interleaved and identified by id. A snapshot of all messages repeats the
known ones and adds those that were never streamed, such as the user's question.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct, field

from replaykit.formats.core.fields import Fields
from replaykit.model.values import Json, JsonObject
from replaykit.wire.json_fields import (
    as_object,
    as_objects,
    as_text,
    load_arguments,
    object_in,
    objects_in,
    text_in,
    without,
)

_DROPPED = ("type", "timestamp", "rawEvent", "raw_event")


class AgUiEntryKind(Enum):
    SPOKEN = "spoken"
    SAYS = "says"
    RESULT = "result"
    SNAPSHOT = "snapshot"
    DELTA = "delta"
    AGENT = "agent"
    ERROR = "error"
    NOTE = "note"


class AgUiCall(Struct):
    """A requested call."""

    id: str
    name: str
    pieces: list[str] = field(default_factory=list)

    @property
    def arguments(self) -> Json:
        return load_arguments("".join(self.pieces))


class AgUiEntry(Struct):
    """One thing that happened in a run."""

    kind: AgUiEntryKind
    agent: str = ""
    """The id of the sub-agent's run, if it belongs to one."""
    at: float = 0.0
    until: float = 0.0
    step: str | None = None
    id: str = ""
    role: str = "assistant"
    value: Json = None
    error: Json = None
    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: dict[str, AgUiCall] = field(default_factory=dict)


class AgUiEntries:
    """The entries of a run so far."""

    def __init__(self) -> None:
        self.entries: list[AgUiEntry] = []
        self.history: list[JsonObject] = []
        """Messages from before the run."""
        self.passed: dict[str, int] = {}
        """The number of skipped events by kind."""
        self._known: dict[str, AgUiEntry] = {}
        self._calls: dict[str, AgUiCall] = {}
        self._requesting: dict[str, AgUiEntry] = {}  # by call: the message that requests it
        self._before: set[str] = set()
        self._steps: dict[str, str] = {}
        # By agent: the message that calls without a parent message belong to.
        self._open: dict[str, AgUiEntry] = {}
        self._thoughts: dict[str, list[str]] = {}
        self._last: dict[str, str] = {}  # by kind of chunk: the last id, which the next chunk may omit

    def add_history(self, messages: list[JsonObject]) -> None:
        """Add messages from before the run."""
        self.history += messages
        self._before.update(text_in(message, "id") for message in messages)

    def add(self, event: Fields) -> None:
        kind = event.required_text("type")
        if kind.startswith("TEXT_MESSAGE_"):
            self._add_text(event)
        elif kind.startswith("TOOL_CALL_") and kind != "TOOL_CALL_RESULT":
            self._add_call(event)
        elif kind.startswith(("REASONING_", "THINKING_")):
            if kind != "REASONING_ENCRYPTED_VALUE":
                self._thoughts.setdefault(_agent(event), []).append(event.text("delta") or "")
        elif kind == "TOOL_CALL_RESULT":
            agent = _agent(event)
            self._open.pop(agent, None)
            call_id = event.required_text("toolCallId")
            entry = self._entry(event, AgUiEntryKind.RESULT, id=call_id, value=event.take("content"))
            self._known |= {key: entry for key in (event.text("messageId"), _result_key(call_id)) if key}
        elif kind == "MESSAGES_SNAPSHOT":
            self._merge(camel_messages(event.items("messages")), _at(event))
        elif kind == "STEP_STARTED":
            self._steps[_agent(event)] = event.required_text("stepName")
        elif kind == "STEP_FINISHED":
            self._steps.pop(_agent(event), None)
        elif kind in _OTHERS:
            event.items("delta")
            self._entry(event, _OTHERS[kind], value=event.value)
        elif kind == "RAW" or kind not in _NOTES:
            self.passed[kind] = self.passed.get(kind, 0) + 1
        else:
            details = without(event.value, *_DROPPED)
            self._entry(event, AgUiEntryKind.NOTE, id=event.text("name") or kind.lower(), value=details)

    def close(self) -> None:
        """End the run; keep reasoning without an answer as a note."""
        for agent, thoughts in self._thoughts.items():
            if text := "".join(thoughts):
                self.entries.append(AgUiEntry(AgUiEntryKind.NOTE, agent=agent, id="reasoning", value=text))
        self._thoughts = {}

    def _entry(self, event: Fields, kind: AgUiEntryKind, *, id: str = "", value: Json = None) -> AgUiEntry:
        agent, at = _agent(event), _at(event)
        entry = AgUiEntry(kind, agent=agent, at=at, until=at, step=self._steps.get(agent), id=id, value=value)
        self.entries.append(entry)
        return entry

    def _message(self, event: Fields, message_id: str, role: str = "assistant") -> AgUiEntry:
        """Return the message with that id, or start it."""
        entry = self._known.get(message_id)
        if entry is None or entry.kind not in (AgUiEntryKind.SPOKEN, AgUiEntryKind.SAYS):
            entry = self._entry(
                event, AgUiEntryKind.SPOKEN if role == "assistant" else AgUiEntryKind.SAYS, id=message_id
            )
            entry.role = role
            if message_id:
                self._known[message_id] = entry
        if entry.kind is AgUiEntryKind.SPOKEN:
            entry.thoughts += self._thoughts.pop(entry.agent, [])
            self._open[entry.agent] = entry
        entry.until = max(entry.until, _at(event))
        return entry

    def _add_text(self, event: Fields) -> None:
        message_id = self._id(event, "messageId")
        entry = self._message(event, message_id, event.text("role") or "assistant")
        entry.texts.append(event.text("delta") or "")

    def _add_call(self, event: Fields) -> None:
        call_id = self._id(event, "toolCallId")
        call = self._calls.get(call_id)
        if call is None:
            call = self._calls[call_id] = AgUiCall(call_id, "")
            parent = event.text("parentMessageId") or ""
            entry = self._open.get(_agent(event))
            if parent or entry is None:
                entry = self._message(event, parent)
            entry.calls[call_id] = call
            self._requesting[call_id] = entry
        call.name = call.name or event.text("toolCallName") or ""
        call.pieces.append(event.text("delta") or "")
        if call_id in self._requesting:
            self._requesting[call_id].until = max(self._requesting[call_id].until, _at(event))

    def _id(self, event: Fields, name: str) -> str:
        """Return the event's id; a chunk may omit it if the one before had the same."""
        found = event.text(name) or self._last.get(name, "")
        if not found:
            raise event.error(f"{name!r} is missing")
        self._last[name] = found
        return found

    def _merge(self, messages: list[JsonObject], at: float) -> None:
        """Merge a snapshot of all messages: insert each new message after its predecessor there."""
        last_question = max((n for n, message in enumerate(messages) if message.get("role") == "user"), default=0)
        fresh: dict[int, list[AgUiEntry]] = {}
        after = 0  # 0 stands for the beginning
        for number, message in enumerate(messages):
            known = self._known_as(message)
            if known is not None:
                known.error = known.error or message.get("error")
                after = id(known)
            elif text_in(message, "id") in self._before:
                continue
            elif number < last_question and not after:
                self.add_history([message])
            else:
                fresh.setdefault(after, []).append(self._of_snapshot(message, at))
        self.entries = [
            *fresh.get(0, ()),
            *(entry for known in self.entries for entry in (known, *fresh.get(id(known), ()))),
        ]

    def _known_as(self, message: JsonObject) -> AgUiEntry | None:
        call_id = text_in(message, "toolCallId")
        found = self._known.get(text_in(message, "id"))
        if found is None and call_id:
            return self._known.get(_result_key(call_id))
        return found

    def _of_snapshot(self, message: JsonObject, at: float) -> AgUiEntry:
        role, message_id, content = text_in(message, "role"), text_in(message, "id"), message.get("content")
        agent = text_in(message, "subagentRunId")
        entry = AgUiEntry(AgUiEntryKind.SAYS, agent=agent, at=at, until=at, id=message_id, role=role, value=content)
        if role == "assistant":
            entry.kind = AgUiEntryKind.SPOKEN
            entry.texts.append(as_text(content))
            for call in map(_call, objects_in(message, "toolCalls")):
                entry.calls[call.id] = self._calls[call.id] = call
        elif role == "tool":
            call_id = text_in(message, "toolCallId")
            entry.kind, entry.id, entry.error = AgUiEntryKind.RESULT, call_id, message.get("error")
            self._known[_result_key(call_id)] = entry
        elif role not in ("user", "system", "developer"):
            entry.kind, entry.id = AgUiEntryKind.NOTE, role or "message"
        if message_id:
            self._known[message_id] = entry
        return entry


_OTHERS = {
    "STATE_SNAPSHOT": AgUiEntryKind.SNAPSHOT,
    "STATE_DELTA": AgUiEntryKind.DELTA,
    "SUBAGENT_STARTED": AgUiEntryKind.AGENT,
    "SUBAGENT_ERROR": AgUiEntryKind.ERROR,
}
_NOTES = ("CUSTOM", "ACTIVITY_SNAPSHOT", "ACTIVITY_DELTA", "SUBAGENT_FINISHED")


def camel(value: Json) -> JsonObject:
    """Return the members of an event with the protocol's names: Python's SDK may write `tool_call_id`."""
    found: JsonObject = {}
    for name, item in as_object(value).items():
        first, *rest = name.split("_")
        found[first + "".join(map(str.capitalize, rest))] = item
    return found


def camel_messages(value: Json) -> list[JsonObject]:
    """Return the messages in a list, with the protocol's names for their members."""
    return list(map(camel, as_objects(value)))


def _call(call: JsonObject) -> AgUiCall:
    function = object_in(call, "function")
    return AgUiCall(text_in(call, "id"), text_in(function, "name"), [text_in(function, "arguments")])


def _result_key(call_id: str) -> str:
    return f"result of {call_id}"


def _agent(event: Fields) -> str:
    return event.text("subagentRunId") or ""


def _at(event: Fields) -> float:
    return event.time("timestamp") or 0.0
