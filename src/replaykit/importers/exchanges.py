"""What people log of a model API, whichever API it is.

    a conversation     [message, …], {messages: […]} (a line of fine-tuning data), a message on each line
    a request          {model, messages, tools, …}
    a response         {id, choices, usage, …}, an error's body
    a stream           its events in a list, on lines, or as the text of `data:` lines
    pairs of both      {request, response}, {body, response}, {messages, …, response}, {request, chunks}, in a list or
                       on lines; request and response may be the bodies, or have them in `body` beside a status
    batches            {custom_id, method, url, body} and {custom_id, response: {status_code, body}, error}

An API's own file says how it converses, as a `Voice`; here the shapes around that are taken apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import msgspec
import orjson
from msgspec import Struct

from replaykit.errors import InvalidFile
from replaykit.importers.fields import Fields, json_type
from replaykit.importers.otel.meaning import loaded
from replaykit.importers.pairs import REQUESTS, RESPONSES, created, described, halves, http_status, times, unwrapped
from replaykit.importers.registry import IMPORTERS, Found
from replaykit.importers.source import JsonPath, Source
from replaykit.importers.threads import Exchange, Threads, Used
from replaykit.model.events import ErrorInfo
from replaykit.model.values import Json, encode
from replaykit.wire.api import Api
from replaykit.wire.call import Answer, ModelCall
from replaykit.wire.dialect import Dialect
from replaykit.wire.fields import as_object, as_objects, as_text, load_object
from replaykit.wire.frames import SseSplitter

_STREAM_STARTS = ("data:", "event:", ":", "id:", "retry:")
_FIRST_ERROR = 400
_LOOK_AT = 20

MISSING_REQUEST = "The requests are not in the file. Log each request beside its response."


class Voice(Struct, frozen=True, kw_only=True):
    """How one API converses."""

    dialect: Dialect
    conversation: str
    """The member of a request that holds the conversation."""
    heard: Callable[[Json], list[Json]]
    """A conversation, in the shape of `importers.messages`; answers in that of `wire.call`."""
    is_message: Callable[[dict[str, Json]], bool]
    is_response: Callable[[dict[str, Json]], bool]
    is_event: Callable[[dict[str, Json]], bool]
    """Of a stream."""
    begins: Callable[[dict[str, Json], dict[str, Json]], bool]
    """Whether an event, after another one, is the first of a stream."""
    is_certain: Callable[[dict[str, Json]], bool]
    """Whether a message, request, response, event or error can be of no other API."""
    whole: Callable[[Json], Json] = lambda body: body
    """A response as the API writes it, from what people keep of one."""
    asked: Callable[[dict[str, Json]], dict[str, Json]] = lambda body: body
    """A request as the API takes it."""
    answer: Callable[[Answer], Answer] = lambda answer: answer
    """The answer, with all the calls that the agent has to make."""
    used: Callable[[Answer], list[Used]] = lambda _answer: []
    """The calls that the provider made for it."""
    kept: Callable[[ModelCall], str] = lambda _call: ""
    """The id of the history that a request goes on from, where the provider keeps it."""
    keeps: Callable[[ModelCall], tuple[str, ...]] = lambda _call: ()
    """The ids under which the provider keeps the call itself."""
    advice: tuple[str, ...] = ()
    """For those who let the provider keep the history."""

    def exchange(self, call: ModelCall, *, asked: bool = True, **about: Json) -> Exchange:
        """The call, in one shape."""
        if call.answer is not None:
            call = msgspec.structs.replace(call, answer=self.answer(call.answer))
        kept = self.kept(call)
        return Exchange(
            call=call,
            messages=self.heard(call.messages) if asked else None,
            used=self.used,
            kept=kept,
            keeps=self.keeps(call),
            advice=() if asked and not kept else self.advice if asked else (MISSING_REQUEST,),
            **about,
        )


class ExchangeImporter:
    """Reads what people log of one API."""

    def __init__(self, name: str, title: str, voice: Voice) -> None:
        self.name, self.title, self.voice = name, title, voice

    def recognises(self, source: Source) -> bool:
        values = source.first or tuple(islice(_streamed(source, source.head), _LOOK_AT))
        return any(self.voice.is_certain(part) for value in values for part in _parts(value, self.voice))

    def read(self, source: Source) -> Iterator[Found]:
        threads = Threads(self.name)
        reader = _Reader(self.title, self.voice)
        for document in source.documents():
            for found in reader.read(document):
                yield from threads.add(found) if isinstance(found, Exchange) else [found]
        for exchange in reader.flush():
            yield from threads.add(exchange)
        yield from threads.close()


class _Reader:
    """Takes a file apart, item by item; messages and events that follow each other belong together."""

    def __init__(self, title: str, voice: Voice) -> None:
        self._title, self._voice = title, voice
        self._messages: list[Json] = []
        self._events: list[Json] = []

    def read(self, document: Source) -> Iterator[Exchange | InvalidFile | str]:
        """What becomes whole with this document; one that is a list is whole itself."""
        try:
            value = list(_streamed(document)) or document.value
        except InvalidFile as problem:
            yield problem
            return
        path: JsonPath = ()
        if isinstance(value, dict) and value.get("object") == "list" and isinstance(value.get("data"), list):
            value, path = _in_order(value["data"]), ("data",)
        if not isinstance(value, list):
            yield from self._safely(value, document, path)
            return
        for index, item in enumerate(value):
            yield from self._safely(item, document, (*path, index))
        yield from self.flush()

    def _safely(self, item: Json, document: Source, path: JsonPath) -> Iterator[Exchange | InvalidFile | str]:
        try:
            for exchange in self._take(item, document, path):
                yield exchange
                call = exchange.call
                if exchange.answered and call.problem and call.answer is None and call.error is None:
                    yield document.error(call.problem, path).message
        except InvalidFile as problem:
            yield problem

    def _take(self, item: Json, document: Source, path: JsonPath) -> Iterator[Exchange]:
        voice = self._voice
        if isinstance(item, list):
            yield from self.flush()
            for index, inner in enumerate(item):  # a conversation or a stream of its own
                if isinstance(inner, list):
                    raise document.error(f"expected {self._title}, got a list", (*path, index))
                yield from self._take(inner, document, (*path, index))
            yield from self.flush()
        elif not isinstance(item, dict):
            raise document.error(f"expected {self._title}, got {json_type(item)}", path)
        elif voice.is_event(item):
            if self._messages or (self._events and voice.begins(item, self._events[-1])):
                yield from self.flush()
            self._events.append(item)
        elif voice.is_message(item) and (self._messages or not voice.is_response(item)):
            if self._events:
                yield from self.flush()
            self._messages.append(item)
        else:
            yield from self.flush()
            yield self._one(item, document, path)

    def flush(self) -> Iterator[Exchange]:
        """What has been gathered."""
        messages, events = self._messages, self._events
        self._messages, self._events = [], []
        if messages:
            yield self._conversation({self._voice.conversation: messages})
        if events:
            yield self._exchange(None, _text(self._voice.whole(events)), 200, created(events[0]))

    def _one(self, item: dict[str, Json], document: Source, path: JsonPath) -> Exchange:
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
        return msgspec.structs.replace(exchange, **more)

    def _is_read(self, item: dict[str, Json], exchange: Exchange) -> bool:
        """True when all that is asked and answered is this API's, as far as that shows."""
        voice, call = self._voice, exchange.call
        request, _response = halves(item, voice.conversation)
        said = as_objects(as_object(request).get(voice.conversation))
        is_answer = not exchange.answered or call.answer is not None or call.error is not None
        return is_answer and all(map(voice.is_message, said[:_LOOK_AT]))

    def _owner(self, item: dict[str, Json]) -> ExchangeImporter | None:
        """Whose requests and responses these are, where they are certainly another API's: read as this one's, they
        would lose their calls."""
        own = self._voice
        for one in IMPORTERS.values():
            if isinstance(one, ExchangeImporter) and one.voice is not own:
                parts = (part for part in _parts(item, one.voice) if not own.is_certain(part))
                if any(map(one.voice.is_certain, parts)):
                    return one
        return None

    def _half_or_both(self, item: dict[str, Json]) -> Exchange | None:
        """The exchange that an object tells of; None where it tells of none."""
        if self._voice.is_response(item):
            return self._told(None, item, 200)
        if "exception" in item:
            wrong = next((item[name] for name in (*REQUESTS, *RESPONSES) if name in item), item)
            return self._failed(None, wrong, http_status(item), as_text(item["exception"]))
        request, response = halves(item, self._voice.conversation)
        if self._is_foreign(response) and not any(name in item for name in REQUESTS):
            return None
        if response is not None:
            return self._told(request, *unwrapped(response))
        if item.get("error") is not None:
            return self._failed(request, item, http_status(item))
        if request is None:
            return None
        return self._asked(request) if "model" in request else self._conversation(request)

    def _is_foreign(self, response: Json) -> bool:
        """True for a list of something else than this API's events: many formats have `events`."""
        body = self._voice.whole(response)
        return isinstance(body, list) and not any(map(self._voice.is_event, as_objects(body)))

    def _conversation(self, request: dict[str, Json]) -> Exchange:
        """One that is over: nothing else goes on from it."""
        return msgspec.structs.replace(self._asked(request), alone=True)

    def _asked(self, request: dict[str, Json]) -> Exchange:
        return msgspec.structs.replace(self._exchange(request, b"", 200), answered=False)

    def _failed(self, request: dict[str, Json] | None, body: Json, status: int, kind: str = "") -> Exchange:
        exchange = self._exchange(request, _text(body), status or _FIRST_ERROR)
        error = exchange.call.error
        if error is None or not kind:
            return exchange
        told = ErrorInfo(type=kind, message=error.message, attributes_json=error.attributes_json)
        return msgspec.structs.replace(exchange, call=msgspec.structs.replace(exchange.call, error=told))

    def _told(self, request: dict[str, Json] | None, response: Json, status: int) -> Exchange:
        """A pair. A response may be a text: of a body, of a stream, or all that was kept of the answer."""
        value = loaded(response)
        if isinstance(value, str) and value.lstrip().startswith(("{", *_STREAM_STARTS)):
            return self._exchange(request, value.encode("utf-8", "replace"), status)
        if isinstance(value, str):
            return self._spoken(request, value)
        body = self._voice.whole(value)
        exchange = self._exchange(request, _text(body), status, created(body))
        if isinstance(response, str) and exchange.call.answer is None and exchange.call.error is None:
            return self._spoken(request, response)  # the answer itself is JSON
        return exchange

    def _spoken(self, request: dict[str, Json] | None, text: str) -> Exchange:
        """An answer of which only the text was kept."""
        exchange = self._exchange(request, b"", 200)
        call = msgspec.structs.replace(exchange.call, answer=Answer(content=text), complete=True, problem=None)
        return msgspec.structs.replace(exchange, call=call)

    def _exchange(self, request: dict[str, Json] | None, response: bytes, status: int, at: float = 0.0) -> Exchange:
        asked = b"{}" if request is None else _text(self._voice.asked(request))
        call = Api(dialect=self._voice.dialect).read(asked, status, [response])
        size = len(asked) + len(response)
        return self._voice.exchange(call, asked=request is not None, at=at, size=size)


def _text(value: Json) -> bytes:
    """The body as it went over the wire, or nearly so."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return encode(value)


def _in_order(items: list[Json]) -> list[Json]:
    """What an API listed, the oldest first: a result comes after its call."""
    calls: set[str] = set()
    for item in map(as_object, items):
        call_id = as_text(item.get("call_id"))
        if as_text(item.get("type")).endswith("_output") and call_id not in calls:
            return items[::-1]
        calls.add(call_id)
    return items


def _streamed(source: Source, text: bytes | None = None) -> Iterator[dict[str, Json]]:
    """The events of a text of `data:` lines."""
    if not source.is_text or not source.head.lstrip().decode("utf-8", "replace").startswith(_STREAM_STARTS):
        return
    splitter = SseSplitter()
    for frame in (*splitter.feed(source.text if text is None else text), *splitter.close()):
        event = load_object(frame.data)
        if event is not None:
            yield event


def _parts(value: Json, voice: Voice, depth: int = 2) -> Iterator[dict[str, Json]]:
    """Whatever in a value could tell which API it is of: itself, the halves of a pair, messages."""
    if isinstance(value, list) and depth:
        for item in value[:_LOOK_AT]:
            yield from _parts(item, voice, depth - 1)
    if not isinstance(value, dict):
        return
    yield value
    if value.get("object") == "list":
        yield from _parts(value.get("data"), voice)
    request, response = halves(value, voice.conversation)
    body = None if response is None else voice.whole(unwrapped(response)[0])
    conversation = as_object(request).get(voice.conversation)
    told = (request, body, *(conversation if isinstance(conversation, list) else ()))
    yield from (half for half in told if isinstance(half, dict))
    if isinstance(body, list):
        yield from (item for item in as_objects(body[:_LOOK_AT]) if voice.is_event(item))
