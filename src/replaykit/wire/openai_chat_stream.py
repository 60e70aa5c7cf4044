"""Streams of chat completions: chunks fold into a body, and a body unfolds into chunks."""

from __future__ import annotations

from collections.abc import Iterable

from replaykit.model.values import Json
from replaykit.wire.dialect import FoldedStream, WireRequest
from replaykit.wire.frames import Frame
from replaykit.wire.json_fields import as_object, as_objects, as_text, dump, without
from replaykit.wire.stream_events import StreamEvents

_DONE = b"[DONE]"
_GROWING = ("refusal", "reasoning_content", "reasoning")
"""Members of a delta whose texts are pieces of one."""
_NOT_KEPT = ("error", "object", "obfuscation")


def fold(frames: Iterable[Frame]) -> FoldedStream:
    """The body that the chunks add up to; it ends with a reason to finish, or with `[DONE]`."""
    events = StreamEvents(frames, done=_DONE)
    top: dict[str, Json] = {}
    choices: dict[int, _Choice] = {}
    last: dict[str, Json] = {}
    for chunk in events:
        deltas = chunk.pop("choices", None)
        if chunk != last:  # most say the same of themselves as the one before
            last = chunk
            if chunk.get("error"):
                events.error = chunk
            top |= {name: value for name, value in chunk.items() if value is not None and name not in _NOT_KEPT}
        for choice in deltas if type(deltas) is list else ():
            if type(choice) is not dict:
                continue
            if type(number := choice.get("index")) is int:
                index = number
            else:
                index = 0
            if index not in choices:
                choices[index] = _Choice()
            choices[index].add(choice)
    ordered = [choices[index].body(index) for index in sorted(choices)]
    finished = bool(choices) and all(choice.finish_reason for choice in choices.values())
    body = top | {"object": "chat.completion", "choices": ordered}
    return events.folded(body if top or choices else {}, ended=finished or events.done)


class _Choice:
    """One answer of a stream, while it grows."""

    def __init__(self) -> None:
        self.finish_reason: str | None = None
        self._content: list[Json] = []
        self._texts: dict[str, list[str]] = {}
        self._calls = _ToolCallDeltas()
        self._function: list[dict[str, Json]] = []
        self._rest: dict[str, list[Json]] = {}

    def add(self, choice: dict[str, Json]) -> None:
        if choice.get("finish_reason"):
            self.finish_reason = as_text(choice["finish_reason"]) or self.finish_reason
        delta = choice.get("delta")
        for name, value in delta.items() if type(delta) is dict else ():
            if name == "content":
                self._content += [value] if type(value) is str else as_objects(value)
            elif name in _GROWING:
                self._texts.setdefault(name, []).append(as_text(value))
            elif name == "tool_calls":
                self._calls.add(value)
            elif name == "function_call":
                self._function += [value] if type(value) is dict else []
            elif value is not None:
                self._rest.setdefault(name, []).append(value)

    def body(self, index: int) -> dict[str, Json]:
        message = {"role": "assistant", "content": self._text()}
        message |= {name: _whole(pieces) for name, pieces in self._rest.items()}
        message |= {name: "".join(pieces) for name, pieces in self._texts.items() if any(pieces)}
        if calls := self._calls.bodies():
            message["tool_calls"] = calls
        if self._function:
            message["function_call"] = {
                name: "".join(as_text(piece.get(name)) for piece in self._function) for name in ("name", "arguments")
            }
        return {"index": index, "message": message, "finish_reason": self.finish_reason}

    def _text(self) -> Json:
        if all(type(piece) is str for piece in self._content):
            if self._content:
                return "".join(self._content)
            return None
        return [{"type": "text", "text": piece} if type(piece) is str else piece for piece in self._content]


class _ToolCallDeltas:
    """The tool calls of a stream, while they grow.

    Pieces belong together by their index. Some servers leave it out, or give every parallel call the same one; there
    a piece that names a function under another id begins a call of its own.
    """

    def __init__(self) -> None:
        self._slots: list[_ToolCallDelta] = []
        self._by_index: dict[int, _ToolCallDelta] = {}

    def add(self, deltas: Json) -> None:
        for delta in as_objects(deltas):
            index = delta.get("index")
            if type(index) is int:
                call = self._by_index.get(index)
            else:
                call = self._last()
            if call is None or call.is_another(delta):
                call = _ToolCallDelta()
                self._slots.append(call)
            if type(index) is int:
                self._by_index[index] = call
            call.add(delta)

    def bodies(self) -> list[dict[str, Json]]:
        return [call.body() for call in self._slots]

    def _last(self) -> _ToolCallDelta | None:
        if self._slots:
            return self._slots[-1]
        return None


class _ToolCallDelta:
    def __init__(self) -> None:
        self._id = ""
        self._kind = "function"
        self._name: list[str] = []
        self._text: list[str] = []
        self._rest: dict[str, Json] = {}

    def is_another(self, delta: dict[str, Json]) -> bool:
        call_id = as_text(delta.get("id"))
        named = as_object(delta.get("function")).get("name") or as_object(delta.get("custom")).get("name")
        return bool(named) and bool(call_id) and bool(self._id) and call_id != self._id

    def add(self, delta: dict[str, Json]) -> None:
        self._id = self._id or as_text(delta.get("id"))
        if "custom" in delta or delta.get("type") == "custom":
            self._kind = "custom"
        for part in (as_object(delta.get("function")), as_object(delta.get("custom"))):
            name = as_text(part.get("name"))
            if name and self._name != [name]:  # some servers repeat the whole name with every piece
                self._name.append(name)
            self._text.append(as_text(part.get("arguments")) or as_text(part.get("input")))
        self._rest |= without(delta, "index", "id", "type", "function", "custom")

    def body(self) -> dict[str, Json]:
        if self._kind == "custom":
            text_name = "input"
        else:
            text_name = "arguments"
        part = {"name": "".join(self._name), text_name: "".join(self._text)}
        return {"id": self._id, "type": self._kind, self._kind: part, **self._rest}


def _whole(pieces: list[Json]) -> Json:
    """A member that came in pieces: lists are one list, objects one object whose texts go on; else the last counts."""
    if all(type(piece) is list for piece in pieces):
        return [item for piece in pieces for item in piece]
    if not all(type(piece) is dict for piece in pieces):
        return pieces[-1]
    members: dict[str, list[Json]] = {}
    for piece in pieces:
        for name, value in piece.items():
            members.setdefault(name, []).append(value)
    return {name: _text_or_last(values) for name, values in members.items()}


def _text_or_last(values: list[Json]) -> Json:
    if all(type(value) is str for value in values):
        return "".join(values)
    return values[-1]


def unfold(body: dict[str, Json], request: WireRequest) -> list[Frame]:
    """The chunks of a body: the role, what is said and called, the reason to finish, the usage, `[DONE]`."""
    base = without(body, "choices", "usage") | {"object": "chat.completion.chunk"}
    usage = body.get("usage")
    apart = as_object(request.body.get("stream_options")).get("include_usage") is True
    chunks: list[dict[str, Json]] = []
    for choice in as_objects(body.get("choices")):
        index = choice.get("index", 0)
        deltas = _deltas(as_object(choice.get("message")))
        chunks += [base | {"choices": [{"index": index, "delta": delta, "finish_reason": None}]} for delta in deltas]
        last = {"index": index, "delta": {}, "finish_reason": choice.get("finish_reason")}
        chunks.append(base | {"choices": [last]})
    if usage and apart:
        chunks.append(base | {"choices": [], "usage": usage})
    elif usage and chunks:
        chunks[-1] = chunks[-1] | {"usage": usage}
    return [*(Frame(dump(chunk)) for chunk in chunks), Frame(_DONE)]


def _deltas(message: dict[str, Json]) -> list[dict[str, Json]]:
    content = message.get("content")
    deltas: list[dict[str, Json]] = [{"role": message.get("role"), "content": "" if type(content) is str else None}]
    rest = without(message, "role", "content", "tool_calls")
    deltas += [{name: value} for name, value in rest.items() if value]
    deltas += [{"content": content}] if content else []
    for index, call in enumerate(as_objects(message.get("tool_calls"))):
        kind = as_text(call.get("type")) or "function"
        part = as_object(call.get(kind))
        if kind == "custom":
            text_name = "input"
        else:
            text_name = "arguments"
        deltas.append({"tool_calls": [{"index": index, **call, kind: part | {text_name: ""}}]})
        deltas.append({"tool_calls": [{"index": index, kind: {text_name: part.get(text_name)}}]})
    return deltas
