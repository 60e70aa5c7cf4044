"""Streams of `generateContent`: every event is a response that holds the next parts."""

from __future__ import annotations

from collections.abc import Iterable

from replaykit.model.jsonpath import PathStep, Pick, parse_path
from replaykit.model.values import Json
from replaykit.wire.dialect import FoldedStream, WireRequest
from replaykit.wire.frames import Frame
from replaykit.wire.json_fields import as_object, as_objects, as_text, dump, without
from replaykit.wire.stream_events import StreamEvents

_VALUES = ("stringValue", "numberValue", "boolValue")


def fold(frames: Iterable[Frame]) -> FoldedStream:
    """The response that the events add up to; it ends with a reason to finish, or when the prompt was blocked."""
    events = StreamEvents(frames)
    top: dict[str, Json] = {}
    candidates: dict[int, _Candidate] = {}
    for event in events:
        if event.get("error"):
            events.error = event
        top |= without(event, "candidates", "error")
        for candidate in as_objects(event.get("candidates")):
            index = candidate.get("index")
            candidates.setdefault(index if type(index) is int else 0, _Candidate()).add(candidate)
    bodies = [candidates[index].body() for index in sorted(candidates)]
    finished = bool(bodies) and all(body.get("finishReason") for body in bodies)
    blocked = as_object(top.get("promptFeedback")).get("blockReason")
    return events.folded(top | ({"candidates": bodies} if bodies else {}), ended=finished or bool(blocked))


class _Candidate:
    """One answer of a stream, while it grows."""

    def __init__(self) -> None:
        self._rest: dict[str, Json] = {}
        self._content: dict[str, Json] = {}
        self._parts: list[_GrowingText | _GrowingCall | dict[str, Json]] = []

    def add(self, candidate: dict[str, Json]) -> None:
        content = as_object(candidate.get("content"))
        self._rest |= without(candidate, "content")
        self._content |= without(content, "parts")
        for part in as_objects(content.get("parts")):
            self._add_part(part)

    def _add_part(self, part: dict[str, Json]) -> None:
        if self._parts:
            last = self._parts[-1]
        else:
            last = None
        call = part.get("functionCall")
        if type(call) is dict:
            if isinstance(last, _GrowingCall) and last.goes_on and not call.get("name"):
                last.add(part, call)
            else:
                self._parts.append(_GrowingCall(part, call))
        elif part.keys() <= {"text", "thought"} and type(part.get("text")) is str:
            thought = bool(part.get("thought"))
            if not (isinstance(last, _GrowingText) and last.thought is thought):
                last = _GrowingText(thought)
                self._parts.append(last)
            last.pieces.append(part["text"])
        else:
            self._parts.append(part)

    def body(self) -> dict[str, Json]:
        parts = [part if isinstance(part, dict) else part.body() for part in self._parts]
        return self._rest | {"content": {"role": "model", **self._content, "parts": parts}}


class _GrowingText:
    """A text that comes in pieces."""

    def __init__(self, thought: bool) -> None:
        self.thought = thought
        self.pieces: list[str] = []

    def body(self) -> dict[str, Json]:
        return {"text": "".join(self.pieces)} | ({"thought": True} if self.thought else {})


class _GrowingCall:
    """A function call; its arguments may come in pieces, each with the path it belongs to."""

    def __init__(self, part: dict[str, Json], call: dict[str, Json]) -> None:
        self.goes_on = False
        self._part: dict[str, Json] = {}
        self._call: dict[str, Json] = {}
        self._values: dict[str, list[Json]] = {}
        self.add(part, call)

    def add(self, part: dict[str, Json], call: dict[str, Json]) -> None:
        self.goes_on = call.get("willContinue") is True
        self._part |= without(part, "functionCall")
        self._call |= without(call, "partialArgs", "willContinue")
        for piece in as_objects(call.get("partialArgs")):
            value = next((piece[name] for name in _VALUES if name in piece), None)
            self._values.setdefault(as_text(piece.get("jsonPath")), []).append(value)

    def body(self) -> dict[str, Json]:
        if not self._values:
            return self._part | {"functionCall": self._call}
        arguments: dict[str, Json] = dict(as_object(self._call.get("args")))
        for path, values in self._values.items():
            _put(arguments, path, "".join(values) if all(type(value) is str for value in values) else values[-1])
        return self._part | {"functionCall": self._call | {"args": arguments}}


def _put(arguments: dict[str, Json], path: str, value: Json) -> None:
    """Set what the path names; one that leads nowhere sets nothing."""
    try:
        steps = parse_path(path).steps
    except ValueError:
        return
    place: Json = arguments
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        if following is None:
            item = value
        elif following.pick is Pick.ITEM:
            item = []
        else:
            item = {}
        place = _step(place, step, item, last=following is None)
        if place is None:
            return


def _step(place: Json, step: PathStep, item: Json, *, last: bool) -> Json:
    """One step down; what is not there yet is made, but a list only grows by one."""
    if step.pick is Pick.MEMBER and type(place) is dict:
        if last or type(place.get(step.key)) not in (dict, list):
            place[step.key] = item
        return place[step.key]
    if step.pick is Pick.ITEM and type(place) is list and type(step.key) is int and step.key <= len(place):
        if step.key == len(place):
            place.append(item)
        elif last:
            place[step.key] = item
        return place[step.key]
    return None


def unfold(body: dict[str, Json], _request: WireRequest) -> list[Frame]:
    """One event per part; the last of each answer says why it ended, and the last of all counts."""
    if not as_objects(body.get("candidates")):
        return [Frame(dump(body))]
    base = without(body, "candidates", "usageMetadata")
    events: list[dict[str, Json]] = []
    for candidate in as_objects(body.get("candidates")):
        content = as_object(candidate.get("content"))
        parts: list[Json] = as_objects(content.get("parts")) or [{"text": ""}]
        held = {"index": candidate.get("index", 0)}
        for number, part in enumerate(parts, 1):
            if number == len(parts):
                rest = without(candidate, "content")
            else:
                rest = held
            events.append(base | {"candidates": [rest | {"content": content | {"parts": [part]}}]})
    if "usageMetadata" in body:
        events[-1] = events[-1] | {"usageMetadata": body["usageMetadata"]}
    return [Frame(dump(event)) for event in events]
