"""Ollama's own API: `/api/chat` and `/api/generate`, one JSON object on each line."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct

from replaykit.model.values import Json, JsonObject
from replaykit.wire.dialect import (
    ApiDialect,
    Draft,
    FoldedStream,
    MintedIds,
    StreamEvents,
    WireRequest,
    WireResponse,
    object_arguments,
    split_request,
)
from replaykit.wire.frames import Frame
from replaykit.wire.json_fields import (
    as_object,
    as_objects,
    dump,
    has_list,
    joined_at,
    nth,
    object_in,
    objects_in,
    text_at,
    without,
)
from replaykit.wire.model_calls import ModelAnswer, ToolUse, usage_of

# Members of every line; the others come with the last.
_OPEN = ("model", "created_at", "remote_model", "remote_host")


class _Form(Struct, frozen=True):
    """Where a body holds its message."""

    get: Callable[[JsonObject], JsonObject]
    put: Callable[[JsonObject], JsonObject]
    names: tuple[str, ...]


_CHAT = _Form(
    get=lambda body: object_in(body, "message"),
    put=lambda message: {"message": message},
    names=("message",),
)
_GENERATE = _Form(
    get=lambda body: {"content": body.get("response"), "thinking": body.get("thinking")},
    put=lambda message: {
        "response": message.get("content") or "",
        **{name: value for name, value in message.items() if name == "thinking" and value},
    },
    names=("response", "thinking"),
)


def _read_response(body: JsonObject, form: _Form) -> WireResponse:
    answers: tuple[ModelAnswer, ...] = ()
    if not body.keys().isdisjoint(form.names):
        answers = (_answer(form.get(body)),)
    return WireResponse(
        answers=answers,
        finish_reason=text_at(body, "done_reason") or None,
        usage=usage_of(body, inputs=("prompt_eval_count",), outputs=("eval_count",)),
        model=text_at(body, "model"),
        complete=body.get("done") is not False,
    )


def _answer(message: JsonObject) -> ModelAnswer:
    parts: tuple[Json, ...] = ()
    if message.get("images"):
        parts = ({"images": message["images"]},)
    return ModelAnswer(
        role=text_at(message, "role") or "assistant",
        content=text_at(message, "content") or None,
        tool_calls=tuple(map(_call, objects_in(message, "tool_calls"))),
        thinking=text_at(message, "thinking") or None,
        parts=parts,
    )


def _call(call: JsonObject) -> ToolUse:
    function = object_in(call, "function")
    return ToolUse(
        id=text_at(call, "id"),
        name=text_at(function, "name"),
        arguments=object_in(function, "arguments"),
    )


def _fold(frames: Iterable[Frame], form: _Form) -> FoldedStream:
    """Return the body that the lines form; the last line says `done`."""
    events = StreamEvents(frames)
    top: JsonObject = {}
    messages: list[JsonObject] = []
    for event in events:
        if event.get("error"):
            events.error = event
        top |= without(event, "error", *form.names)
        messages.append(form.get(event))
    message: JsonObject = {"role": "assistant"}
    for name in ("content", "thinking"):
        message[name] = joined_at(messages, name) or ""
    for name in ("tool_calls", "images"):
        for part in messages:
            if has_list(part, name) and part[name]:
                message.setdefault(name, []).extend(part[name])
    if top:
        top |= form.put(message)
    return events.folded(top, ended=top.get("done") is True)


def _fill(recorded: JsonObject, draft: Draft, form: _Form) -> JsonObject:
    answer = draft.answer
    before = as_objects(form.get(recorded).get("tool_calls"))
    message: JsonObject = {"role": answer.role, "content": answer.content or ""}
    if answer.thinking:
        message["thinking"] = answer.thinking
    for part in answer.parts:
        message |= as_object(part)
    if answer.tool_calls:
        message["tool_calls"] = [_tool_call(call, nth(before, index)) for index, call in enumerate(answer.tool_calls)]
    # SDKs parse the time, so there must be one; a real one would make two writes of an answer differ.
    envelope: JsonObject = {"model": draft.request.model, "created_at": "1970-01-01T00:00:00Z"}
    if not recorded:
        envelope["prompt_eval_count"], envelope["eval_count"] = draft.tokens
    rest = without(recorded, *form.names)
    return envelope | rest | form.put(message) | {"done": True, "done_reason": draft.finish_reason or "stop"}


def _tool_call(call: ToolUse, recorded: JsonObject) -> JsonObject:
    members: JsonObject = {}
    if identity := call.id or text_at(recorded, "id"):
        members["id"] = identity
    function = object_in(recorded, "function")
    return recorded | members | {"function": function | {"name": call.name, "arguments": object_arguments(call)}}


def _unfold(body: JsonObject, form: _Form) -> list[Frame]:
    """Return a line for each member of the message, and a final one."""
    message = form.get(body)
    always = {name: body[name] for name in _OPEN if name in body}
    empty = {"role": message.get("role") or "assistant", "content": ""}
    pieces = [{name: value} for name, value in message.items() if name != "role" and value]
    lines = [always | form.put(empty | piece) | {"done": False} for piece in pieces]
    lines.append(without(body, *form.names) | form.put(empty))
    return [Frame(dump(line)) for line in lines]


def _read_request(body: JsonObject, form: _Form) -> WireRequest:
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
