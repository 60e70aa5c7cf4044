"""Change the answer of a call over HTTP to what the server would have sent instead.

A model's answer is written in the format of its API, streamed if the request asks for that. For any other exchange, and
for full control, the answer is the list of the response's chunks.
"""

from __future__ import annotations

from replaykit.errors import UsageError
from replaykit.model.events import Call, LlmCall, WireInfo
from replaykit.model.values import ABSENT, Json, raw
from replaykit.seam.http.cleaning import first_header
from replaykit.seam.http.rewriting import answered, chunks_of, written
from replaykit.seam.scope import Outcome
from replaykit.wire.model_calls import answer_of
from replaykit.wire.routes import api_of


def wire_outcome(recorded: Call, wire: WireInfo, value: Json) -> Outcome:
    """Return the outcome in which this value answers a recorded exchange; raise `UsageError` if that is impossible."""
    if isinstance(value, list):
        if not all(isinstance(chunk, str | bytes) for chunk in value):
            raise UsageError(f"`{recorded.name}`: the chunks of a response are texts or bytes")
        kind = first_header(wire.headers, "content-type")
        return Outcome(items_json=tuple(map(raw, value)), result_json=ABSENT, wire=answered(wire, kind))
    api = api_of(wire.method, wire.url) if isinstance(recorded, LlmCall) else None
    if api is None:
        raise UsageError(
            f"`{recorded.name}` is a plain exchange over HTTP, not the call of a model",
            hint="Give what it answers as the list of its chunks, each a text.",
        )
    request = bytes(recorded.request_json)
    return written(api, answer_of(value), wire, request=request, like=chunks_of(recorded, wire))
