"""HAR: the log of a browser or proxy, `{log: {entries: [{startedDateTime, time, request, response}]}}`.

Every request to a model API, recognised by its path, becomes a model call with the original body, response bytes,
status and times, so that a candidate's own HTTP calls can be served from it. Calls of one conversation form one run.
Other requests are counted in a note. Of the headers only the response's content type is kept; URLs lose user and query.
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
"""The most bytes to unpack of a compressed body."""

_CONVERSATION_APIS = {
    module.CONVERSATION_API.dialect.name: module.CONVERSATION_API
    for module in (openai_chat, openai_responses, anthropic, gemini)
}
_EXPECTED = "a HAR: an object with `log` and its `entries`"
_FIRST_STATUS = 100
_SHAPES_URL = ("alt",)  # query parameters that determine the form of the response
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
    """Yield the model call of each entry, an error, or None for any other request."""
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
    """Return the model call in an entry, or None."""
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
    response_body = _body(content, _header(response, "content-encoding"))
    status = http_status(response)
    call = _call(api, body, status, response_body, response)
    duration_ms = entry.number("time") or 0.0
    wire_info = WireInfo(
        method="POST",
        url=_clean(url),
        status=status if status >= _FIRST_STATUS else 0,
        reason=text_in(response, "statusText"),
        headers=tuple(_kept_headers(content, response)),
    )
    wired = Wired(request=Raw(canonical(load_object(body) or {})), chunks=(raw(_text(response_body)),), info=wire_info)
    return _conversation_api(api).exchange(
        call,
        has_request=bool(body),
        at=entry.time("startedDateTime") or 0.0,
        duration_s=max(0.0, duration_ms) / 1000,
        wired=wired if body and response_body else None,
        size=len(body) + len(response_body),
    )


def _call(api: ModelApi, body: bytes, status: int, response_body: bytes, response: JsonObject) -> ModelCall:
    if status >= _FIRST_STATUS:
        return api.read(body, status, [response_body])
    call = api.read(body, 200, [])
    why = next((text_in(response, name) for name in ("_error", "_failureText") if response.get(name)), "")
    error = ErrorInfo(type="ConnectionError", message=why or "no response response_body")
    return replace(call, error=error, complete=True, problem=None)


def _conversation_api(api: ModelApi) -> ConversationApi:
    """Return how the API converses; unknown APIs follow chat completions."""
    return _CONVERSATION_APIS.get(api.name) or replace(openai_chat.CONVERSATION_API, dialect=api.dialect)


def _body(held: JsonObject, encoding: str) -> bytes:
    """Return the bytes of a body: HAR has text or base64, and some tools leave it compressed."""
    text = text_in(held, "text")
    if held.get("encoding") != "base64":
        return text.encode("utf-8", "replace")
    try:
        return _unpacked(base64.b64decode(text), encoding.lower())
    except (binascii.Error, ValueError):
        return text.encode("utf-8", "replace")


def _unpacked(data: bytes, encoding: str) -> bytes:
    """Remove the content encoding, if it is still there."""
    try:
        if encoding in ("gzip", "x-gzip", "deflate") or data.startswith(b"\x1f\x8b"):
            # 47: accept zlib and gzip, since some servers name one and use the other.
            return zlib.decompressobj(wbits=47).decompress(data, MAX_BODY)
        if encoding == "zstd":
            return zstandard.ZstdDecompressor().stream_reader(data).read(MAX_BODY)
    except (zlib.error, zstandard.ZstdError):
        pass  # the recorder had unpacked it already
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
    """Return the URL without parts that may be secret."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    query = "&".join(pair for pair in parts.query.split("&") if pair.partition("=")[0].lstrip("$") in _SHAPES_URL)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, query, ""))
