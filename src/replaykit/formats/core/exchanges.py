"""Logged calls of model APIs, in the shapes that people log them.

    a conversation     [message, …], {messages: […]} (a line of fine-tuning data), a message on each line
    a request          {model, messages, tools, …}
    a response         {id, choices, usage, …}, an error's body
    a stream           its events in a list, on lines, or as the text of `data:` lines
    pairs of both      {request, response}, {body, response}, {messages, …, response}, {request, chunks}, in a list or
                       on lines; request and response may be the bodies, or have them in `body` beside a status
    batches            {custom_id, method, url, body} and {custom_id, response: {status_code, body}, error}

An API's own module describes the API as a `ConversationApi`; this module reads the shapes around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice

import orjson
from msgspec import Struct
from msgspec.structs import replace

from replaykit.errors import InvalidFile
from replaykit.formats.core.fields import Fields, json_type, time_in
from replaykit.formats.core.json_text import load_json
from replaykit.formats.core.registry import IMPORTERS, Found
from replaykit.formats.core.source import Source
from replaykit.formats.core.threads import ExchangeThreads, ModelExchange, Used
from replaykit.model.events import ErrorInfo
from replaykit.model.json_positions import DocumentPath
from replaykit.model.values import Json, JsonObject, dumps, encode
from replaykit.wire.api import ModelApi
from replaykit.wire.dialect import ApiDialect
from replaykit.wire.frames import SseSplitter
from replaykit.wire.json_fields import (
    as_object,
    as_objects,
    has_list,
    joined,
    load_object,
    object_in,
    objects_in,
    of_type,
    text_in,
    value_in,
    without,
)
from replaykit.wire.messages import TEXTS
from replaykit.wire.model_calls import ModelAnswer, ModelCall

_STREAM_STARTS = ("data:", "event:", ":", "id:", "retry:")
_FIRST_ERROR = 400
_LOOK_AT = 20

MISSING_REQUEST = "The requests are not in the file. Log each request beside its response."


class ConversationApi(Struct, frozen=True, kw_only=True):
    """How one API lays out a conversation."""

    dialect: ApiDialect
    conversation: str
    """The member of a request that holds the conversation."""
    read_messages: Callable[[Json], list[Json]]
    """Return a conversation's messages in the shape of `core.messages`, and answers in that of `wire.model_calls`."""
    is_message: Callable[[JsonObject], bool]
    is_response: Callable[[JsonObject], bool]
    is_event: Callable[[JsonObject], bool]
    """True for an event of a stream."""
    begins: Callable[[JsonObject, JsonObject], bool]
    """True if an event starts a new stream after another event."""
    is_certain: Callable[[JsonObject], bool]
    """True for an object that no other API produces."""
    whole: Callable[[Json], Json] = lambda body: body
    """Rebuild the response as the API sends it from the part that was logged."""
    normalize_request: Callable[[JsonObject], JsonObject] = lambda body: body
    """Return a request in the form that the API accepts."""
    answer: Callable[[ModelAnswer], ModelAnswer] = lambda answer: answer
    """Return the answer with every call that the agent has to make."""
    used: Callable[[ModelAnswer], list[Used]] = lambda _answer: []
    """Return the calls that the provider made for the answer."""
    history_id: Callable[[ModelCall], str] = lambda _call: ""
    """Return the id of the history that a request continues, if the provider keeps it."""
    keeps: Callable[[ModelCall], tuple[str, ...]] = lambda _call: ()
    """Return the ids under which the provider keeps the call itself."""
    advice: tuple[str, ...] = ()
    """Shown when the provider keeps the history."""

    def exchange(self, call: ModelCall, *, has_request: bool = True, **details: Json) -> ModelExchange:
        """Return the call in a common shape; `has_request` is false if only the response was logged."""
        if call.answer is not None:
            call = replace(call, answer=self.answer(call.answer))
        history_id = self.history_id(call)
        advice: tuple[str, ...] = ()
        if not has_request:
            advice = (MISSING_REQUEST,)
        elif history_id:
            advice = self.advice
        return ModelExchange(
            call=call,
            messages=self.read_messages(call.messages) if has_request else None,
            used=self.used,
            history_id=history_id,
            keeps=self.keeps(call),
            advice=advice,
            **details,
        )


class ExchangeImporter:
    """Reads logs of one API."""

    def __init__(self, name: str, title: str, api: ConversationApi) -> None:
        self.name, self.title, self.api = name, title, api

    def recognises(self, source: Source) -> bool:
        values = source.first or tuple(islice(_streamed(source, source.head), _LOOK_AT))
        return any(self.api.is_certain(part) for value in values for part in _parts(value, self.api))

    def read(self, source: Source) -> Iterator[Found]:
        threads = ExchangeThreads(self.name)
        reader = _Reader(self.title, self.api)
        for found in chain(chain.from_iterable(map(reader.read, source.documents())), reader.flush()):
            if isinstance(found, ModelExchange):
                yield from threads.add(found)
            else:
                yield found
        yield from threads.close()


def register_api(name: str, title: str, api: ConversationApi) -> None:
    """Register the format for logs of an API."""
    IMPORTERS.register(name)(ExchangeImporter(name, title, api))


class _Reader:
    """Takes a file apart, item by item. Consecutive messages, and consecutive events, belong together."""

    def __init__(self, title: str, api: ConversationApi) -> None:
        self._title, self._api = title, api
        self._messages: list[Json] = []
        self._events: list[Json] = []

    def read(self, document: Source) -> Iterator[ModelExchange | InvalidFile | str]:
        """Return the exchanges that this document completes; a list is complete by itself."""
        try:
            value = list(_streamed(document)) or document.value
        except InvalidFile as problem:
            yield problem
            return
        path: DocumentPath = ()
        if isinstance(value, dict) and value.get("object") == "list" and has_list(value, "data"):
            value, path = _in_order(value["data"]), ("data",)
        if not isinstance(value, list):
            yield from self._safely(value, document, path)
            return
        for index, item in enumerate(value):
            yield from self._safely(item, document, (*path, index))
        yield from self.flush()

    def _safely(self, item: Json, document: Source, path: DocumentPath) -> Iterator[ModelExchange | InvalidFile | str]:
        try:
            for exchange in self._take(item, document, path):
                yield exchange
                call = exchange.call
                if exchange.answered and call.problem and call.answer is None and call.error is None:
                    yield document.error(call.problem, path).message
        except InvalidFile as problem:
            yield problem

    def _take(self, item: Json, document: Source, path: DocumentPath) -> Iterator[ModelExchange]:
        api = self._api
        if isinstance(item, list):
            yield from self.flush()
            for index, inner in enumerate(item):  # a conversation or a stream of its own
                if isinstance(inner, list):
                    raise document.error(f"expected {self._title}, got a list", (*path, index))
                yield from self._take(inner, document, (*path, index))
            yield from self.flush()
        elif not isinstance(item, dict):
            raise document.error(f"expected {self._title}, got {json_type(item)}", path)
        elif api.is_event(item):
            if self._messages or (self._events and api.begins(item, self._events[-1])):
                yield from self.flush()
            self._events.append(item)
        elif api.is_message(item) and (self._messages or not api.is_response(item)):
            if self._events:
                yield from self.flush()
            self._messages.append(item)
        else:
            yield from self.flush()
            yield self._read_exchange(item, document, path)

    def flush(self) -> Iterator[ModelExchange]:
        """Return the exchanges gathered so far."""
        messages, events = self._messages, self._events
        self._messages, self._events = [], []
        if messages:
            # A logged conversation is over: no later exchange continues it.
            exchange = self._exchange({self._api.conversation: messages}, b"", 200)
            yield replace(exchange, answered=False, alone=True)
        if events:
            yield self._exchange(None, _text(self._api.whole(events)), 200, created(events[0]))

    def _read_exchange(self, item: JsonObject, document: Source, path: DocumentPath) -> ModelExchange:
        name = Fields(document, item, path).label("custom_id", "key") or ""
        exchange = self._half_or_both(item)
        is_read = exchange is not None and self._is_read(item, exchange)
        other = None if is_read else self._owner(item)
        if other is not None:
            hint = f"Name the format that it is of: --format {other.name}"
            raise document.error(f"expected {self._title}, got {other.title.partition(':')[0]}", path, hint=hint)
        if exchange is None or not (exchange.messages or exchange.call.answer or exchange.call.error):
            raise document.error(f"expected {self._title}, got {described(item)}", path)
        more = {"name": name, "alone": bool(name) or exchange.alone, **times(item, exchange.at)}
        return replace(exchange, **more)

    def _is_read(self, item: JsonObject, exchange: ModelExchange) -> bool:
        """Return whether the request and the answer are this API's, as far as one can tell."""
        api, call = self._api, exchange.call
        request, _response = halves(item, api.conversation)
        messages = as_objects(value_in(request, api.conversation))
        is_answer = not exchange.answered or call.answer is not None or call.error is not None
        return is_answer and all(map(api.is_message, messages[:_LOOK_AT]))

    def _owner(self, item: JsonObject) -> ExchangeImporter | None:
        """Return the other API that this exchange certainly belongs to: reading it as this one's would lose its
        calls."""
        for importer in IMPORTERS.values():
            if isinstance(importer, ExchangeImporter) and importer.api is not self._api:
                for part in _parts(item, importer.api):
                    if importer.api.is_certain(part) and not self._api.is_certain(part):
                        return importer
        return None

    def _half_or_both(self, item: JsonObject) -> ModelExchange | None:
        """Return the exchange that an object describes, if any."""
        if self._api.is_response(item):
            return self._answered(None, item, 200)
        if "exception" in item:
            wrong = next((item[name] for name in (*REQUESTS, *RESPONSES) if name in item), item)
            return self._failed(None, wrong, http_status(item), text_in(item, "exception"))
        request, response = halves(item, self._api.conversation)
        if self._is_foreign(response) and item.keys().isdisjoint(REQUESTS):
            return None
        if response is not None:
            return self._answered(request, *unwrapped(response))
        if item.get("error") is not None:
            return self._failed(request, item, http_status(item))
        if request is None:
            return None
        exchange = replace(self._exchange(request, b"", 200), answered=False)
        if "model" in request:
            return exchange
        return replace(exchange, alone=True)

    def _is_foreign(self, response: Json) -> bool:
        """Return whether this is a list of something other than this API's events: many formats have `events`."""
        body = self._api.whole(response)
        return isinstance(body, list) and not any(map(self._api.is_event, as_objects(body)))

    def _failed(self, request: JsonObject | None, body: Json, status: int, kind: str = "") -> ModelExchange:
        exchange = self._exchange(request, _text(body), status or _FIRST_ERROR)
        error = exchange.call.error
        if error is None or not kind:
            return exchange
        typed_error = ErrorInfo(type=kind, message=error.message, attributes_json=error.attributes_json)
        return replace(exchange, call=replace(exchange.call, error=typed_error))

    def _answered(self, request: JsonObject | None, response: Json, status: int) -> ModelExchange:
        """Return a request and its response, which may be the text of a body or a stream, or only the answer's text."""
        value = load_json(response)
        if isinstance(value, str) and value.lstrip().startswith(("{", *_STREAM_STARTS)):
            return self._exchange(request, value.encode("utf-8", "replace"), status)
        if isinstance(value, str):
            return self._spoken(request, value)
        body = self._api.whole(value)
        exchange = self._exchange(request, _text(body), status, created(body))
        if isinstance(response, str) and exchange.call.answer is None and exchange.call.error is None:
            # JSON, but not a body of this API: the model was asked for JSON, and only its answer was logged.
            return self._spoken(request, response)
        return exchange

    def _spoken(self, request: JsonObject | None, text: str) -> ModelExchange:
        """Return an exchange of which only the text of the answer was logged."""
        exchange = self._exchange(request, b"", 200)
        call = replace(exchange.call, answer=ModelAnswer(content=text), complete=True, problem=None)
        return replace(exchange, call=call)

    def _exchange(self, request: JsonObject | None, response: bytes, status: int, at: float = 0.0) -> ModelExchange:
        body = b"{}"
        if request is not None:
            body = _text(self._api.normalize_request(request))
        call = ModelApi(dialect=self._api.dialect).read(body, status, [response])
        return self._api.exchange(call, has_request=request is not None, at=at, size=len(body) + len(response))


def _text(value: Json) -> bytes:
    """Return the body as it was sent, or nearly so."""
    try:
        return dumps(value)
    except orjson.JSONEncodeError:
        return encode(value)


def _in_order(items: list[Json]) -> list[Json]:
    """Return the items of an API's list, oldest first, so that a result comes after its call."""
    calls: set[str] = set()
    for item in map(as_object, items):
        call_id = text_in(item, "call_id")
        # OpenAI lists the items of a conversation newest first by default.
        if text_in(item, "type").endswith("_output") and call_id not in calls:
            return items[::-1]
        calls.add(call_id)
    return items


def _streamed(source: Source, text: bytes | None = None) -> Iterator[JsonObject]:
    """Yield the events in a text of `data:` lines."""
    if not source.is_text or not source.head.lstrip().decode("utf-8", "replace").startswith(_STREAM_STARTS):
        return
    splitter = SseSplitter()
    for frame in (*splitter.feed(source.text if text is None else text), *splitter.close()):
        event = load_object(frame.data)
        if event is not None:
            yield event


def _parts(value: Json, api: ConversationApi, depth: int = 2) -> Iterator[JsonObject]:
    """Yield everything in a value that could identify its API: the value itself, halves of a pair, messages."""
    if isinstance(value, list) and depth:
        for item in value[:_LOOK_AT]:
            yield from _parts(item, api, depth - 1)
    if not isinstance(value, dict):
        return
    yield value
    if value.get("object") == "list":
        yield from _parts(value.get("data"), api)
    request, response = halves(value, api.conversation)
    body = None
    if response is not None:
        body = api.whole(unwrapped(response)[0])
    yield from as_objects([request, body])
    yield from objects_in(request, api.conversation)
    if isinstance(body, list):
        yield from filter(api.is_event, as_objects(body[:_LOOK_AT]))


REQUESTS = ("request", "request_body", "body", "params")
RESPONSES = ("response", "response_body", "completion", "chunks", "stream_events", "events", "result")
"""The names of the two halves of a pair."""

_BODIES = ("body", "json", "data", "params", "kwargs")
_STATUSES = ("status_code", "status")
_TIMES = ("timestamp", "started_at", "start_time", "time", "created_at")
_CREATED = ("created", "created_at", "createTime")
_DURATIONS = {"duration_s": 1.0, "duration_ms": 1e-3, "latency_ms": 1e-3, "latency_s": 1.0}
_LONGEST_S = 1e9
_AROUND_REQUEST = (*RESPONSES, *_TIMES, *_DURATIONS, "error", "custom_id")
_CALLS = ("tool_use", "tool_result", "tool-call", "tool-result")
_LAST_STATUS = 599


def halves(item: JsonObject, conversation: str) -> tuple[JsonObject | None, Json]:
    """Return the request's body and the response; either may be missing."""
    response = value_in(item, *RESPONSES)
    request = value_in(item, *REQUESTS)
    if request is None and item.get(conversation) is not None:
        request = without(item, *_AROUND_REQUEST)
    return _request(request, conversation), response


def unwrapped(response: Json) -> tuple[Json, int]:
    """Return the response's body and its status."""
    if isinstance(response, dict) and "body" in response:
        return response["body"], http_status(response) or 200
    return response, 200


def http_status(value: JsonObject) -> int:
    """Return the status in the object; 0 if there is none."""
    for name in _STATUSES:
        status = value.get(name)
        if type(status) is int:
            return status if 0 < status <= _LAST_STATUS else 0
    return 0


def created(response: Json) -> float:
    """Return the time of a response as the provider states it; 0 where it does not."""
    body = response
    if isinstance(response, list) and response:
        body = response[0]  # of a stream
    return _time(object_in(body, "response") or as_object(body), _CREATED)


def times(item: JsonObject, otherwise: float) -> dict[str, float]:
    """Return the start and duration of a call from the log entry."""
    found = {"at": _time(item, _TIMES) or otherwise}
    for name, unit in _DURATIONS.items():
        took: Json = item.get(name)
        if type(took) in (int, float) and 0 <= took < _LONGEST_S:
            return found | {"duration_s": took * unit}
    return found


def text_or_parts(content: Json) -> Json:
    """Join content that consists of texts only; return other content unchanged."""
    if not isinstance(content, list) or not content:
        return content
    texts: list[str] = []
    for part in content:
        text = part
        if isinstance(part, dict) and part.get("type", "text") in TEXTS and "text" in part:
            text = text_in(part, "text")
        if not isinstance(text, str):
            return content
        texts.append(text)
    return joined(texts, "\n") or ""


def has_calls(content: Json, own: tuple[str, ...] = ()) -> bool:
    """Return whether content has calls or results in another API's form, which would be lost here."""
    return bool(of_type(content, *set(_CALLS).difference(own)))


def described(item: JsonObject) -> str:
    """Describe an object for an error message."""
    names = ", ".join(f"`{name[:40]}`" for name in islice(item, 5))
    if names:
        return f"an object with {names}"
    return "an empty object"


def _request(body: Json, conversation: str) -> JsonObject | None:
    """Return the request's body, unwrapped from the objects it was logged in."""
    for _level in range(3):
        if isinstance(body, str):
            body = load_object(body.encode("utf-8", "replace"))
        if isinstance(body, list):
            return {conversation: body}
        if not isinstance(body, dict) or conversation in body:
            break
        inner = [body[name] for name in _BODIES if isinstance(body.get(name), dict | str | list)]
        body = next(iter(inner), None)
    if isinstance(body, dict) and conversation in body:
        return body
    return None


def _time(value: JsonObject, names: tuple[str, ...]) -> float:
    return time_in(value_in(value, *names))
