"""Answers that no server sent: what it would have sent for another answer, or for one that only a trace tells of.

Forks, faults and the replay of imported runs all have their answers written here.
"""

from __future__ import annotations

from collections.abc import Sequence
from http.client import responses as _PHRASES

from msgspec.structs import replace

from replaykit.model.events import ErrorInfo, Usage, WireInfo
from replaykit.model.values import decode, raw
from replaykit.seam.http.cleaning import Headers, clean_url, first_header
from replaykit.seam.http.request import HttpRequest, text_or_bytes
from replaykit.seam.scope import CallAnswer, Outcome
from replaykit.wire.api import ModelApi
from replaykit.wire.error_bodies import error_body, error_headers
from replaykit.wire.model_calls import ModelAnswer

_OF_THE_OLD_BODY = frozenset({"content-length", "content-encoding", "content-type", "content-md5", "etag", "digest"})
# Each library of HTTP looks these up among its own names: the first that it has is what it raises.
_TIMEOUT = ErrorInfo(
    type="ReadTimeout",
    bases=(".ReadTimeoutError", ".ServerTimeoutError", "builtins.TimeoutError", "builtins.OSError"),
)
_NO_CONNECTION = ErrorInfo(
    type="ConnectError",
    bases=(".NewConnectionError", ".ServerDisconnectedError", "builtins.ConnectionError", "builtins.OSError"),
)


def written(
    api: ModelApi,
    message: ModelAnswer,
    wire: WireInfo,
    *,
    request: bytes,
    like: Sequence[bytes] = (),
    finish_reason: str | None = None,
    usage: Usage | None = None,
    seed: bytes = b"",
) -> Outcome:
    """The outcome in which a model says this: as its API sends it, as a stream where one was asked for."""
    sent = api.write(message, request=request, like=like, finish_reason=finish_reason, usage=usage, seed=seed)
    response = api.read_response(200, sent.chunks)
    return Outcome(
        result_json=raw(message.message),
        items_json=tuple(raw(text_or_bytes(chunk)) for chunk in sent.chunks),
        wire=answered(wire, sent.content_type),
        usage=response.usage,
        finish_reason=response.finish_reason,
    )


def api_error(api: ModelApi, request: HttpRequest, status: int, error: ErrorInfo, headers: Headers = ()) -> Outcome:
    """The outcome in which the API of a model answers with an error, in its own words."""
    body = error_body(api, status, error)
    wire = wire_of(request, status, (*headers, *error_headers(api, status)))
    error_info = api.read_response(status, (body,)).error
    return replace(with_body(wire, body, "application/json"), error=error_info)


def no_response(request: HttpRequest, text: str, *, timed_out: bool) -> Outcome:
    """The outcome of a request that nobody answered: in time, or at all."""
    error = _TIMEOUT if timed_out else _NO_CONNECTION
    error_info = replace(error, message=text, args_json=raw((text,)))
    return Outcome(error=error_info, wire=wire_of(request), complete=False)


def wire_of(request: HttpRequest, status: int = 0, headers: Headers = ()) -> WireInfo:
    """Return how the exchange went, as the log says it."""
    url, reason = clean_url(request.url), _PHRASES.get(status, "")
    return WireInfo(method=request.method, url=url, status=status, reason=reason, headers=headers)


def with_body(wire: WireInfo, body: bytes, content_type: str = "") -> Outcome:
    """The outcome of an exchange that is answered with these bytes, and the status that `wire` says."""
    kind = content_type or first_header(wire.headers, "content-type")
    items = (raw(text_or_bytes(body)),) if body else ()
    return Outcome(items_json=items, wire=answered(wire, kind, wire.status, wire.reason))


def answered(wire: WireInfo, content_type: str, status: int = 200, reason: str = "OK") -> WireInfo:
    """The same exchange, ended well, without what the headers say of the bytes that came."""
    headers = [(name, value) for name, value in wire.headers if name.lower() not in _OF_THE_OLD_BODY]
    if content_type:
        headers.append(("content-type", content_type))
    return replace(wire, status=status, reason=reason, headers=tuple(headers), pauses_ms=())


def chunks_of(answer: CallAnswer, wire: WireInfo) -> Sequence[bytes]:
    """The bytes of a response; nothing where they are compressed."""
    if first_header(wire.headers, "content-encoding").lower() not in ("", "identity"):
        return ()
    items = map(decode, answer.items_json or ())
    return [item.encode() if isinstance(item, str) else bytes(item) for item in items]
