"""Streams of messages: blocks that start, grow and stop, between the start and the stop of a message."""

from __future__ import annotations

from collections.abc import Iterable

from replaykit.model.values import Json
from replaykit.wire.dialect import FoldedStream, WireRequest
from replaykit.wire.frames import Frame
from replaykit.wire.json_fields import as_object, as_objects, as_text, dump, dump_arguments, load_arguments
from replaykit.wire.stream_events import StreamEvents

_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
_AT_STOP = ("stop_reason", "stop_sequence", "stop_details", "container")
_GROWS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "input_json_delta": "partial_json",
    "compaction_delta": "content",
}
"""Delta → its member that is a piece of text."""


def fold(frames: Iterable[Frame]) -> FoldedStream:
    """The message that the events add up to; it ends with `message_stop`."""
    events = StreamEvents(frames)
    message: dict[str, Json] = {}
    blocks: dict[int, _Block] = {}
    ended = False
    for event in events:
        kind = as_text(event.get("type"))
        index = event.get("index")
        if kind == "message_start":
            message = dict(as_object(event.get("message")))
        elif kind == "content_block_start" and type(index) is int:
            blocks[index] = _Block(as_object(event.get("content_block")))
        elif kind == "content_block_delta" and type(index) is int:
            blocks.setdefault(index, _Block({})).add(as_object(event.get("delta")))
        elif kind == "message_delta":
            message |= as_object(event.get("delta"))
            message["usage"] = as_object(message.get("usage")) | _counted(event.get("usage"))
        elif kind == "message_stop":
            ended = True
        elif kind == "error" or (event.get("error") and not kind):
            events.error = event
    if message or blocks:
        message["content"] = [blocks[index].body() for index in sorted(blocks)]
    return events.folded(message, ended=ended)


def _counted(usage: Json) -> dict[str, Json]:
    """Counts are totals so far; one that is not given leaves the one before."""
    return {name: count for name, count in as_object(usage).items() if count is not None}


class _Block:
    """A block of a stream, while it grows."""

    def __init__(self, block: dict[str, Json]) -> None:
        self._block = block
        self._pieces: dict[str, list[str]] = {}
        self._citations: list[Json] = []
        self._rest: dict[str, Json] = {}

    def add(self, delta: dict[str, Json]) -> None:
        kind = as_text(delta.get("type"))
        if kind in _GROWS:
            self._pieces.setdefault(_GROWS[kind], []).append(as_text(delta.get(_GROWS[kind])))
        elif kind == "citations_delta":
            self._citations.append(delta.get("citation"))
        if kind in ("signature_delta", "compaction_delta"):
            self._rest |= {name: value for name, value in delta.items() if name not in ("type", "content")}

    def body(self) -> dict[str, Json]:
        block: dict[str, Json] = {"type": _TYPES.get(next(iter(self._pieces), ""), "text")} | self._block | self._rest
        for name, pieces in self._pieces.items():
            text = "".join(pieces)
            if name == "partial_json":
                block["input"] = load_arguments(text) if text else block.get("input", {})
            else:
                block[name] = as_text(block.get(name)) + text
        if self._citations:
            block["citations"] = self._citations
        return block


_TYPES = {"thinking": "thinking", "partial_json": "tool_use"}
"""The type of a block whose start is missing, by the member that grew."""


def unfold(body: dict[str, Json], _request: WireRequest) -> list[Frame]:
    """The events of a message."""
    stop = {name: body[name] for name in _AT_STOP if name in body}
    began = body | dict.fromkeys(stop) | {"content": []}
    events: list[dict[str, Json]] = [{"type": "message_start", "message": began}]
    for index, block in enumerate(as_objects(body.get("content"))):
        empty, deltas = _grown(block)
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    usage = {"output_tokens": 0} | as_object(body.get("usage"))
    events += [{"type": "message_delta", "delta": stop, "usage": usage}, {"type": "message_stop"}]
    return [Frame(dump(event), as_text(event["type"])) for event in events]


def _grown(block: dict[str, Json]) -> tuple[dict[str, Json], list[dict[str, Json]]]:
    """The block before it grew, and the deltas that make it grow."""
    kind = block.get("type")
    if kind == "text":
        deltas = [{"type": "citations_delta", "citation": cited} for cited in as_objects(block.get("citations"))]
        return block | {"text": ""} | ({"citations": []} if deltas else {}), [
            {"type": "text_delta", "text": block.get("text")},
            *deltas,
        ]
    if kind == "thinking":
        return block | {"thinking": "", "signature": ""}, [
            {"type": "thinking_delta", "thinking": block.get("thinking")},
            {"type": "signature_delta", "signature": block.get("signature", "")},
        ]
    if kind in _CALLS:
        text = dump_arguments(block.get("input", {}))
        return block | {"input": {}}, [{"type": "input_json_delta", "partial_json": text}]
    return block, []
