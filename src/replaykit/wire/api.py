"""An API, as one exchange speaks it: reads what was said, and writes an answer it could have said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

import msgspec
import orjson
from msgspec import Struct
from msgspec.structs import replace

from replaykit.model.events import ErrorInfo, Usage
from replaykit.model.values import ABSENT, Json, JsonObject, raw
from replaykit.wire.dialect import ApiDialect, Draft, FoldedStream, WireRequest
from replaykit.wire.eventstream import EventStreamSplitter, encode_frames
from replaykit.wire.frames import ArraySplitter, Frame, LineSplitter, Splitter, SseSplitter
from replaykit.wire.json_fields import as_object, dump, load_object, text_at, text_in
from replaykit.wire.model_calls import ModelAnswer, ModelCall, ModelOutcome

_FIRST_ERROR = 400  # of the HTTP statuses


class Framing(Enum):
    """The formats of streams, by their content type."""

    SSE = "text/event-stream"
    LINES = "application/x-ndjson"
    ARRAY = "application/json"
    AWS = "application/vnd.amazon.eventstream"


_SPLITTERS: dict[Framing, Callable[[], Splitter]] = {
    Framing.SSE: SseSplitter,
    Framing.LINES: LineSplitter,
    Framing.ARRAY: ArraySplitter,
    Framing.AWS: EventStreamSplitter,
}


class EncodedResponse(Struct, frozen=True):
    """A response with status 200, as it goes over the wire."""

    content_type: str
    chunks: tuple[bytes, ...]


class ModelApi(Struct, frozen=True, kw_only=True):
    """The API that an exchange speaks, and what its path says; `wire.routes.api_of` finds it."""

    dialect: ApiDialect
    framing: Framing = Framing.SSE
    model: str = ""
    """The model, where the path names it."""
    streamed: bool | None = None
    """True when the answer is a stream, where the path says it."""

    @property
    def name(self) -> str:
        """Such as `openai.chat`."""
        return self.dialect.name

    def read(self, request: bytes, status: int, chunks: Sequence[bytes]) -> ModelCall:
        """The exchange as a model call. `chunks` are the response's bytes, with no content encoding.

        Never raises: what could not be understood is told in `problem`. Whether the response is a body or a stream,
        and which, is told from its bytes, since content types are often wrong.
        """
        request_parts, outcome = self.read_request(request), self.read_response(status, chunks)
        fields = msgspec.structs.asdict(outcome)
        fields |= {"model": request_parts.model or outcome.model, "problem": request_parts.problem or outcome.problem}
        return ModelCall(
            api=self.name,
            system=request_parts.system,
            messages=request_parts.messages,
            tools=request_parts.tools,
            parameters=request_parts.parameters,
            streamed=request_parts.streamed,
            **fields,
        )

    def read_response(self, status: int, chunks: Sequence[bytes]) -> ModelOutcome:
        """The same for the response alone."""
        folded = self._response(chunks)
        if status >= _FIRST_ERROR:
            return ModelOutcome(error=error_of(folded.error or _any_json(b"".join(chunks)), status))
        response = self.dialect.read_response(folded.body)
        answer, problem, error = None, folded.problem, None
        if folded.error is not None:
            error = error_of(folded.error)
        elif folded.body.get("error"):
            error = error_of(folded.body)
        if response.answers:
            answer = response.answers[0]
        elif folded.ended and error is None:
            problem = problem or "the response holds no answer"
        return ModelOutcome(
            model=response.model,
            answer=answer,
            alternatives=response.answers[1:],
            finish_reason=response.finish_reason,
            usage=response.usage,
            response_id=response.id,
            error=error,
            complete=folded.ended and response.complete,
            problem=problem,
        )

    def write(
        self,
        answer: ModelAnswer,
        *,
        request: bytes,
        like: Sequence[bytes] = (),
        finish_reason: str | None = None,
        usage: Usage | None = None,
        seed: bytes = b"",
    ) -> EncodedResponse:
        """A response to the request that carries the answer: a stream where the request asks for one.

        `like` is the recorded response: ids, model, usage and whatever the answer does not speak of are taken from
        it, also the signatures of thinking that stays the same. Without one, or with an error, the usage is the given
        one, and ids are made up from `seed`, or else from the request. The reason to finish follows from the answer,
        unless it is given in the API's own word. Raises `UsageError` for what the API cannot carry.
        """
        self.dialect.check(answer)
        request_parts = self.read_request(request)
        recorded = self._response(like).body
        draft = Draft(
            answer=answer,
            request=request_parts,
            seed=seed or request,
            finish_reason=finish_reason,
            usage=usage or Usage(),
        )
        if not self.dialect.read_response(recorded).answers:
            recorded = {}  # an error: it has nothing that an answer could be filled into
        body = self.dialect.fill(recorded, draft)
        if not request_parts.streamed:
            return EncodedResponse("application/json", (dump(body),))
        frames = self.dialect.unfold(body, request_parts)
        return EncodedResponse(self.framing.value, tuple(_encoded(self.framing, frames)))

    def read_request(self, request: bytes) -> WireRequest:
        """The request, taken apart; what the path says completes it."""
        body = load_object(request)
        request_parts = self.dialect.read_request(body or {})
        if body is not None and not self.model and self.streamed is None:
            return request_parts
        streamed, problem = request_parts.streamed, request_parts.problem
        if self.streamed is not None:
            streamed = self.streamed
        if body is None:
            problem = "the request is no JSON object"
        model = request_parts.model or self.model
        return replace(request_parts, model=model, streamed=streamed, problem=problem)

    def _response(self, chunks: Sequence[bytes]) -> FoldedStream:
        """The response as a body: as it is, or folded from its stream."""
        form = _detect_framing(chunks)
        if form is None:
            whole = b"".join(chunks)
            body = load_object(whole)
            if body is not None:
                return FoldedStream(body=body, ended=True)
            if not whole.strip():
                return FoldedStream(body={}, ended=False, problem="the response is empty")
            if self.framing is not Framing.LINES:
                return FoldedStream(body={}, ended=False, problem="the response is no whole JSON object")
        # One line alone begins like an object, so Ollama's streams are told by what the path says.
        splitter = _SPLITTERS[form or Framing.LINES]()
        folded = self.dialect.fold([*splitter.feed(b"".join(chunks)), *splitter.close()])
        if splitter.problem is None or folded.problem is not None:
            return folded
        return replace(folded, problem=splitter.problem)


def _detect_framing(chunks: Sequence[bytes]) -> Framing | None:
    """The framing that the first byte shows; None for an object, or nothing at all."""
    for chunk in chunks:
        first = chunk.lstrip()[:1]
        if first:
            return {b"{": None, b"[": Framing.ARRAY, b"\0": Framing.AWS}.get(first, Framing.SSE)
    return None


def _any_json(whole: bytes) -> Json:
    """The JSON of an error's body, or its text."""
    try:
        return orjson.loads(whole)
    except orjson.JSONDecodeError:
        return whole.decode("utf-8", "replace")


def _encoded(framing: Framing, frames: list[Frame]) -> list[bytes]:
    if framing is Framing.AWS:
        return encode_frames(frames)
    if framing is Framing.LINES:
        return [frame.data + b"\n" for frame in frames]
    if framing is Framing.ARRAY:
        return [b"[", *(b",\r\n" * (number > 0) + frame.data for number, frame in enumerate(frames)), b"]"]
    return list(map(_sse, frames))


def _sse(frame: Frame) -> bytes:
    data = b"data: " + frame.data + b"\n\n"
    if frame.name:
        return b"event: " + frame.name.encode() + b"\n" + data
    return data


_MAX_TEXT = 2000  # of an error that is no JSON: the page of some proxy on the way


def error_of(value: Json, status: int | None = None) -> ErrorInfo:
    """The error that a body or an event tells of; `value` is text where it was no JSON."""
    if type(value) is list and value:
        value = value[0]
    body = as_object(value)
    inner = body.get("error", body)
    details = as_object(inner)
    message = details.get("message") or details.get("Message") or details.get("detail")
    if type(inner) is str:
        message = inner
    elif type(value) is str:
        message = value[:_MAX_TEXT].strip()
    if type(message) is not str:
        message = _message_text(message)
    attributes = {"status": status, "code": details.get("code"), "param": details.get("param")}
    known = {name: item for name, item in attributes.items() if type(item) in (str, int)}
    attributes_json = ABSENT
    if known:
        attributes_json = raw(known)
    return ErrorInfo(type=_error_type(details, status), message=message, attributes_json=attributes_json)


def _error_type(details: JsonObject, status: int | None) -> str:
    """The most telling of the names an error has."""
    kind = text_at(details, "type")
    if kind == "error":
        kind = ""
    name = kind or text_in(details, "status", "code")
    if not name and status:
        return f"http_{status}"
    return name or "error"


def _message_text(message: Json) -> str:
    if message is None:
        return ""
    return bytes(raw(message)).decode()[:_MAX_TEXT]


_LENGTH, _FILTER = "length", "filter"
_MEANINGS = {
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "model_context_window_exceeded"), _LENGTH),
    **dict.fromkeys(("content_filter", "content-filter", "safety", "refusal", "prohibited_content"), _FILTER),
    **dict.fromkeys(("recitation", "blocklist", "spii"), _FILTER),
}
"""Words that say more than that an answer, or the call of a tool, was complete: that follows from the answer."""
_WORDS = {
    "openai.chat": {_LENGTH: "length", _FILTER: "content_filter"},
    "openai.completions": {_LENGTH: "length", _FILTER: "content_filter"},
    "openai.responses": {_LENGTH: "max_output_tokens", _FILTER: "content_filter"},
    "anthropic.messages": {_LENGTH: "max_tokens", _FILTER: "refusal"},
    "gemini.generate": {_LENGTH: "MAX_TOKENS", _FILTER: "SAFETY"},
}
_OWN = {
    "anthropic.messages": ("stop_sequence", "pause_turn", "model_context_window_exceeded"),
    "gemini.generate": ("RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MALFORMED_FUNCTION_CALL"),
}
"""Words of an API that are more exact than those above."""


def finish_reason_in(api: str, reason: str | None) -> str | None:
    """Return the word that an API has for a reason; None where the reason follows from the answer itself."""
    if reason is None or reason in _OWN.get(api, ()):
        return reason
    meaning = _MEANINGS.get(reason.lower())
    if meaning is None:
        return None
    return _WORDS.get(api, {}).get(meaning, "length" if meaning == _LENGTH else None)
