"""Dialects: the functions that each API's module provides, and the values that they exchange."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from replaykit.errors import UsageError
from replaykit.model.events import Usage
from replaykit.model.values import Json, JsonObject
from replaykit.wire.frames import Frame
from replaykit.wire.json_fields import as_text, load_object, text_at, without
from replaykit.wire.model_calls import ModelAnswer, ToolUse


class WireRequest(Struct, frozen=True, kw_only=True):
    """A parsed request."""

    body: JsonObject
    model: str
    system: Json
    messages: Json
    tools: Json
    parameters: JsonObject
    streamed: bool
    problem: str | None = None


class WireResponse(Struct, frozen=True, kw_only=True):
    """A parsed response body."""

    answers: tuple[ModelAnswer, ...] = ()
    finish_reason: str | None = None
    usage: Usage | None = None
    id: str = ""
    model: str = ""
    complete: bool = True


class FoldedStream(Struct, frozen=True, kw_only=True):
    """A stream, folded into the equivalent body."""

    body: JsonObject
    ended: bool
    """False if the end that the API promises never came."""
    error: Json = None
    """The error event that ended the stream."""
    problem: str | None = None


class Draft(Struct, frozen=True, kw_only=True):
    """An answer to write, and the request that it answers."""

    answer: ModelAnswer
    request: WireRequest
    seed: bytes
    """The seed of minted ids: the same seed gives the same ids."""
    finish_reason: str | None = None
    usage: Usage = Usage()

    def mint(self, prefix: str, index: int = 0) -> str:
        """Return an id in the provider's style."""
        return minted_id(self.seed, prefix, index)

    @property
    def tokens(self) -> tuple[int, int]:
        """The input and output tokens; 0 if unknown, since clients rely on a number."""
        return self.usage.input_tokens or 0, self.usage.output_tokens or 0


def minted_id(seed: bytes, prefix: str, index: int = 0) -> str:
    """Return an id in a provider's style, the same for the same seed."""
    # Keyed by prefix and index, so that several ids of one answer differ.
    digest = hashlib.blake2b(seed, digest_size=12, key=f"{prefix} {index}".encode())
    return prefix + digest.hexdigest()


class MintedIds(Struct, frozen=True, kw_only=True):
    """The members of a request with ids minted by the provider, which matching ignores."""

    conversation: tuple[str, ...] = ()
    """The members of the request that hold the conversation."""
    ids: tuple[str, ...] = ()
    """Members in the conversation with an id, a signature or encrypted data."""
    into: tuple[str, ...] = ()
    """Members with further parts of the conversation. No others are searched: a tool's arguments may well have an `id`
    of the user's own."""
    answers: str = ""
    """The member of a tool result with the id of its call."""
    sealed: tuple[str, str] = ("", "")
    """An object type, and its encrypted member: a name too common for `ids`."""
    state: tuple[tuple[str, ...], ...] = ()
    """Paths to ids of stored objects outside the conversation."""


class ApiDialect(Struct, frozen=True, kw_only=True):
    """One API: how to read its requests, responses and streams, and how to write them."""

    name: str
    read_request: Callable[[JsonObject], WireRequest]
    read_response: Callable[[JsonObject], WireResponse]
    fold: Callable[[Iterable[Frame]], FoldedStream]
    fill: Callable[[JsonObject, Draft], JsonObject]
    """Put the draft's answer into the recorded body, or into a new one if that is empty."""
    unfold: Callable[[JsonObject, WireRequest], list[Frame]]
    """Return the events that fold into the body."""
    carries: frozenset[str] = frozenset({"content", "thinking", "tool_calls", "refusal", "parts"})
    """The members of an answer that the API can carry."""
    holds: Callable[[JsonObject], bool] = lambda part: True
    """Return whether a part of an answer, other than texts and calls, belongs to this API."""
    minted: MintedIds = MintedIds()

    def check(self, answer: ModelAnswer) -> None:
        """Raise `UsageError` if the API cannot carry a member of the answer."""
        for name in ("content", "thinking", "tool_calls", "refusal", "parts"):
            if getattr(answer, name) and name not in self.carries:
                raise UsageError(f"an answer of {self.name} cannot carry `{name}`")


def split_request(
    body: JsonObject,
    conversation: str,
    *,
    system: str | None = None,
    tools: str = "tools",
    streamed: bool = False,
) -> WireRequest:
    """Parse a request by its API's member names; `streamed` is the API's default."""
    stream = body.get("stream")
    return WireRequest(
        body=body,
        model=text_at(body, "model"),
        system=body.get(system) if system else None,
        messages=body.get(conversation),
        tools=body.get(tools),
        parameters=without(body, "model", "stream", conversation, system or conversation, tools),
        streamed=stream if type(stream) is bool else streamed,
        problem=None if conversation in body else f"the request has no `{conversation}`",
    )


def call_id(draft: Draft, index: int, recorded: Json, prefix: str) -> str:
    """Return the id of the n-th tool call: its own, else the recorded one, else a minted one."""
    call: ToolUse = draft.answer.tool_calls[index]
    return call.id or as_text(recorded) or draft.mint(prefix, index)


def object_arguments(call: ToolUse) -> JsonObject:
    """Return the arguments of a call; raise `UsageError` if they are not an object."""
    if type(call.arguments) is not dict:
        raise UsageError(f"tool call {call.name!r}: this API takes its arguments as an object")
    return call.arguments


class StreamEvents:
    """Iterates over the objects of a stream; skips anything else, and reports it."""

    def __init__(self, frames: Iterable[Frame], *, done: bytes = b"") -> None:
        self.error: Json = None
        self.done = False
        """True once the terminating frame came."""
        self._frames = frames
        self._done = done
        self._cut = False
        self._problem: str | None = None

    def __iter__(self) -> Iterator[JsonObject]:
        for frame in self._frames:
            if self._done and frame.data.strip() == self._done:
                self.done = True
                continue
            event = load_object(frame.data)
            if event is not None:
                yield event
            elif frame.whole:
                self._problem = self._problem or f"an event that is not a JSON object: {frame.data[:60]!r}"
            else:
                self._cut = True

    def folded(self, body: JsonObject, *, ended: bool) -> FoldedStream:
        """Return the folded stream. An error ends it, too; an incomplete frame never does."""
        over = (ended or self.error is not None) and not self._cut
        return FoldedStream(body=body, ended=over, error=self.error, problem=self._problem)
