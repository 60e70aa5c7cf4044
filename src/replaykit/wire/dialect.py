"""Dialects: what every API's module provides, and the values that pass between them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

from msgspec import Struct

from replaykit.errors import UsageError
from replaykit.model.events import Usage
from replaykit.model.values import Json
from replaykit.wire.call import Answer, ToolUse
from replaykit.wire.fields import as_text, without
from replaykit.wire.frames import Frame


class Asked(Struct, frozen=True, kw_only=True):
    """A request, taken apart."""

    body: dict[str, Json]
    model: str
    system: Json
    messages: Json
    tools: Json
    parameters: dict[str, Json]
    streamed: bool
    problem: str | None = None


class Told(Struct, frozen=True, kw_only=True):
    """What a whole body says."""

    answers: tuple[Answer, ...] = ()
    finish_reason: str | None = None
    usage: Usage | None = None
    id: str = ""
    model: str = ""
    complete: bool = True


class Folded(Struct, frozen=True, kw_only=True):
    """A stream, as the body it would have been."""

    body: dict[str, Json]
    ended: bool
    """False when the end that the API promises never came."""
    error: Json = None
    """The error event the stream broke off with."""
    problem: str | None = None


class Draft(Struct, frozen=True, kw_only=True):
    """An answer to be written, and what it answers."""

    answer: Answer
    asked: Asked
    seed: bytes
    """What ids are minted from: the same one gives the same ids."""
    finish_reason: str | None = None
    usage: Usage = Usage()

    def mint(self, prefix: str, index: int = 0) -> str:
        """An id such as the provider would mint."""
        return minted_id(self.seed, prefix, index)

    @property
    def tokens(self) -> tuple[int, int]:
        """How many tokens came in and went out; 0 where nobody knows, since clients rely on a number."""
        return self.usage.input_tokens or 0, self.usage.output_tokens or 0


def minted_id(seed: bytes, prefix: str, index: int = 0) -> str:
    """Return an id such as a provider would mint, the same for the same seed."""
    digest = hashlib.blake2b(seed, digest_size=12, key=f"{prefix} {index}".encode())
    return prefix + digest.hexdigest()


class Minted(Struct, frozen=True, kw_only=True):
    """Where a request carries what the provider minted, so that matching can look past it."""

    conversation: tuple[str, ...] = ()
    """The members of the request that hold the conversation."""
    ids: tuple[str, ...] = ()
    """Members of anything in the conversation that hold an id, a signature or something encrypted."""
    into: tuple[str, ...] = ()
    """Members that hold further parts of the conversation. No other is looked into: a tool's arguments may well have
    an `id` of the user's own."""
    answers: str = ""
    """The member of a tool's answer that holds the id of its call."""
    sealed: tuple[str, str] = ("", "")
    """A type of object in the conversation, and its member that is encrypted: a name too common for `ids`."""
    state: tuple[tuple[str, ...], ...] = ()
    """Paths to ids of what the provider keeps, outside of the conversation."""


class Dialect(Struct, frozen=True, kw_only=True):
    """One API: how it asks, tells, streams and is written."""

    name: str
    ask: Callable[[dict[str, Json]], Asked]
    tell: Callable[[dict[str, Json]], Told]
    fold: Callable[[Iterable[Frame]], Folded]
    fill: Callable[[dict[str, Json], Draft], dict[str, Json]]
    """The recorded body with the draft's answer in it; an empty body gives one of its own."""
    unfold: Callable[[dict[str, Json], Asked], list[Frame]]
    """The events that fold into the body."""
    carries: frozenset[str] = frozenset({"content", "thinking", "tool_calls", "refusal", "parts"})
    """What of an answer it has a place for."""
    holds: Callable[[dict[str, Json]], bool] = lambda part: True
    """Whether a part of an answer, beside texts and calls, is one of its own."""
    minted: Minted = Minted()

    def check(self, answer: Answer) -> None:
        """A `UsageError` when the answer says more than the API can."""
        for name in ("content", "thinking", "tool_calls", "refusal", "parts"):
            if getattr(answer, name) and name not in self.carries:
                raise UsageError(f"an answer of {self.name} cannot carry `{name}`")


def ask(
    body: dict[str, Json],
    conversation: str,
    *,
    system: str | None = None,
    tools: str = "tools",
    streamed: bool = False,
) -> Asked:
    """The request by the names its API gives to the parts; `streamed` is the API's default."""
    stream = body.get("stream")
    return Asked(
        body=body,
        model=as_text(body.get("model")),
        system=body.get(system) if system else None,
        messages=body.get(conversation),
        tools=body.get(tools),
        parameters=without(body, "model", "stream", conversation, system or conversation, tools),
        streamed=stream if type(stream) is bool else streamed,
        problem=None if conversation in body else f"the request has no `{conversation}`",
    )


def call_id(draft: Draft, index: int, recorded: Json, prefix: str) -> str:
    """The id of the n-th tool call: its own, else the recorded one's, else a minted one."""
    call: ToolUse = draft.answer.tool_calls[index]
    return call.id or as_text(recorded) or draft.mint(prefix, index)
