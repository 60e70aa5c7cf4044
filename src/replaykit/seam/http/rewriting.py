"""Another answer of an exchange: what the server would have sent instead."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from replaykit.model.events import WireInfo
from replaykit.model.values import decode, raw
from replaykit.seam.http.request import text_or_bytes
from replaykit.seam.scope import Answer, Outcome
from replaykit.wire.api import Api
from replaykit.wire.call import Answer as Said

_OF_THE_OLD_BODY = frozenset({"content-length", "content-encoding", "content-type", "content-md5", "etag", "digest"})


def written(
    api: Api,
    said: Said,
    wire: WireInfo,
    *,
    request: bytes,
    like: Sequence[bytes] = (),
    finish_reason: str | None = None,
) -> Outcome:
    """The outcome in which a model says this instead: as its API sends it, as a stream where one was asked for."""
    sent = api.write(said, request=request, like=like, finish_reason=finish_reason)
    heard = api.hear(200, sent.chunks)
    return Outcome(
        result_json=raw(said.message),
        items_json=tuple(raw(text_or_bytes(chunk)) for chunk in sent.chunks),
        wire=answered(wire, sent.content_type),
        usage=heard.usage,
        finish_reason=heard.finish_reason,
    )


def with_body(wire: WireInfo, body: bytes, content_type: str = "") -> Outcome:
    """The outcome of an exchange that is answered with these bytes, and the status that `wire` says."""
    kind = content_type or header(wire, "content-type")
    items = (raw(text_or_bytes(body)),) if body else ()
    return Outcome(items_json=items, wire=answered(wire, kind, wire.status, wire.reason))


def answered(wire: WireInfo, content_type: str, status: int = 200, reason: str = "OK") -> WireInfo:
    """The same exchange, ended well, without what the headers say of the bytes that came."""
    headers = [(name, value) for name, value in wire.headers if name.lower() not in _OF_THE_OLD_BODY]
    if content_type:
        headers.append(("content-type", content_type))
    return msgspec.structs.replace(wire, status=status, reason=reason, headers=tuple(headers), pauses_ms=())


def chunks_of(answer: Answer, wire: WireInfo) -> Sequence[bytes]:
    """The bytes of a response; nothing where they are compressed."""
    if header(wire, "content-encoding").lower() not in ("", "identity"):
        return ()
    items = map(decode, answer.items_json or ())
    return [item.encode() if isinstance(item, str) else bytes(item) for item in items]


def header(wire: WireInfo, name: str) -> str:
    """The first value of a header of the response, by its name in small letters."""
    return next((value for key, value in wire.headers if key.lower() == name), "")
