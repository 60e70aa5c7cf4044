"""OpenAI chat completions, and the many compatible APIs (Azure, gateways, local servers)."""

from __future__ import annotations

from collections.abc import Iterable

from replaykit.errors import UsageError
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
    as_object,
    as_objects,
    as_text,
    dump,
    dump_arguments,
    has_list,
    joined,
    joined_at,
    load_arguments,
    not_of_type,
    nth,
    object_in,
    objects_in,
    of_type,
    text_at,
    text_in,
    text_or_last,
    without,
    without_nulls,
)
from replaykit.wire.model_calls import ModelAnswer, ToolUse, usage_of

# The names of visible reasoning in a message; gateways disagree.
_THINKING = ("reasoning_content", "reasoning")
_KNOWN = ("role", "content", "refusal", "tool_calls", "function_call", *_THINKING)


def _read_request(body: JsonObject) -> WireRequest:
    if _is_old(body):
        return split_request(body, "messages", tools="functions")
    return split_request(body, "messages")


def _is_old(body: JsonObject) -> bool:
    """Return whether a request predates tools, and needs an answer in the old form."""
    return "functions" in body and "tools" not in body


def _read_response(body: JsonObject) -> WireResponse:
    return openai_response(body, [_answer(object_in(choice, "message")) for choice in objects_in(body, "choices")])


def openai_response(body: JsonObject, answers: Iterable[ModelAnswer]) -> WireResponse:
    """Return a parsed body with these answers."""
    # Groq has the usage of a stream in a member of its own.
    counts = body.get("usage") or object_in(body, "x_groq").get("usage")
    return WireResponse(
        answers=tuple(answers),
        finish_reason=text_at(nth(objects_in(body, "choices"), 0), "finish_reason") or None,
        usage=usage_of(counts, inputs=("prompt_tokens",), outputs=("completion_tokens",)),
        id=text_at(body, "id"),
        model=text_at(body, "model"),
    )


def _answer(message: JsonObject) -> ModelAnswer:
    content = message.get("content")
    blocks = as_objects(content)
    return ModelAnswer(
        role=text_at(message, "role") or "assistant",
        content=as_text(content) or joined_at(of_type(blocks, "text"), "text"),
        tool_calls=_calls(message),
        thinking=text_in(message, *_THINKING) or joined(map(_thought, blocks)),
        refusal=text_at(message, "refusal") or None,
        parts=(*not_of_type(blocks, "text", "thinking"), *_members(message, *_KNOWN)),
    )


def _thought(block: JsonObject) -> str:
    """Return the text of a thinking block in the content."""
    pieces = block.get("thinking")
    return as_text(pieces) or joined_at(as_objects(pieces), "text") or ""


def _members(message: JsonObject, *known: str) -> list[JsonObject]:
    """Return the nonempty members other than the known ones, each as an object."""
    return [{name: value} for name, value in message.items() if name not in known and value]


def _calls(message: JsonObject) -> tuple[ToolUse, ...]:
    calls = []
    for call in objects_in(message, "tool_calls"):
        custom, function = object_in(call, "custom"), object_in(call, "function")
        name = text_at(custom or function, "name")
        arguments = text_at(custom, "input")
        if not custom:
            arguments = _arguments(function)
        calls.append(ToolUse(id=text_at(call, "id"), name=name, arguments=arguments))
    if legacy := object_in(message, "function_call"):
        calls.append(ToolUse(name=text_at(legacy, "name"), arguments=_arguments(legacy)))
    return tuple(calls)


def _arguments(function: JsonObject) -> Json:
    arguments = function.get("arguments")
    if type(arguments) is dict:
        return arguments
    return load_arguments(as_text(arguments))


def _fill(recorded: JsonObject, draft: Draft) -> JsonObject:
    choices = objects_in(recorded, "choices")
    message = _message(object_in(nth(choices, 0), "message"), draft)
    reason = "stop"
    if draft.answer.tool_calls:
        reason = "tool_calls"
        if _is_old(draft.request.body):
            reason = "function_call"
    filled = {"index": 0, "message": message, "logprobs": None, "finish_reason": draft.finish_reason or reason}
    # No clock and no randomness: the same answer to the same request gives the same bytes.
    envelope = {"id": draft.mint("chatcmpl-"), "object": "chat.completion", "created": 0, "model": draft.request.model}
    if not recorded:
        envelope |= _usage(draft)
    return envelope | recorded | {"choices": [filled, *choices[1:]]}


def _usage(draft: Draft) -> JsonObject:
    """Return the usage of an unrecorded answer; streams contain it only on request."""
    request = draft.request
    if request.streamed and not object_in(request.body, "stream_options").get("include_usage"):
        return {}
    return {"usage": openai_counts(draft)}


def openai_counts(draft: Draft) -> JsonObject:
    """Return the tokens of an answer as OpenAI counts them."""
    tokens_in, tokens_out = draft.tokens
    return {"prompt_tokens": tokens_in, "completion_tokens": tokens_out, "total_tokens": tokens_in + tokens_out}


def _message(recorded: JsonObject, draft: Draft) -> JsonObject:
    answer = draft.answer
    blocks: list[Json] = []
    message: JsonObject = {"role": answer.role, "content": answer.content, "refusal": answer.refusal}
    for part in answer.parts:
        if "type" in as_object(part):
            blocks.append(part)
        else:
            message |= as_object(part)
    in_content = has_list(recorded, "content")
    if answer.thinking and in_content:
        blocks.insert(0, {"type": "thinking", "thinking": [{"type": "text", "text": answer.thinking}]})
    elif answer.thinking:
        usual, other = _THINKING
        if other in recorded and usual not in recorded:
            usual = other
        message[usual] = answer.thinking
    if blocks:
        if answer.content:
            blocks.append({"type": "text", "text": answer.content})
        message["content"] = blocks
    return message | _tool_calls_member(objects_in(recorded, "tool_calls"), draft)


def _tool_calls_member(recorded: list[JsonObject], draft: Draft) -> JsonObject:
    """Return the member of a message that holds its tool calls, if any."""
    calls = draft.answer.tool_calls
    if not calls:
        return {}
    if not _is_old(draft.request.body):
        return {"tool_calls": [_tool_call(draft, index, nth(recorded, index)) for index in range(len(calls))]}
    if len(calls) > 1:
        raise UsageError("a request with `functions` can be answered with one call only")
    return {"function_call": {"name": calls[0].name, "arguments": dump_arguments(calls[0].arguments)}}


def _tool_call(draft: Draft, index: int, recorded: JsonObject) -> JsonObject:
    call = draft.answer.tool_calls[index]
    common = without(recorded, "function", "custom") | {"id": call_id(draft, index, recorded.get("id"), "call_")}
    if call.name in _custom_tools(draft.request.tools):
        return common | {"type": "custom", "custom": {"name": call.name, "input": dump_arguments(call.arguments)}}
    function = {"name": call.name, "arguments": dump_arguments(call.arguments)}
    return common | {"type": "function", "function": function}


def _custom_tools(tools: Json) -> set[str]:
    return {text_at(object_in(tool, "custom"), "name") for tool in of_type(as_objects(tools), "custom")}


_DONE = b"[DONE]"
_TEXT_NAMES = {"custom": "input", "function": "arguments"}  # the member with the text of a call, by tool type
# Members of a delta whose texts are pieces of one text.
_GROWING = ("refusal", "reasoning_content", "reasoning")
_NOT_KEPT = ("error", "object", "obfuscation")


def fold(frames: Iterable[Frame]) -> FoldedStream:
    """Return the body that the chunks form; it ends with a finish reason, or with `[DONE]`."""
    events = StreamEvents(frames, done=_DONE)
    top: JsonObject = {}
    choices: dict[int, _Choice] = {}
    last: JsonObject = {}
    for chunk in events:
        deltas = chunk.pop("choices", None)
        if chunk != last:  # most chunks repeat the metadata of the one before
            last = chunk
            if chunk.get("error"):
                events.error = chunk
            top |= without_nulls(without(chunk, *_NOT_KEPT))
        for choice in deltas if type(deltas) is list else ():
            if type(choice) is not dict:
                continue
            index = as_index(choice.get("index"))
            if index not in choices:
                choices[index] = _Choice()
            choices[index].add(choice)
    if not top and not choices:
        return events.folded({}, ended=events.done)
    ordered = [choices[index].body(index) for index in sorted(choices)]
    is_finished = bool(choices) and all(choice["finish_reason"] for choice in ordered)
    body = top | {"object": "chat.completion", "choices": ordered}
    return events.folded(body, ended=is_finished or events.done)


class _Choice:
    """A growing answer of a stream."""

    def __init__(self) -> None:
        self.finish_reason: str | None = None
        self._content: list[Json] = []
        self._texts: dict[str, list[str]] = {}
        self._calls = _ToolCallDeltas()
        self._function: list[JsonObject] = []
        self._rest: dict[str, list[Json]] = {}

    def add(self, choice: JsonObject) -> None:
        if choice.get("finish_reason"):
            self.finish_reason = as_text(choice["finish_reason"]) or self.finish_reason
        delta = choice.get("delta")
        for name, value in delta.items() if type(delta) is dict else ():
            if name == "content":
                if type(value) is str:
                    self._content.append(value)
                else:
                    self._content += as_objects(value)
            elif name in _GROWING:
                self._texts.setdefault(name, []).append(as_text(value))
            elif name == "tool_calls":
                self._calls.add(value)
            elif name == "function_call":
                if type(value) is dict:
                    self._function.append(value)
            elif value is not None:
                self._rest.setdefault(name, []).append(value)

    def body(self, index: int) -> JsonObject:
        message = {"role": "assistant", "content": self._text()}
        message |= {name: _whole(pieces) for name, pieces in self._rest.items()}
        for name, pieces in self._texts.items():
            if text := "".join(pieces):
                message[name] = text
        if calls := self._calls.bodies():
            message["tool_calls"] = calls
        if self._function:
            function = {name: joined_at(self._function, name) or "" for name in ("name", "arguments")}
            message["function_call"] = function
        return {"index": index, "message": message, "finish_reason": self.finish_reason}

    def _text(self) -> Json:
        if not self._content:
            return None
        if set(map(type, self._content)) == {str}:
            return "".join(self._content)
        blocks: list[Json] = []
        for piece in self._content:
            if type(piece) is str:
                piece = {"type": "text", "text": piece}
            blocks.append(piece)
        return blocks


class _ToolCallDeltas:
    """The growing tool calls of a stream.

    Pieces belong together by index. Some servers omit it, or give all parallel calls the same one; there, a piece that
    names a function under another id starts a new call.
    """

    def __init__(self) -> None:
        self._slots: list[_ToolCallDelta] = []
        self._by_index: dict[int, _ToolCallDelta] = {}

    def add(self, deltas: Json) -> None:
        for delta in as_objects(deltas):
            index = delta.get("index")
            call = None
            if type(index) is int:
                call = self._by_index.get(index)
            elif self._slots:
                call = self._slots[-1]
            if call is None or call.is_another(delta):
                call = _ToolCallDelta()
                self._slots.append(call)
            if type(index) is int:
                self._by_index[index] = call
            call.add(delta)

    def bodies(self) -> list[JsonObject]:
        return [call.body() for call in self._slots]


class _ToolCallDelta:
    def __init__(self) -> None:
        self._id = ""
        self._kind = "function"
        self._name: list[str] = []
        self._text: list[str] = []
        self._rest: JsonObject = {}

    def is_another(self, delta: JsonObject) -> bool:
        call_id = text_at(delta, "id")
        named = object_in(delta, "function").get("name") or object_in(delta, "custom").get("name")
        return bool(named) and bool(call_id) and bool(self._id) and call_id != self._id

    def add(self, delta: JsonObject) -> None:
        self._id = self._id or text_at(delta, "id")
        if "custom" in delta or delta.get("type") == "custom":
            self._kind = "custom"
        for part in (object_in(delta, "function"), object_in(delta, "custom")):
            name = text_at(part, "name")
            if name and self._name != [name]:  # some servers repeat the whole name with every piece
                self._name.append(name)
            self._text.append(text_at(part, "arguments") or text_at(part, "input"))
        self._rest |= without(delta, "index", "id", "type", "function", "custom")

    def body(self) -> JsonObject:
        part = {"name": "".join(self._name), _TEXT_NAMES[self._kind]: "".join(self._text)}
        return {"id": self._id, "type": self._kind, self._kind: part, **self._rest}


def _whole(pieces: list[Json]) -> Json:
    """Join a member that arrived in pieces: lists, objects member by member, or else the last value."""
    if all(type(piece) is list for piece in pieces):
        return [item for piece in pieces for item in piece]
    if not all(type(piece) is dict for piece in pieces):
        return pieces[-1]
    members: dict[str, list[Json]] = {}
    for piece in pieces:
        for name, value in piece.items():
            members.setdefault(name, []).append(value)
    return {name: text_or_last(values) for name, values in members.items()}


def unfold(body: JsonObject, request: WireRequest) -> list[Frame]:
    """Return the chunks of a body: the role, text and calls, the finish reason, the usage, `[DONE]`."""
    base = without(body, "choices", "usage") | {"object": "chat.completion.chunk"}
    usage = body.get("usage")
    apart = object_in(request.body, "stream_options").get("include_usage") is True
    chunks: list[JsonObject] = []
    for choice in objects_in(body, "choices"):
        index = choice.get("index", 0)
        deltas = _deltas(object_in(choice, "message"))
        for delta in deltas:
            chunks.append(base | {"choices": [{"index": index, "delta": delta, "finish_reason": None}]})
        last = {"index": index, "delta": {}, "finish_reason": choice.get("finish_reason")}
        chunks.append(base | {"choices": [last]})
    if usage and apart:
        chunks.append(base | {"choices": [], "usage": usage})
    elif usage and chunks:
        chunks[-1] = chunks[-1] | {"usage": usage}
    return [*(Frame(dump(chunk)) for chunk in chunks), Frame(_DONE)]


def _deltas(message: JsonObject) -> list[JsonObject]:
    content = message.get("content")
    empty = None
    if type(content) is str:
        empty = ""
    deltas: list[JsonObject] = [{"role": message.get("role"), "content": empty}]
    deltas += _members(message, "role", "content", "tool_calls")
    if content:
        deltas.append({"content": content})
    for index, call in enumerate(objects_in(message, "tool_calls")):
        kind = text_at(call, "type") or "function"
        part = object_in(call, kind)
        text_name = _TEXT_NAMES.get(kind, "arguments")
        deltas.append({"tool_calls": [{"index": index, **call, kind: part | {text_name: ""}}]})
        deltas.append({"tool_calls": [{"index": index, kind: {text_name: part.get(text_name)}}]})
    return deltas


DIALECT = ApiDialect(
    name="openai.chat",
    read_request=_read_request,
    read_response=_read_response,
    fold=fold,
    fill=_fill,
    unfold=unfold,
    holds=lambda part: "type" not in part,
    minted=MintedIds(
        conversation=("messages",),
        ids=("id", "tool_call_id", "signature", "thought_signature", "thoughtSignature", "encrypted_content"),
        into=("content", "tool_calls", "audio", "reasoning_details", "thinking_blocks", "extra_content", "google"),
        answers="tool_call_id",
        sealed=("reasoning.encrypted", "data"),
    ),
)
