"""Another answer of a call that went over the wire: what the server would have sent instead.

A model's answer is written in the words of its API, as a stream where one was asked for. Of any other exchange, and
where somebody wants it byte by byte, the answer is the list of the response's chunks.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from replaykit.errors import UsageError
from replaykit.model.events import Call, LlmCall, WireInfo
from replaykit.model.values import ABSENT, Json, raw
from replaykit.seam.http.request import text_or_bytes
from replaykit.seam.scope import Outcome
from replaykit.wire.api import Api
from replaykit.wire.call import answer_of
from replaykit.wire.routes import api_of

_OF_THE_OLD_BODY = frozenset({"content-length", "content-encoding", "content-type", "content-md5", "etag", "digest"})


def wire_outcome(recorded: Call, wire: WireInfo, value: Json) -> Outcome:
    """The outcome in which a recorded exchange is answered with something else; a UsageError when it cannot be."""
    if isinstance(value, list):
        if not all(isinstance(chunk, str | bytes) for chunk in value):
            raise UsageError(f"`{recorded.name}`: the chunks of a response are texts or bytes")
        kind = _header(wire, "content-type")
        return Outcome(items_json=tuple(map(raw, value)), result_json=ABSENT, wire=_answered(wire, kind))
    api = api_of(wire.method, wire.url) if isinstance(recorded, LlmCall) else None
    if api is None:
        raise UsageError(
            f"`{recorded.name}` is a plain exchange over HTTP, not the call of a model",
            hint="Give what it answers as the list of its chunks, each a text.",
        )
    return _written(api, recorded, wire, value)


def _written(api: Api, recorded: Call, wire: WireInfo, value: Json) -> Outcome:
    request, answer = bytes(recorded.request_json), answer_of(value)
    written = api.write(answer, request=request, like=_chunks(recorded, wire))
    read = api.read(request, 200, written.chunks)
    return Outcome(
        result_json=raw(answer.message),
        items_json=tuple(raw(text_or_bytes(chunk)) for chunk in written.chunks),
        wire=_answered(wire, written.content_type),
        usage=read.usage,
        finish_reason=read.finish_reason,
    )


def _answered(wire: WireInfo, content_type: str) -> WireInfo:
    """The same exchange, ended well, without what the headers say of the bytes that came."""
    headers = [(name, value) for name, value in wire.headers if name.lower() not in _OF_THE_OLD_BODY]
    if content_type:
        headers.append(("content-type", content_type))
    return msgspec.structs.replace(wire, status=200, reason="OK", headers=tuple(headers), pauses_ms=())


def _chunks(recorded: Call, wire: WireInfo) -> Sequence[bytes]:
    """The recorded response; nothing where it is compressed: then its ids and usage are made up."""
    chunks = [item.encode() if isinstance(item, str) else bytes(item) for item in recorded.items or ()]
    return chunks if _header(wire, "content-encoding").lower() in ("", "identity") else ()


def _header(wire: WireInfo, name: str) -> str:
    return next((value for key, value in wire.headers if key.lower() == name), "")
