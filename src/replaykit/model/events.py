"""Events: the things that happen in a run, as frozen values.

Payloads are kept as JSON text (`…_json`), so an event cannot change after it was made and is never encoded
twice; the property of the same name without the suffix gives the Python value.
"""

# Annotations are values here: msgspec reads them, and would compile each as a text, once for every class that has it.

from typing import TypeAlias, Union

import msgspec
from msgspec import Struct, field

from replaykit.model.values import ABSENT, NULL, Json, Raw, decode

Cut: TypeAlias = tuple[int, int, str]
"""(start, tail, text): the text between byte `start` and the last `tail` bytes was replaced by this one."""


# Parts of events are `gc=False`: they cannot be in a cycle. With one that could, the garbage collector would go through
# each event of a long tape, again and again.


class ErrorInfo(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An exception as data: enough to show it, and to raise it again as its own class."""

    type: str
    """The name of the exception's class."""
    message: str = ""
    """Its text."""
    module: str = ""
    """The module of the class."""
    args_json: Raw = field(default=ABSENT, name="args")
    """The arguments that the exception was made with."""
    attributes_json: Raw = field(default=ABSENT, name="attributes")
    """Further attributes of the exception."""
    bases: tuple[str, ...] = ()
    """The classes that it inherits from, as `module.name`."""
    traceback: str | None = None
    """The traceback as Python prints it."""
    raised: bool = False
    """Only beside a result, in an imported call: it was raised, and the result is what the model was told of it."""

    def __str__(self) -> str:
        if self.message:
            return f"{self.type}: {self.message}"
        return self.type


class Usage(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Tokens and money one model call took, where the wire said so."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    """The price in US dollars."""


class WireInfo(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A call's HTTP exchange without the chunks of its answer. It holds no credentials."""

    method: str
    """The HTTP method."""
    url: str
    """The URL without credentials."""
    status: int = 0
    """0 when no response came."""
    reason: str = ""
    """The reason phrase, such as `OK`."""
    version: str = "HTTP/1.1"
    """The HTTP version of the response."""
    headers: tuple[tuple[str, str], ...] = ()
    """Of the response, as they came."""
    pauses_ms: tuple[float, ...] = ()
    """The wait before each chunk and, if the response did not end, the wait for more."""


class CallSpan(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The begin and end of a call: positions in one count of all begins and ends, and seconds since the
    run began."""

    begin: int
    """The position of the begin."""
    begin_s: float
    """Seconds from the start of the run to the begin."""
    end: int | None = None
    """None for a call that was still running when its run ended."""
    end_s: float | None = None
    """Seconds from the start of the run to the end."""
    loop: tuple[int, int] | None = None
    """Of an awaited call that gave way to others: how often its event loop had waited when it ended, and the loop's
    iterations since."""


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """One thing that happened: where in the run, when, and (in the subclasses) what."""

    seq: int
    """The number of the event in its run."""
    at: float = 0.0
    """Seconds since the epoch, when it began."""
    duration_s: float = 0.0
    step: str | None = None
    """The step that it belongs to, if the agent marks steps."""
    parent: int | None = None
    """Sequence number of the call this one was made inside of."""
    path: str = ""
    """The causal path: which task, thread job and enclosing call it came from."""


class Call(Event, frozen=True, kw_only=True, omit_defaults=True):
    """An event with a request and an outcome: what is recorded, matched and served."""

    name: str
    """The tool, the model, or the method and address of the request."""
    arguments_json: Raw = field(default=NULL, name="arguments")
    """Canonical JSON: equal arguments are equal bytes."""
    result_json: Raw = field(default=ABSENT, name="result")
    """The answer; missing if there was none."""
    error: ErrorInfo | None = None
    """The raised error; in an imported run, beside a result: the error that it reports (see `model.tool_errors`)."""
    items_json: tuple[Raw, ...] | None = field(default=None, name="items")
    """The items of a streamed answer."""
    complete: bool = True
    """False when the stream was left before its end."""
    sent_json: Raw = field(default=ABSENT, name="sent")
    """Values that the caller of a generator sent or threw into it: a list of [number of items before, {send: …}]."""
    pauses_ms: tuple[float, ...] = ()
    """The waits before the items of a stream and before its end; absent if there were none."""
    mutated: tuple[str, ...] = ()
    """The arguments that the tool changed in place, which a replay does not repeat."""
    wire: WireInfo | None = None
    """Of a call that went over HTTP: the items are the chunks of the response as they came."""
    asked_json: Raw = field(default=ABSENT, name="asked")
    """The agent's own arguments, if a fork called with others."""
    faults: tuple[str, ...] = ()
    """The names of faults that were injected: the answer is theirs, or was changed by them."""
    span: CallSpan | None = None
    """Absent in imported runs, and in those that were recorded before there were any."""
    after: int | None = None
    """Of a tool's call in a case: the one that ended last before it while it was under way; in a log, times tell it."""
    source: int | None = None
    """In a run that becomes a take: the number of the taped call whose answer it was given; None where it was live."""
    like: Cut | None = None
    """At rest only: the arguments are those of the call before, of this kind and name, but for this cut."""

    @property
    def kind(self) -> str:
        """The sort of call: `tool_call`, `llm_call` or `exchange`."""
        return str(self.__struct_config__.tag)

    @property
    def arguments(self) -> Json:
        return decode(self.arguments_json)

    @property
    def request_json(self) -> Raw:
        """The agent's own arguments as canonical JSON, which later calls are matched with."""
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
        """True when the log holds an outcome for it."""
        return bool(self.result_json) or self.error is not None or self.items_json is not None


class ToolCall(Call, frozen=True, kw_only=True, omit_defaults=True, tag="tool_call"):
    """The agent called a tool."""


class LlmCall(Call, frozen=True, kw_only=True, omit_defaults=True, tag="llm_call"):
    """The agent called a model: `name` is the model, the arguments hold messages, tools and parameters."""

    finish_reason: str | None = None
    """Why the model stopped, in the words of its API."""
    usage: Usage | None = None


class Exchange(Call, frozen=True, kw_only=True, omit_defaults=True, tag="exchange"):
    """Raw traffic under a call: `items` are the chunks as they came."""


class Message(Event, frozen=True, kw_only=True, omit_defaults=True, tag="message"):
    """Something said: by the user, the system, the agent."""

    role: str
    """Who said it: `user`, `system`, `assistant`, or another role of the format."""
    content_json: Raw = field(default=NULL, name="content")
    """What was said."""

    @property
    def content(self) -> Json:
        return decode(self.content_json)


class Change(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The changes of a state's top-level keys between two steps (`model.changes` makes and folds them)."""

    put: dict[str, Raw] = field(default_factory=dict, name="set")
    """Keys that were set, with their new values."""
    add: dict[str, Raw] = field(default_factory=dict)
    """Items that were appended to a list."""
    cut: dict[str, Cut] = field(default_factory=dict)
    """Keys whose text was replaced in the middle."""
    drop: tuple[str, ...] = field(default=(), name="del")
    """Keys that were removed."""


class State(Event, frozen=True, kw_only=True, omit_defaults=True, tag="state"):
    """The agent's state after a step: a checkpoint, whole or as the change from the one kept before.

    With neither the log says that there was a state, and that it was not kept.
    """

    state_json: Raw = field(default=ABSENT, name="state")
    """The whole state; missing where `change` says what is different, or the state was not kept."""
    change: Change | None = None
    about_json: Raw = field(default=ABSENT, name="about")
    """The metadata of the framework that keeps this state, such as its own id and versions."""
    jobs: dict[str, int] = field(default_factory=dict)
    """The number of tasks, pool jobs and threads of each name that the agent had started by then."""

    @property
    def framework_metadata(self) -> Json:
        if self.about_json:
            return decode(self.about_json)
        return None

    @property
    def is_kept(self) -> bool:
        """True when the log holds the state itself."""
        return self.change is not None or bool(self.state_json)


class Decision(Event, frozen=True, kw_only=True, omit_defaults=True, tag="decision"):
    """The agent's choice of what to do next."""

    content_json: Raw = field(default=NULL, name="content")
    """What the agent decided."""

    @property
    def content(self) -> Json:
        return decode(self.content_json)


class ErrorEvent(Event, frozen=True, kw_only=True, omit_defaults=True, tag="error"):
    """Something went wrong outside of a call."""

    error: ErrorInfo


class Note(Event, frozen=True, kw_only=True, omit_defaults=True, tag="note"):
    """Anything else worth keeping, such as a foreign event of a kind that has no word here."""

    name: str = "note"
    """The sort of note."""
    content_json: Raw = field(default=NULL, name="content")
    """What it says."""

    @property
    def content(self) -> Json:
        return decode(self.content_json)


class Shared(Event, frozen=True, kw_only=True, omit_defaults=True, tag="shared"):
    """At rest only: an event that a fork has in common with its parent, by reference; its place is the fork's."""

    run: str
    of: int
    """Its sequence number there."""


AnyEvent = Union[ToolCall, LlmCall, Exchange, Message, State, Decision, ErrorEvent, Note]  # noqa: UP007 (msgspec reads it)
"""The events of a run."""
StoredEvent = Union[ToolCall, LlmCall, Exchange, Message, State, Decision, ErrorEvent, Note, Shared]  # noqa: UP007
"""The events of a stored run."""

encode_event = msgspec.json.Encoder().encode
"""JSON text of one event."""
decode_event = msgspec.json.Decoder(StoredEvent).decode
"""One event from its JSON text; raises `msgspec.ValidationError` or `msgspec.DecodeError`."""
decode_events = msgspec.json.Decoder(list[StoredEvent]).decode
"""Events from the JSON text of a list."""
