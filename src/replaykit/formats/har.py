"""HAR: what a browser or a proxy saw, `{log: {entries: [{startedDateTime, time, request, response}]}}`.

Every entry to a model API, known by the shape of its path, is a model's call as it went over the wire: the request's
body, the bytes of the response, status and times, so that a candidate's own HTTP calls can be served from it. Those
of one conversation are one run. Entries to anything else are counted in a remark. Headers are not kept, except for
the type of the response; of a URL, neither user nor query.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import zstandard
from msgspec.structs import replace

from replaykit.errors import InvalidFile
from replaykit.formats import anthropic, gemini, openai_chat, openai_responses
from replaykit.formats.core.exchanges import ConversationApi, described, http_status
from replaykit.formats.core.fields import Fields
from replaykit.formats.core.registry import Found, register_format
from replaykit.formats.core.source import Source
from replaykit.formats.core.threads import ExchangeThreads, ModelExchange, Wired
from replaykit.model.events import ErrorInfo, WireInfo
from replaykit.model.json_positions import DocumentPath
from replaykit.model.values import Json, JsonObject, Raw, canonical, raw
from replaykit.wire.api import ModelApi
from replaykit.wire.json_fields import has_list, load_object, object_in, objects_in, text_in, value_in
from replaykit.wire.model_calls import ModelCall
from replaykit.wire.routes import api_of

FORMAT = "har"
MAX_BODY = 64 * 1024 * 1024
"""The most bytes that are read of a compressed body."""

_CONVERSATION_APIS = {
    module.CONVERSATION_API.dialect.name: module.CONVERSATION_API
    for module in (openai_chat, openai_responses, anthropic, gemini)
}
_EXPECTED = "a HAR: an object with `log` and its `entries`"
_FIRST_STATUS = 100
_SHAPES_URL = ("alt",)
"""Parameters of a query that say how the answer is written."""
_ADVICE = ("Save the HAR with content: some tools leave out bodies, or large ones.",)


def _read_file(source: Source) -> Iterator[Found]:
    threads = ExchangeThreads(FORMAT, _ADVICE)
    others = 0
    for document in source.documents():
        calls: list[ModelExchange] = []
        for found in _exchanges(document):
            if isinstance(found, ModelExchange):
                calls.append(found)
            elif found is None:
                others += 1
            else:
                yield found
        for exchange in sorted(calls, key=lambda call: call.at):
            yield from threads.add(exchange)
    yield from threads.close()
    if others:
        yield f"{others} other {'entry is no call' if others == 1 else 'entries are no calls'} of a model API"


register_format(
    FORMAT,
    "HAR: recorded HTTP traffic with calls of model APIs",
    lambda source: any(isinstance(value_in(value_in(value, "log"), "entries"), list) for value in source.first),
    _read_file,
)


def _exchanges(document: Source) -> Iterator[ModelExchange | InvalidFile | None]:
    """Return the model call of each entry, an error, or None for any other request."""
    try:
        log = Fields(document, document.value, (), _EXPECTED).object("log")
        if not has_list(log, "entries"):
            raise document.error(f"expected {_EXPECTED}, got {described(document.value)}")
    except InvalidFile as problem:
        yield problem
        return
    for index, entry in enumerate(log["entries"]):
        try:
            yield _exchange(document, entry, ("log", "entries", index))
        except InvalidFile as problem:
            yield problem


def _exchange(document: Source, value: Json, path: DocumentPath) -> ModelExchange | None:
    """The model's call that an entry is; None where it is none."""
    entry = Fields(document, value, path, "an entry")
    request = Fields(document, entry.object("request"), (*path, "request"))
    posted = request.object("postData")
    url = request.text("url") or ""
    api = api_of(request.text("method") or "", url, text_in(posted, "mimeType"))
    if api is None:
        return None
    response = entry.object("response")
    content = object_in(response, "content")
    body = _body(posted, _header(request.value, "content-encoding"))
    came = _body(content, _header(response, "content-encoding"))
    status = http_status(response)
    call = _call(api, body, status, came, response)
    took = entry.number("time") or 0.0
    wire_info = WireInfo(
        method="POST",
        url=_clean(url),
        status=status if status >= _FIRST_STATUS else 0,
        reason=text_in(response, "statusText"),
        headers=tuple(_kept_headers(content, response)),
    )
    wired = Wired(request=Raw(canonical(load_object(body) or {})), chunks=(raw(_text(came)),), info=wire_info)
    return _conversation_api(api).exchange(
        call,
        has_request=bool(body),
        at=entry.time("startedDateTime") or 0.0,
        duration_s=max(0.0, took) / 1000,
        wired=wired if body and came else None,
        size=len(body) + len(came),
    )


def _call(api: ModelApi, body: bytes, status: int, came: bytes, response: JsonObject) -> ModelCall:
    if status >= _FIRST_STATUS:
        return api.read(body, status, [came])
    call = api.read(body, 200, [])
    why = next((text_in(response, name) for name in ("_error", "_failureText") if response.get(name)), "")
    error = ErrorInfo(type="ConnectionError", message=why or "no response came")
    return replace(call, error=error, complete=True, problem=None)


def _conversation_api(api: ModelApi) -> ConversationApi:
    """Return how the API converses; by default as chat completions do."""
    return _CONVERSATION_APIS.get(api.name) or replace(openai_chat.CONVERSATION_API, dialect=api.dialect)


def _body(held: JsonObject, encoding: str) -> bytes:
    """The bytes of a body: HAR has them as text or base64, and some tools leave them compressed."""
    text = text_in(held, "text")
    if held.get("encoding") != "base64":
        return text.encode("utf-8", "replace")
    try:
        return _unpacked(base64.b64decode(text), encoding.lower())
    except (binascii.Error, ValueError):
        return text.encode("utf-8", "replace")


def _unpacked(data: bytes, encoding: str) -> bytes:
    """Without its content encoding, where it still has one."""
    try:
        if encoding in ("gzip", "x-gzip", "deflate") or data.startswith(b"\x1f\x8b"):
            # 47: zlib or gzip, whichever it begins like: some name the one and use the other.
            return zlib.decompressobj(wbits=47).decompress(data, MAX_BODY)
        if encoding == "zstd":
            return zstandard.ZstdDecompressor().stream_reader(data).read(MAX_BODY)
    except (zlib.error, zstandard.ZstdError):
        pass  # it was taken off when the archive was made
    return data


def _text(body: bytes) -> Json:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body


def _header(message: JsonObject, name: str) -> str:
    headers = objects_in(message, "headers")
    return next((text_in(header, "value") for header in headers if text_in(header, "name").lower() == name), "")


def _kept_headers(content: JsonObject, response: JsonObject) -> Iterator[tuple[str, str]]:
    kind = _header(response, "content-type") or text_in(content, "mimeType")
    if kind:
        yield "content-type", kind


def _clean(url: str) -> str:
    """The URL without what may be secret in it."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    query = "&".join(pair for pair in parts.query.split("&") if pair.partition("=")[0].lstrip("$") in _SHAPES_URL)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, query, ""))
