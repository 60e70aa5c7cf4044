"""OpenAI responses: conversations and outputs made of items, and streams of typed events around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from replaykit.model.values import Json, JsonObject
from replaykit.wire.dialect import (
    ApiDialect,
    Draft,
    FoldedStream,
    MintedIds,
    StreamEvents,
    WireRequest,
    WireResponse,
    call_id,
    split_request,
)
from replaykit.wire.frames import Frame
from replaykit.wire.json_fields import (
    as_index,
    as_objects,
    as_text,
    dump,
    dump_arguments,
    has_list,
    has_object,
    joined_at,
    load_arguments,
    not_of_type,
    nth,
    object_in,
    objects_in,
    of_type,
    text_at,
    without,
)
from replaykit.wire.model_calls import ModelAnswer, ToolUse, usage_of

_CALLS = ("function_call", "custom_tool_call")
# Suffixes of the types of other items in an output.
_PARTS = ("_call", "_call_output", "_list_tools", "_approval_request", "compaction")
_UNFINISHED = ("queued", "in_progress")
RESPONSE = "resp_"
"""The prefix of response ids."""


def _read_request(body: JsonObject) -> WireRequest:
    return split_request(body, "input", system="instructions")


def _read_response(body: JsonObject) -> WireResponse:
    status = text_at(body, "status")
    reason = text_at(object_in(body, "incomplete_details"), "reason")
    answers: tuple[ModelAnswer, ...] = ()
    if has_list(body, "output"):
        answers = (_answer(objects_in(body, "output")),)
    return WireResponse(
        answers=answers,
        finish_reason=reason or status or None,
        usage=usage_of(body.get("usage"), inputs=("input_tokens",), outputs=("output_tokens",)),
        id=text_at(body, "id"),
        model=text_at(body, "model"),
        complete=status not in _UNFINISHED,
    )


def _answer(output: list[JsonObject]) -> ModelAnswer:
    message_parts: list[JsonObject] = []
    for message in of_type(output, "message"):
        message_parts += objects_in(message, "content")
    return ModelAnswer(
        content=joined_at(message_parts, "text"),
        tool_calls=tuple(map(_call, of_type(output, *_CALLS))),
        thinking=_thinking(output),
        refusal=joined_at(message_parts, "refusal"),
        parts=not_of_type(output, "message", "reasoning", *_CALLS),
    )


def _call(item: JsonObject) -> ToolUse:
    arguments = load_arguments(text_at(item, "arguments"))
    if item.get("type") == "custom_tool_call":
        arguments = text_at(item, "input")
    return ToolUse(id=text_at(item, "call_id"), name=text_at(item, "name"), arguments=arguments)


def _thinking(output: list[JsonObject]) -> str | None:
    """Return the visible reasoning: its own text or, failing that, its summary."""
    pieces: list[JsonObject] = []
    for item in of_type(output, "reasoning"):
        pieces += objects_in(item, "content") or objects_in(item, "summary")
    return joined_at(pieces, "text", "\n\n")


def _fill(recorded: JsonObject, draft: Draft) -> JsonObject:
    before = objects_in(recorded, "output")
    calls = of_type(before, *_CALLS)
    output = [*_reasoning(before, draft), *draft.answer.parts, *_messages(before, draft)]
    for index in range(len(draft.answer.tool_calls)):
        output.append(_tool_call(draft, index, nth(calls, index)))
    state: JsonObject = {"status": "completed", "incomplete_details": None, "error": None, "output": output}
    if draft.finish_reason not in (None, "completed"):
        state |= {"status": "incomplete", "incomplete_details": {"reason": draft.finish_reason}}
    return _envelope(draft) | recorded | state


def _envelope(draft: Draft) -> JsonObject:
    """Return the members of a response that repeat its request."""
    request = draft.request
    tokens_in, tokens_out = draft.tokens
    return {
        "id": draft.mint(RESPONSE),
        "object": "response",
        "created_at": 0,
        "model": request.model,
        "instructions": request.system,
        "tools": request.tools or [],
        "tool_choice": request.parameters.get("tool_choice", "auto"),
        "parallel_tool_calls": request.parameters.get("parallel_tool_calls", True),
        "usage": {
            "input_tokens": tokens_in,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": tokens_out,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens_in + tokens_out,
        },
    }


def _reasoning(before: list[JsonObject], draft: Draft) -> list[JsonObject]:
    """Return the recorded reasoning with its encrypted data, unless the answer has other thoughts."""
    recorded = of_type(before, "reasoning")
    if draft.answer.thinking == _thinking(recorded):
        return recorded
    if draft.answer.thinking is None:
        return []
    summary = [{"type": "summary_text", "text": draft.answer.thinking}]
    return [{"id": draft.mint("rs_"), "type": "reasoning", "summary": summary}]


def _messages(before: list[JsonObject], draft: Draft) -> list[JsonObject]:
    recorded = of_type(before, "message")
    recorded_answer, answer = _answer(recorded), draft.answer
    if (recorded_answer.content, recorded_answer.refusal) == (answer.content, answer.refusal):
        return recorded
    content: list[Json] = []
    if answer.content is not None:
        content.append({"type": "output_text", "text": answer.content, "annotations": [], "logprobs": []})
    if answer.refusal is not None:
        content.append({"type": "refusal", "refusal": answer.refusal})
    if not content:
        return []
    first = {"id": draft.mint("msg_"), "type": "message", "role": answer.role} | nth(recorded, 0)
    return [first | {"status": "completed", "content": content}]


def _tool_call(draft: Draft, index: int, recorded: JsonObject) -> JsonObject:
    call = draft.answer.tool_calls[index]
    kind, text, prefix = "function_call", "arguments", "fc_"
    if call.name in _custom_tools(draft.request.tools):
        kind, text, prefix = "custom_tool_call", "input", "ctc_"
    item = {"id": draft.mint(prefix, index), "status": "completed"}
    return (item | without(recorded, "input", "arguments")) | {
        "type": kind,
        "call_id": call_id(draft, index, recorded.get("call_id"), "call_"),
        "name": call.name,
        text: dump_arguments(call.arguments),
    }


def _custom_tools(tools: Json) -> set[str]:
    return {text_at(tool, "name") for tool in of_type(as_objects(tools), "custom")}


_LAST = ("response.completed", "response.incomplete", "response.failed")
_ITEMS = ("response.output_item.added", "response.output_item.done")

# Events, and for each: the growing list of the item, the type of its parts, and the growing member.
_GROWS: dict[str, tuple[str, str, str]] = {
    "response.output_text.delta": ("content", "output_text", "text"),
    "response.refusal.delta": ("content", "refusal", "refusal"),
    "response.reasoning_text.delta": ("content", "reasoning_text", "text"),
    "response.reasoning_summary_text.delta": ("summary", "summary_text", "text"),
}
# Events, and the growing member of the item itself.
_WHOLE = {
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
    "response.mcp_call_arguments.delta": "arguments",
}


def fold(frames: Iterable[Frame]) -> FoldedStream:
    """Return the response in the last event; if the stream was cut, what had arrived."""
    events = StreamEvents(frames)
    response: JsonObject = {}
    items: dict[int, _GrowingItem] = {}
    ended = False
    for event in events:
        kind = text_at(event, "type")
        if has_object(event, "response"):
            response.update(event["response"])
            ended = kind in _LAST
            if kind == "response.failed":
                events.error = response.get("error") or {}
        elif kind == "error" or (event.get("error") and not kind):
            events.error = event
        elif type(index := event.get("output_index")) is int:
            if kind in _ITEMS:
                items[index] = _GrowingItem(object_in(event, "item"))
            else:
                items.setdefault(index, _GrowingItem({"type": "message"})).add(kind, event)
    if items and not response.get("output"):
        response["output"] = [items[index].body() for index in sorted(items)]
    return events.folded(response, ended=ended)


class _GrowingItem:
    """A growing item of a stream."""

    def __init__(self, item: JsonObject) -> None:
        self._item = item
        self._members: dict[str, list[str]] = {}
        self._parts: dict[str, dict[int, _GrowingPart]] = {}

    def add(self, kind: str, event: JsonObject) -> None:
        delta = text_at(event, "delta")
        if kind in _WHOLE:
            self._members.setdefault(_WHOLE[kind], []).append(delta)
        elif kind in _GROWS:
            where, part, member = _GROWS[kind]
            position = as_index(event.get(f"{where}_index"))
            parts = self._parts.setdefault(where, {})
            parts.setdefault(position, _GrowingPart(part, member)).pieces.append(delta)

    def body(self) -> JsonObject:
        body = dict(self._item)
        for name, pieces in self._members.items():
            body[name] = "".join(pieces)
        for where, parts in self._parts.items():
            body[where] = [parts[at].body() for at in sorted(parts)]
        return body


class _GrowingPart:
    """A part of an item, with growing text."""

    def __init__(self, kind: str, member: str) -> None:
        self.pieces: list[str] = []
        self._kind = kind
        self._member = member

    def body(self) -> JsonObject:
        return {"type": self._kind, self._member: "".join(self.pieces)}


def unfold(body: JsonObject, _request: WireRequest) -> list[Frame]:
    """Return the events of a response: created, each growing item, completed."""
    began = body | {"status": "in_progress", "output": [], "usage": None}
    events: list[JsonObject] = [
        {"type": "response.created", "response": began},
        {"type": "response.in_progress", "response": began},
    ]
    for index, item in enumerate(objects_in(body, "output")):
        place = {"output_index": index, "item_id": text_at(item, "id")}
        grow, empty = _GROWN.get(text_at(item, "type"), (_grow_nothing, {}))
        events.append({"type": "response.output_item.added", "output_index": index, "item": item | empty})
        for event in grow(item):
            events.append(event | place)
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    last = f"response.{body.get('status')}"
    if last not in _LAST:
        last = _LAST[0]
    events.append({"type": last, "response": body})
    return [
        Frame(dump({**event, "sequence_number": number}), as_text(event["type"])) for number, event in enumerate(events)
    ]


def _grow_nothing(_item: JsonObject) -> list[JsonObject]:
    return []


def _grow_message(item: JsonObject) -> list[JsonObject]:
    events: list[JsonObject] = []
    for index, part in enumerate(objects_in(item, "content")):
        at = {"content_index": index}
        kind, member, more = "output_text", "text", {"logprobs": list[Json]()}
        if part.get("type") == "refusal":
            kind, member, more = "refusal", "refusal", {}
        text = text_at(part, member)
        events += [
            {"type": "response.content_part.added", "part": part | {member: ""}, **at},
            {"type": f"response.{kind}.delta", "delta": text, **more, **at},
            {"type": f"response.{kind}.done", member: text, **more, **at},
            {"type": "response.content_part.done", "part": part, **at},
        ]
    return events


def _grow_reasoning(item: JsonObject) -> list[JsonObject]:
    events: list[JsonObject] = []
    for index, part in enumerate(objects_in(item, "summary")):
        at = {"summary_index": index}
        text = text_at(part, "text")
        events += [
            {"type": "response.reasoning_summary_part.added", "part": part | {"text": ""}, **at},
            {"type": "response.reasoning_summary_text.delta", "delta": text, **at},
            {"type": "response.reasoning_summary_text.done", "text": text, **at},
            {"type": "response.reasoning_summary_part.done", "part": part, **at},
        ]
    return events


def _grow_call(item: JsonObject) -> list[JsonObject]:
    arguments = text_at(item, "arguments")
    name = {"name": item.get("name")}
    return [
        {"type": "response.function_call_arguments.delta", "delta": arguments},
        {"type": "response.function_call_arguments.done", "arguments": arguments, **name},
    ]


def _grow_custom(item: JsonObject) -> list[JsonObject]:
    text = text_at(item, "input")
    return [
        {"type": "response.custom_tool_call_input.delta", "delta": text},
        {"type": "response.custom_tool_call_input.done", "input": text},
    ]


_IN_PROGRESS: JsonObject = {"status": "in_progress"}
# Item types, and for each: the function that returns its events, and its members when empty.
_GROWN: dict[str, tuple[Callable[[JsonObject], list[JsonObject]], JsonObject]] = {
    "message": (_grow_message, _IN_PROGRESS | {"content": []}),
    "reasoning": (_grow_reasoning, {"summary": []}),
    "function_call": (_grow_call, _IN_PROGRESS | {"arguments": ""}),
    "custom_tool_call": (_grow_custom, {"input": ""}),
}


DIALECT = ApiDialect(
    name="openai.responses",
    read_request=_read_request,
    read_response=_read_response,
    fold=fold,
    fill=_fill,
    unfold=unfold,
    holds=lambda part: text_at(part, "type").endswith(_PARTS),
    minted=MintedIds(
        conversation=("input",),
        ids=("id", "call_id", "encrypted_content", "approval_request_id", "container_id", "caller_id", "fingerprint"),
        into=("content", "summary", "annotations", "caller", "pending_safety_checks", "acknowledged_safety_checks"),
        answers="call_id",
        state=(("previous_response_id",), ("conversation",), ("conversation", "id")),
    ),
)
