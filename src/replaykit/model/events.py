"""Events: the things that happen in a run, as frozen values.

Payloads are stored as JSON text (`…_json`), so an event cannot change once created and is never encoded twice; the
property of the same name without the suffix returns the Python value.
"""

# msgspec evaluates annotations. Written as text (`from __future__`), each would be compiled anew for every class.

from typing import TypeAlias, Union

import msgspec
from msgspec import Struct, field

from replaykit.model.values import ABSENT, NULL, Json, Raw, decode

Cut: TypeAlias = tuple[int, int, str]
"""(start, tail, text): the bytes from `start` to the last `tail` bytes were replaced by this text."""


# `gc=False`: parts of events cannot be part of a reference cycle. If they could, the garbage collector would visit
# every event of a long tape again and again.


class ErrorInfo(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An exception as data: enough to show it, and to raise it again as an instance of its own class."""

    type: str
    """The name of the exception's class."""
    message: str = ""
    """The exception's message."""
    module: str = ""
    """The module of the class."""
    args_json: Raw = field(default=ABSENT, name="args")
    """The arguments that the exception was constructed with."""
    attributes_json: Raw = field(default=ABSENT, name="attributes")
    """Further attributes of the exception."""
    bases: tuple[str, ...] = ()
    """The base classes, as `module.name`."""
    traceback: str | None = None
    """The traceback as Python prints it."""
    raised: bool = False
    """Only beside the result of an imported call: the tool raised this error, and the result is what the model was
    shown."""

    def __str__(self) -> str:
        if self.message:
            return f"{self.type}: {self.message}"
        return self.type


class Usage(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Tokens and cost of one model call, if the API reported them."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    """The cost in US dollars."""


class WireInfo(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A call's HTTP exchange without the chunks of the response. It holds no credentials."""

    method: str
    """The HTTP method."""
    url: str
    """The URL without credentials."""
    status: int = 0
    """The HTTP status; 0 if no response came."""
    reason: str = ""
    """The reason phrase, such as `OK`."""
    version: str = "HTTP/1.1"
    """The HTTP version of the response."""
    headers: tuple[tuple[str, str], ...] = ()
    """The response headers, in the order they came."""
    pauses_ms: tuple[float, ...] = ()
    """The wait before each chunk and, if the response did not end, the wait for more."""


class CallSpan(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The beginning and end of a call: positions in one sequence of all beginnings and ends, and seconds since the run
    began."""

    begin: int
    """The position of the beginning."""
    begin_s: float
    """Seconds from the start of the run to the beginning."""
    end: int | None = None
    """The position of the end; None if the call was still running when its run ended."""
    end_s: float | None = None
    """Seconds from the start of the run to the end."""
    loop: tuple[int, int] | None = None
    """For an awaited call that yielded to others: how often its event loop had waited when the call ended, and the
    number of loop iterations since."""


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """Something that happened in a run: where, when and, in the subclasses, what."""

    seq: int
    """The sequence number of the event in its run."""
    at: float = 0.0
    """When it began, in seconds since the epoch."""
    duration_s: float = 0.0
    step: str | None = None
    """The step that it belongs to, if the agent marks steps."""
    parent: int | None = None
    """The sequence number of the enclosing call."""
    path: str = ""
    """The causal path: the task, thread job and enclosing call that it came from."""


class Call(Event, frozen=True, kw_only=True, omit_defaults=True):
    """An event with a request and an outcome: recorded, matched and served in a replay."""

    name: str
    """The tool, the model, or the method and address of the request."""
    arguments_json: Raw = field(default=NULL, name="arguments")
    """The arguments as canonical JSON: equal arguments are equal bytes."""
    result_json: Raw = field(default=ABSENT, name="result")
    """The result; absent if there was none."""
    error: ErrorInfo | None = None
    """The raised error. In an imported run, beside a result: the error that the result reports (see
    `model.tool_errors`)."""
    items_json: tuple[Raw, ...] | None = field(default=None, name="items")
    """The items of a streamed result."""
    complete: bool = True
    """False if the stream was abandoned before its end."""
    sent_json: Raw = field(default=ABSENT, name="sent")
    """Values that the caller of a generator sent or threw into it: a list of [number of items before, {send: …}]."""
    pauses_ms: tuple[float, ...] = ()
    """The waits before the items of a stream and before its end; empty if there were none."""
    mutated: tuple[str, ...] = ()
    """Arguments that the tool changed in place, which a replay does not repeat."""
    wire: WireInfo | None = None
    """For a call over HTTP: the exchange. The call's items are then the chunks of the response."""
    asked_json: Raw = field(default=ABSENT, name="asked")
    """The agent's own arguments, if a fork called the tool with others."""
    faults: tuple[str, ...] = ()
    """The names of injected faults that produced or changed the result."""
    span: CallSpan | None = None
    """The timing of the call; absent in imported runs and in old recordings."""
    after: int | None = None
    """For a tool call in a case: the call whose end most closely preceded this one's while this one was running. In a
    log, the times say so."""
    source: int | None = None
    """In a run that becomes a take: the sequence number of the taped call that it was served from; None if it was
    live."""
    like: Cut | None = None
    """In stored runs only: the arguments as a cut of those of the last call of this kind and name."""

    @property
    def kind(self) -> str:
        """The kind of call: `tool_call`, `llm_call` or `exchange`."""
        return str(self.__struct_config__.tag)

    @property
    def arguments(self) -> Json:
        return decode(self.arguments_json)

    @property
    def request_json(self) -> Raw:
        """The agent's own arguments as canonical JSON; later calls are matched against these."""
        return self.asked_json or self.arguments_json

    @property
    def result(self) -> Json:
        if self.result_json:
            return decode(self.result_json)
        return None

    @property
    def items(self) -> list[Json] | None:
        if self.items_json is None:
            return None
        return list(map(decode, self.items_json))

    @property
    def answered(self) -> bool:
        """True if the log has an outcome of this call."""
        return bool(self.result_json) or self.error is not None or self.items_json is not None


class ToolCall(Call, frozen=True, kw_only=True, omit_defaults=True, tag="tool_call"):
    """The agent called a tool."""


class LlmCall(Call, frozen=True, kw_only=True, omit_defaults=True, tag="llm_call"):
    """The agent called a model: `name` is the model; the arguments hold messages, tools and parameters."""

    finish_reason: str | None = None
    """Why the model stopped, in its API's own words."""
    usage: Usage | None = None


class Exchange(Call, frozen=True, kw_only=True, omit_defaults=True, tag="exchange"):
    """An HTTP exchange that is not a model call: `items` are the chunks of the response."""


class Message(Event, frozen=True, kw_only=True, omit_defaults=True, tag="message"):
    """A message from the user, the system or the agent."""

    role: str
    """The author: `user`, `system`, `assistant`, or another role of the format."""
    content_json: Raw = field(default=NULL, name="content")
    """The content of the message."""

    @property
    def content(self) -> Json:
        return decode(self.content_json)


class Change(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The changes of a state's top-level keys between two steps; `model.changes` computes and applies them."""

    put: dict[str, Raw] = field(default_factory=dict, name="set")
    """Keys that were set, with their new values."""
    add: dict[str, Raw] = field(default_factory=dict)
    """Items that were appended to lists."""
    cut: dict[str, Cut] = field(default_factory=dict)
    """Keys whose text was replaced in the middle."""
    drop: tuple[str, ...] = field(default=(), name="del")
    """Keys that were removed."""


class State(Event, frozen=True, kw_only=True, omit_defaults=True, tag="state"):
    """The agent's state after a step: a checkpoint, whole or as the change from the last stored one.

    With neither, the log says that there was a state and that it was not stored.
    """

    state_json: Raw = field(default=ABSENT, name="state")
    """The whole state; absent if `change` describes it, or if it was not stored."""
    change: Change | None = None
    about_json: Raw = field(default=ABSENT, name="about")
    """Metadata of the framework that this state belongs to, such as its own id and versions."""
    jobs: dict[str, int] = field(default_factory=dict)
    """The number of tasks, pool jobs and threads of each name that the agent had started so far."""

    @property
    def framework_metadata(self) -> Json:
        if self.about_json:
            return decode(self.about_json)
        return None

    @property
    def is_kept(self) -> bool:
        """True if the log has the state itself."""
        return self.change is not None or bool(self.state_json)


class Decision(Event, frozen=True, kw_only=True, omit_defaults=True, tag="decision"):
    """The agent's choice of what to do next."""

    content_json: Raw = field(default=NULL, name="content")
    """The content of the decision."""

    @property
    def content(self) -> Json:
        return decode(self.content_json)


class ErrorEvent(Event, frozen=True, kw_only=True, omit_defaults=True, tag="error"):
    """An error outside of any call."""

    error: ErrorInfo


class Note(Event, frozen=True, kw_only=True, omit_defaults=True, tag="note"):
    """Any other information worth keeping, such as a foreign event of an unknown kind."""

    name: str = "note"
    """The kind of note."""
    content_json: Raw = field(default=NULL, name="content")
    """The content of the note."""

    @property
    def content(self) -> Json:
        return decode(self.content_json)


class Shared(Event, frozen=True, kw_only=True, omit_defaults=True, tag="shared"):
    """In stored runs only: a reference to an event that a fork shares with its parent. The position is the fork's."""

    run: str
    of: int
    """The sequence number of the event in the parent."""


AnyEvent = Union[ToolCall, LlmCall, Exchange, Message, State, Decision, ErrorEvent, Note]  # noqa: UP007 (msgspec reads it)
"""The events of a run."""
StoredEvent = Union[ToolCall, LlmCall, Exchange, Message, State, Decision, ErrorEvent, Note, Shared]  # noqa: UP007
"""The events of a stored run."""

encode_event = msgspec.json.Encoder().encode
"""Encode one event as JSON text."""
decode_event = msgspec.json.Decoder(StoredEvent).decode
"""Decode one event from JSON text; raises `msgspec.ValidationError` or `msgspec.DecodeError`."""
decode_events = msgspec.json.Decoder(list[StoredEvent]).decode
"""Decode events from the JSON text of a list."""
