"""Streams of responses: typed events around items, with the whole response in the last of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from replaykit.model.values import Json
from replaykit.wire.dialect import FoldedStream, WireRequest
from replaykit.wire.frames import Frame
from replaykit.wire.json_fields import as_object, as_objects, as_text, dump
from replaykit.wire.stream_events import StreamEvents

_LAST = ("response.completed", "response.incomplete", "response.failed")
_ITEMS = ("response.output_item.added", "response.output_item.done")

_GROWS: dict[str, tuple[str, str, str]] = {
    "response.output_text.delta": ("content", "output_text", "text"),
    "response.refusal.delta": ("content", "refusal", "refusal"),
    "response.reasoning_text.delta": ("content", "reasoning_text", "text"),
    "response.reasoning_summary_text.delta": ("summary", "summary_text", "text"),
}
"""Event → the list of the item it grows in, the type of the part, and the member that grows."""
_WHOLE = {
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "input",
    "response.mcp_call_arguments.delta": "arguments",
}
"""Event → the member of the item itself that grows."""


def fold(frames: Iterable[Frame]) -> FoldedStream:
    """The response that the last event holds; of a stream that was cut, what had come."""
    events = StreamEvents(frames)
    response: dict[str, Json] = {}
    items: dict[int, _GrowingItem] = {}
    ended = False
    for event in events:
        kind = as_text(event.get("type"))
        if type(event.get("response")) is dict:
            response.update(event["response"])
            ended = kind in _LAST
            if kind == "response.failed":
                events.error = response.get("error") or {}
        elif kind == "error" or (event.get("error") and not kind):
            events.error = event
        elif type(index := event.get("output_index")) is int:
            if kind in _ITEMS:
                items[index] = _GrowingItem(as_object(event.get("item")))
            else:
                items.setdefault(index, _GrowingItem({"type": "message"})).add(kind, event)
    if items and not response.get("output"):
        response["output"] = [items[index].body() for index in sorted(items)]
    return events.folded(response, ended=ended)


class _GrowingItem:
    """An item of a stream, while it grows."""

    def __init__(self, item: dict[str, Json]) -> None:
        self._item = item
        self._members: dict[str, list[str]] = {}
        self._parts: dict[str, dict[int, _GrowingPart]] = {}

    def add(self, kind: str, event: dict[str, Json]) -> None:
        delta = as_text(event.get("delta"))
        if kind in _WHOLE:
            self._members.setdefault(_WHOLE[kind], []).append(delta)
        elif kind in _GROWS:
            where, part, member = _GROWS[kind]
            position = event.get("content_index" if where == "content" else "summary_index")
            parts = self._parts.setdefault(where, {})
            parts.setdefault(position if type(position) is int else 0, _GrowingPart(part, member)).pieces.append(delta)

    def body(self) -> dict[str, Json]:
        members = {name: "".join(pieces) for name, pieces in self._members.items()}
        lists = {where: [parts[at].body() for at in sorted(parts)] for where, parts in self._parts.items()}
        return self._item | members | lists


class _GrowingPart:
    """A part of an item, while its text grows."""

    def __init__(self, kind: str, member: str) -> None:
        self.pieces: list[str] = []
        self._kind = kind
        self._member = member

    def body(self) -> dict[str, Json]:
        return {"type": self._kind, self._member: "".join(self.pieces)}


def unfold(body: dict[str, Json], _request: WireRequest) -> list[Frame]:
    """The events of a response: created, each item as it grows, completed."""
    began = body | {"status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Json]] = [
        {"type": "response.created", "response": began},
        {"type": "response.in_progress", "response": began},
    ]
    for index, item in enumerate(as_objects(body.get("output"))):
        place = {"output_index": index, "item_id": as_text(item.get("id"))}
        grow, empty = _GROWN.get(as_text(item.get("type")), (_nothing, {}))
        events.append({"type": "response.output_item.added", "output_index": index, "item": item | empty})
        events += [event | place for event in grow(item)]
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    last = f"response.{body.get('status')}"
    events.append({"type": last if last in _LAST else _LAST[0], "response": body})
    return [
        Frame(dump({**event, "sequence_number": number}), as_text(event["type"])) for number, event in enumerate(events)
    ]


def _nothing(_item: dict[str, Json]) -> list[dict[str, Json]]:
    return []


def _grow_message(item: dict[str, Json]) -> list[dict[str, Json]]:
    events: list[dict[str, Json]] = []
    for index, part in enumerate(as_objects(item.get("content"))):
        at = {"content_index": index}
        refused = part.get("type") == "refusal"
        kind, member = ("refusal", "refusal") if refused else ("output_text", "text")
        more: dict[str, Json] = {} if refused else {"logprobs": []}
        text = as_text(part.get(member))
        events += [
            {"type": "response.content_part.added", "part": part | {member: ""}, **at},
            {"type": f"response.{kind}.delta", "delta": text, **more, **at},
            {"type": f"response.{kind}.done", member: text, **more, **at},
            {"type": "response.content_part.done", "part": part, **at},
        ]
    return events


def _grow_reasoning(item: dict[str, Json]) -> list[dict[str, Json]]:
    events: list[dict[str, Json]] = []
    for index, part in enumerate(as_objects(item.get("summary"))):
        at = {"summary_index": index}
        text = as_text(part.get("text"))
        events += [
            {"type": "response.reasoning_summary_part.added", "part": part | {"text": ""}, **at},
            {"type": "response.reasoning_summary_text.delta", "delta": text, **at},
            {"type": "response.reasoning_summary_text.done", "text": text, **at},
            {"type": "response.reasoning_summary_part.done", "part": part, **at},
        ]
    return events


def _grow_call(item: dict[str, Json]) -> list[dict[str, Json]]:
    arguments = as_text(item.get("arguments"))
    name = {"name": item.get("name")}
    return [
        {"type": "response.function_call_arguments.delta", "delta": arguments},
        {"type": "response.function_call_arguments.done", "arguments": arguments, **name},
    ]


def _grow_custom(item: dict[str, Json]) -> list[dict[str, Json]]:
    text = as_text(item.get("input"))
    return [
        {"type": "response.custom_tool_call_input.delta", "delta": text},
        {"type": "response.custom_tool_call_input.done", "input": text},
    ]


_UNFINISHED: dict[str, Json] = {"status": "in_progress"}
_GROWN: dict[str, tuple[Callable[[dict[str, Json]], list[dict[str, Json]]], dict[str, Json]]] = {
    "message": (_grow_message, _UNFINISHED | {"content": []}),
    "reasoning": (_grow_reasoning, {"summary": []}),
    "function_call": (_grow_call, _UNFINISHED | {"arguments": ""}),
    "custom_tool_call": (_grow_custom, {"input": ""}),
}
"""Item → how it grows, and what is empty before it does."""
