"""Ollama's own API: `/api/chat` and `/api/generate`, one JSON object per line."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from replaykit.errors import UsageError
from replaykit.model.values import Json
from replaykit.wire.dialect import ApiDialect, Draft, FoldedStream, MintedIds, WireRequest, WireResponse, split_request
from replaykit.wire.frames import Frame
from replaykit.wire.json_fields import as_object, as_objects, as_text, dump, joined, nth, without
from replaykit.wire.model_calls import ModelAnswer, ToolUse
from replaykit.wire.stream_events import StreamEvents
from replaykit.wire.usage import usage_of

_OPEN = ("model", "created_at", "remote_model", "remote_host")
"""Members of every line; the others come with the last."""


class _Form(Struct, frozen=True):
    """The members of a body that hold its message."""

    get: Callable[[dict[str, Json]], dict[str, Json]]
    put: Callable[[dict[str, Json]], dict[str, Json]]
    names: tuple[str, ...]


_CHAT = _Form(
    get=lambda body: as_object(body.get("message")),
    put=lambda message: {"message": message},
    names=("message",),
)
_GENERATE = _Form(
    get=lambda body: {"content": body.get("response"), "thinking": body.get("thinking")},
    put=lambda message: (
        {"response": message.get("content") or ""}
        | ({"thinking": message["thinking"]} if message.get("thinking") else {})
    ),
    names=("response", "thinking"),
)


def _read_response(body: dict[str, Json], form: _Form) -> WireResponse:
    message = form.get(body)
    present = any(name in body for name in form.names)
    return WireResponse(
        answers=(_answer(message),) if present else (),
        finish_reason=as_text(body.get("done_reason")) or None,
        usage=usage_of(body, inputs=("prompt_eval_count",), outputs=("eval_count",)),
        model=as_text(body.get("model")),
        complete=body.get("done") is not False,
    )


def _answer(message: dict[str, Json]) -> ModelAnswer:
    return ModelAnswer(
        role=as_text(message.get("role")) or "assistant",
        content=as_text(message.get("content")) or None,
        tool_calls=tuple(_call(call) for call in as_objects(message.get("tool_calls"))),
        thinking=as_text(message.get("thinking")) or None,
        parts=({"images": message["images"]},) if message.get("images") else (),
    )


def _call(call: dict[str, Json]) -> ToolUse:
    function = as_object(call.get("function"))
    return ToolUse(
        id=as_text(call.get("id")),
        name=as_text(function.get("name")),
        arguments=as_object(function.get("arguments")),
    )


def _fold(frames: Iterable[Frame], form: _Form) -> FoldedStream:
    """The body that the lines add up to; the last of them says `done`."""
    events = StreamEvents(frames)
    top: dict[str, Json] = {}
    messages: list[dict[str, Json]] = []
    for event in events:
        if event.get("error"):
            events.error = event
        top |= without(event, "error", *form.names)
        messages.append(form.get(event))
    message: dict[str, Json] = {"role": "assistant"}
    message |= {name: joined(as_text(m.get(name)) for m in messages) or "" for name in ("content", "thinking")}
    for name in ("tool_calls", "images"):
        if items := [item for m in messages if type(m.get(name)) is list for item in m[name]]:
            message[name] = items
    return events.folded(top | form.put(message) if top else {}, ended=top.get("done") is True)


def _fill(recorded: dict[str, Json], draft: Draft, form: _Form) -> dict[str, Json]:
    answer = draft.answer
    before = as_objects(form.get(recorded).get("tool_calls"))
    message: dict[str, Json] = {"role": answer.role, "content": answer.content or ""}
    if answer.thinking:
        message["thinking"] = answer.thinking
    for part in answer.parts:
        message |= as_object(part)
    if answer.tool_calls:
        calls = enumerate(answer.tool_calls)
        message["tool_calls"] = [_tool_call(call, nth(before, index) or {}) for index, call in calls]
    envelope: dict[str, Json] = {"model": draft.request.model, "created_at": "1970-01-01T00:00:00Z"}
    if not recorded:
        envelope["prompt_eval_count"], envelope["eval_count"] = draft.tokens
    rest = without(recorded, *form.names)
    return envelope | rest | form.put(message) | {"done": True, "done_reason": draft.finish_reason or "stop"}


def _tool_call(call: ToolUse, recorded: dict[str, Json]) -> dict[str, Json]:
    if type(call.arguments) is not dict:
        raise UsageError(f"tool call {call.name!r}: this API takes its arguments as an object")
    identity = call.id or as_text(recorded.get("id"))
    members: dict[str, Json] = {"id": identity} if identity else {}
    function = as_object(recorded.get("function"))
    return recorded | members | {"function": function | {"name": call.name, "arguments": call.arguments}}


def _unfold(body: dict[str, Json], form: _Form) -> list[Frame]:
    """A line for each thing the message holds, and one that ends it."""
    message = form.get(body)
    always = {name: body[name] for name in _OPEN if name in body}
    empty = {"role": message.get("role") or "assistant", "content": ""}
    pieces = [{name: value} for name, value in message.items() if name != "role" and value]
    lines = [always | form.put(empty | piece) | {"done": False} for piece in pieces]
    lines.append(without(body, *form.names) | form.put(empty))
    return [Frame(dump(line)) for line in lines]


def _read_request(body: dict[str, Json], form: _Form) -> WireRequest:
    if form is _CHAT:
        return split_request(body, "messages", streamed=True)
    return split_request(body, "prompt", system="system", streamed=True)


def _dialect(name: str, form: _Form, carries: set[str], minted: MintedIds) -> ApiDialect:
    return ApiDialect(
        name=name,
        read_request=lambda body: _read_request(body, form),
        read_response=lambda body: _read_response(body, form),
        fold=lambda frames: _fold(frames, form),
        fill=lambda recorded, draft: _fill(recorded, draft, form),
        unfold=lambda body, _request: _unfold(body, form),
        carries=frozenset(carries),
        holds=lambda part: part.keys() == {"images"},
        minted=minted,
    )


CHAT = _dialect(
    "ollama.chat",
    _CHAT,
    {"content", "thinking", "tool_calls", "parts"},
    MintedIds(conversation=("messages",), ids=("id", "tool_call_id"), into=("tool_calls",), answers="tool_call_id"),
)
GENERATE = _dialect("ollama.generate", _GENERATE, {"content", "thinking"}, MintedIds())
