"""Gemini `generateContent`: contents made of parts; Gemini API and Vertex. Each event of a stream is a response."""

from __future__ import annotations

from collections.abc import Iterable

from replaykit.errors import UsageError
from replaykit.model.jsonpath import PathStep, Pick, parse_path
from replaykit.model.text_lines import words_of
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
    as_index,
    dump,
    has_object,
    joined_at,
    nth,
    object_in,
    objects_in,
    text_at,
    text_in,
    text_or_last,
    without,
)
from replaykit.wire.model_calls import ModelAnswer, ToolUse, usage_of

# Members that mark other parts of an answer.
_PARTS = frozenset(
    ("inlineData", "fileData", "executableCode", "codeExecutionResult", "functionResponse", "toolCall", "toolResponse")
)
_INPUTS = ("promptTokenCount", "toolUsePromptTokenCount")
_OUTPUTS = ("candidatesTokenCount", "thoughtsTokenCount")


def _read_request(body: JsonObject) -> WireRequest:
    system = "systemInstruction"
    if "system_instruction" in body:
        system = "system_instruction"
    return split_request(body, "contents", system=system)


def _read_response(body: JsonObject) -> WireResponse:
    candidates = objects_in(body, "candidates")
    feedback = object_in(body, "promptFeedback")
    answers = tuple(map(_answer, map(_parts, candidates)))
    reason = text_in(feedback, "blockReason") or None
    if candidates:
        reason = text_at(candidates[0], "finishReason") or None
    elif refusal := _refusal(feedback):
        answers = (ModelAnswer(refusal=refusal),)
    return WireResponse(
        answers=answers,
        finish_reason=reason,
        usage=usage_of(body.get("usageMetadata"), inputs=_INPUTS, outputs=_OUTPUTS),
        id=text_at(body, "responseId"),
        model=text_at(body, "modelVersion"),
    )


def _refusal(feedback: JsonObject) -> str | None:
    return text_in(feedback, "blockReasonMessage", "blockReason") or None


def _parts(candidate: JsonObject) -> list[JsonObject]:
    return objects_in(object_in(candidate, "content"), "parts")


def _answer(parts: list[JsonObject]) -> ModelAnswer:
    return ModelAnswer(
        content=_text(parts, thought=False),
        tool_calls=tuple(map(_call, filter(_is_call, parts))),
        thinking=_text(parts, thought=True),
        parts=tuple(filter(_is_other, parts)),
    )


def _is_other(part: JsonObject) -> bool:
    return "text" not in part and not _is_call(part) and part.keys() != {"thoughtSignature"}


def _text_parts(parts: list[JsonObject], *, thought: bool) -> list[JsonObject]:
    return [part for part in parts if "text" in part and bool(part.get("thought")) is thought]


def _text(parts: list[JsonObject], *, thought: bool) -> str | None:
    return joined_at(_text_parts(parts, thought=thought), "text")


def _is_call(part: JsonObject) -> bool:
    return has_object(part, "functionCall")


def _call(part: JsonObject) -> ToolUse:
    call = part["functionCall"]
    return ToolUse(id=text_at(call, "id"), name=text_at(call, "name"), arguments=object_in(call, "args"))


def _fill(recorded: JsonObject, draft: Draft) -> JsonObject:
    tokens_in, tokens_out = draft.tokens
    counts = {
        "promptTokenCount": tokens_in,
        "candidatesTokenCount": tokens_out,
        "totalTokenCount": tokens_in + tokens_out,
    }
    envelope: JsonObject = {"modelVersion": draft.request.model, "responseId": draft.mint("")}
    if not recorded:
        envelope["usageMetadata"] = counts
    rest = without(recorded, "promptFeedback", "candidates")
    if draft.answer.refusal:
        return envelope | rest | {"promptFeedback": _blocked(object_in(recorded, "promptFeedback"), draft)}
    first, *others = objects_in(recorded, "candidates") or [{}]
    return envelope | rest | {"candidates": [_candidate(_parts(first), draft), *others]}


def _blocked(recorded: JsonObject, draft: Draft) -> JsonObject:
    """Return a blocked prompt: the only refusal with a text, which excludes any answer."""
    answer = draft.answer
    if answer.content or answer.thinking or answer.tool_calls or answer.parts:
        raise UsageError("an answer of gemini.generate is refused or says something, not both")
    if _refusal(recorded) == answer.refusal:
        return recorded
    return {"blockReason": draft.finish_reason or "OTHER", "blockReasonMessage": answer.refusal}


def _candidate(before: list[JsonObject], draft: Draft) -> JsonObject:
    calls = list(filter(_is_call, before))
    answer = draft.answer
    parts = [
        *_texts(before, answer.thinking, thought=True),
        *answer.parts,
        *_texts(before, answer.content, thought=False),
    ]
    for index, call in enumerate(answer.tool_calls):
        parts.append(_function_call(call, nth(calls, index)))
    content = {"parts": parts, "role": "model"}
    return {"content": content, "finishReason": draft.finish_reason or "STOP", "index": 0}


def _texts(before: list[JsonObject], content: str | None, *, thought: bool) -> list[JsonObject]:
    """Return the recorded parts with their signatures, unless the answer has another text."""
    if content == _text(before, thought=thought):
        return _text_parts(before, thought=thought)
    if not content:
        return []
    return [_text_part(content, thought=thought)]


def _text_part(text: str, *, thought: bool) -> JsonObject:
    if thought:
        return {"text": text, "thought": True}
    return {"text": text}


def _function_call(call: ToolUse, recorded: JsonObject) -> JsonObject:
    members: JsonObject = {}
    if identity := call.id or text_at(object_in(recorded, "functionCall"), "id"):
        members["id"] = identity
    return recorded | {"functionCall": members | {"name": call.name, "args": object_arguments(call)}}


_VALUES = ("stringValue", "numberValue", "boolValue")


def fold(frames: Iterable[Frame]) -> FoldedStream:
    """Return the response that the events form; it ends with a finish reason, or when the prompt was blocked."""
    events = StreamEvents(frames)
    top: JsonObject = {}
    candidates: dict[int, _Candidate] = {}
    for event in events:
        if event.get("error"):
            events.error = event
        top |= without(event, "candidates", "error")
        for candidate in objects_in(event, "candidates"):
            candidates.setdefault(as_index(candidate.get("index")), _Candidate()).add(candidate)
    bodies = [candidates[index].body() for index in sorted(candidates)]
    ended = bool(object_in(top, "promptFeedback").get("blockReason"))
    if bodies:
        top["candidates"] = bodies
        ended = ended or all(body.get("finishReason") for body in bodies)
    return events.folded(top, ended=ended)


class _Candidate:
    """A growing answer of a stream."""

    def __init__(self) -> None:
        self._rest: JsonObject = {}
        self._content: JsonObject = {}
        self._parts: list[_GrowingText | _GrowingCall | JsonObject] = []

    def add(self, candidate: JsonObject) -> None:
        content = object_in(candidate, "content")
        self._rest |= without(candidate, "content")
        self._content |= without(content, "parts")
        for part in objects_in(content, "parts"):
            self._add_part(part)

    def _add_part(self, part: JsonObject) -> None:
        last = None
        if self._parts:
            last = self._parts[-1]
        call = part.get("functionCall")
        if type(call) is dict:
            if isinstance(last, _GrowingCall) and last.goes_on and not call.get("name"):
                last.add(part, call)
            else:
                self._parts.append(_GrowingCall(part, call))
        # A part with a signature or a file is complete: only bare texts continue in the next event.
        elif part.keys() <= {"text", "thought"} and type(part.get("text")) is str:
            thought = bool(part.get("thought"))
            if not (isinstance(last, _GrowingText) and last.thought is thought):
                last = _GrowingText(thought)
                self._parts.append(last)
            last.pieces.append(part["text"])
        else:
            self._parts.append(part)

    def body(self) -> JsonObject:
        parts = [part if isinstance(part, dict) else part.body() for part in self._parts]
        return self._rest | {"content": {"role": "model", **self._content, "parts": parts}}


class _GrowingText:
    """A text that arrives in pieces."""

    def __init__(self, thought: bool) -> None:
        self.thought = thought
        self.pieces: list[str] = []

    def body(self) -> JsonObject:
        return _text_part("".join(self.pieces), thought=self.thought)


class _GrowingCall:
    """A function call, whose arguments may arrive in pieces with a path each."""

    def __init__(self, part: JsonObject, call: JsonObject) -> None:
        self.goes_on = False
        self._part: JsonObject = {}
        self._call: JsonObject = {}
        self._values: dict[str, list[Json]] = {}
        self.add(part, call)

    def add(self, part: JsonObject, call: JsonObject) -> None:
        self.goes_on = call.get("willContinue") is True
        self._part |= without(part, "functionCall")
        self._call |= without(call, "partialArgs", "willContinue")
        for piece in objects_in(call, "partialArgs"):
            value = next((piece[name] for name in _VALUES if name in piece), None)
            self._values.setdefault(text_at(piece, "jsonPath"), []).append(value)

    def body(self) -> JsonObject:
        if not self._values:
            return self._part | {"functionCall": self._call}
        arguments: JsonObject = dict(object_in(self._call, "args"))
        for path, values in self._values.items():
            _put(arguments, path, text_or_last(values))
        return self._part | {"functionCall": self._call | {"args": arguments}}


def _put(arguments: JsonObject, path: str, value: Json) -> None:
    """Set the value at a path; ignore an invalid path."""
    try:
        steps = parse_path(path).steps
    except ValueError:
        return
    place: Json = arguments
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        item = value
        if following is not None:
            item = {}
            if following.pick is Pick.ITEM:
                item = []
        place = _step(place, step, item, last=following is None)
        if place is None:
            return


def _step(place: Json, step: PathStep, item: Json, *, last: bool) -> Json:
    """Go one step down, and create what is missing; a list only grows by one."""
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


def unfold(body: JsonObject, _request: WireRequest) -> list[Frame]:
    """Return one event per part; the last of each answer has the finish reason, the very last has the usage."""
    if not objects_in(body, "candidates"):
        return [Frame(dump(body))]
    base = without(body, "candidates", "usageMetadata")
    events: list[JsonObject] = []
    for candidate in objects_in(body, "candidates"):
        content = object_in(candidate, "content")
        parts: list[Json] = objects_in(content, "parts") or [{"text": ""}]
        for number, part in enumerate(parts, 1):
            rest = {"index": candidate.get("index", 0)}
            if number == len(parts):
                rest = without(candidate, "content")
            events.append(base | {"candidates": [rest | {"content": content | {"parts": [part]}}]})
    if "usageMetadata" in body:
        events[-1] = events[-1] | {"usageMetadata": body["usageMetadata"]}
    return [Frame(dump(event)) for event in events]


DIALECT = ApiDialect(
    name="gemini.generate",
    read_request=_read_request,
    read_response=_read_response,
    fold=fold,
    fill=_fill,
    unfold=unfold,
    holds=lambda part: not _PARTS.isdisjoint(part),
    minted=MintedIds(
        conversation=("contents",),
        ids=("id", "thoughtSignature", "thought_signature"),
        into=tuple(
            words_of(
                "parts functionCall functionResponse toolCall toolResponse executableCode codeExecutionResult "
                "function_call function_response"
            )
        ),
    ),
)
