"""What a recorded call is found by."""

from __future__ import annotations

from replaykit.model.events import Call


def key_of(call: Call) -> bytes:
    """Its arguments; of a model call over the wire, what they ask for."""
    arguments = bytes(call.request_json)
    if call.wire is None:
        return arguments
    from replaykit.wire.keys import match_key  # noqa: PLC0415 (most tapes hold nothing that went over the wire)
    from replaykit.wire.routes import api_of  # noqa: PLC0415

    api = api_of(call.wire.method, call.wire.url)
    return arguments if api is None or call.kind == "exchange" else match_key(api, arguments)
