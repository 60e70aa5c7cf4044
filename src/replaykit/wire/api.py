"""The API of an exchange: reads requests and responses, and writes answers in its format."""

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
    """The stream formats, by content type."""

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
    """A response with status 200, encoded."""

    content_type: str
    chunks: tuple[bytes, ...]


class ModelApi(Struct, frozen=True, kw_only=True):
    """The API of an exchange, with what its path states; found by `wire.routes.api_of`."""

    dialect: ApiDialect
    framing: Framing = Framing.SSE
    model: str = ""
    """The model, if the path names it."""
    streamed: bool | None = None
    """True for a stream, if the path tells."""

    @property
    def name(self) -> str:
        """The name, such as `openai.chat`."""
        return self.dialect.name

    def read(self, request: bytes, status: int, chunks: Sequence[bytes]) -> ModelCall:
        """Read an exchange as a model call. `chunks` are the response's bytes, without content encoding.

        Never raises: `problem` reports what could not be read. The form of the response is detected from its bytes,
        since content types are often wrong.
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
        """Read the response alone."""
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
        """Return a response to the request with this answer: a stream if the request asks for one.

        `like` is the recorded response, which supplies ids, model, usage and everything else that the answer does not
        cover, including signatures of unchanged thoughts. Without one, or with an error, the usage is the given one,
        and ids derive from `seed` or the request. The finish reason follows from the answer unless it is given in the
        API's own words. Raises `UsageError` for content that the API cannot carry.
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
            recorded = {}  # an error has no place for an answer
        body = self.dialect.fill(recorded, draft)
        if not request_parts.streamed:
            return EncodedResponse("application/json", (dump(body),))
        frames = self.dialect.unfold(body, request_parts)
        return EncodedResponse(self.framing.value, tuple(_encoded(self.framing, frames)))

    def read_request(self, request: bytes) -> WireRequest:
        """Read the request, completed by what the path states."""
        body = load_object(request)
        request_parts = self.dialect.read_request(body or {})
        if body is not None and not self.model and self.streamed is None:
            return request_parts
        streamed, problem = request_parts.streamed, request_parts.problem
        if self.streamed is not None:
            streamed = self.streamed
        if body is None:
            problem = "the request is not a JSON object"
        model = request_parts.model or self.model
        return replace(request_parts, model=model, streamed=streamed, problem=problem)

    def _response(self, chunks: Sequence[bytes]) -> FoldedStream:
        """Return the response's body: as it is, or folded from a stream."""
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
        # A single line looks like an object, so Ollama's streams are recognised by the path.
        splitter = _SPLITTERS[form or Framing.LINES]()
        folded = self.dialect.fold([*splitter.feed(b"".join(chunks)), *splitter.close()])
        if splitter.problem is None or folded.problem is not None:
            return folded
        return replace(folded, problem=splitter.problem)


def _detect_framing(chunks: Sequence[bytes]) -> Framing | None:
    """Return the framing that the first byte shows; None for an object, or an empty response."""
    for chunk in chunks:
        first = chunk.lstrip()[:1]
        if first:
            # An AWS frame starts with its length, whose first byte is zero below 16 MB.
            return {b"{": None, b"[": Framing.ARRAY, b"\0": Framing.AWS}.get(first, Framing.SSE)
    return None


def _any_json(whole: bytes) -> Json:
    """Return an error's body as JSON, or else as text."""
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


_MAX_TEXT = 2000  # for errors that are not JSON, such as the page of a proxy


def error_of(value: Json, status: int | None = None) -> ErrorInfo:
    """Return the error in a body or an event; `value` is text if it is not JSON."""
    # Gemini sends errors of an array stream as an array.
    if type(value) is list and value:
        value = value[0]
    body = as_object(value)
    # Ollama has the text itself under `error`, AWS and FastAPI have no such member.
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
    plain_attributes = {name: item for name, item in attributes.items() if type(item) in (str, int)}
    attributes_json = ABSENT
    if plain_attributes:
        attributes_json = raw(plain_attributes)
    return ErrorInfo(type=_error_type(details, status), message=message, attributes_json=attributes_json)


def _error_type(details: JsonObject, status: int | None) -> str:
    """Return the most specific name of an error."""
    kind = text_at(details, "type")
    if kind == "error":  # the type of the event, which says nothing about the error
        kind = ""
    # Gemini's `status` is a name such as `RESOURCE_EXHAUSTED`.
    name = kind or text_in(details, "status", "code")
    if not name and status:
        return f"http_{status}"
    return name or "error"


def _message_text(message: Json) -> str:
    if message is None:
        return ""
    return bytes(raw(message)).decode()[:_MAX_TEXT]


_LENGTH, _FILTER = "length", "filter"
# Reasons other than a complete answer or tool call, which follows from the answer.
_MEANINGS = {
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "model_context_window_exceeded"), _LENGTH),
    **dict.fromkeys(("content_filter", "content-filter", "safety", "refusal", "prohibited_content"), _FILTER),
    **dict.fromkeys(("recitation", "blocklist", "spii"), _FILTER),
}
_WORDS = {
    "openai.chat": {_LENGTH: "length", _FILTER: "content_filter"},
    "openai.completions": {_LENGTH: "length", _FILTER: "content_filter"},
    "openai.responses": {_LENGTH: "max_output_tokens", _FILTER: "content_filter"},
    "anthropic.messages": {_LENGTH: "max_tokens", _FILTER: "refusal"},
    "gemini.generate": {_LENGTH: "MAX_TOKENS", _FILTER: "SAFETY"},
}
# API-specific reasons that are more precise than those above.
_OWN = {
    "anthropic.messages": ("stop_sequence", "pause_turn", "model_context_window_exceeded"),
    "gemini.generate": ("RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MALFORMED_FUNCTION_CALL"),
}


def finish_reason_in(api: str, reason: str | None) -> str | None:
    """Return an API's word for a finish reason; None if it follows from the answer."""
    if reason is None or reason in _OWN.get(api, ()):
        return reason
    meaning = _MEANINGS.get(reason.lower())
    if meaning is None:
        return None
    return _WORDS.get(api, {}).get(meaning, "length" if meaning == _LENGTH else None)
