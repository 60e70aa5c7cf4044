"""The keys by which recorded calls are found, and their HTTP requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replaykit.model.events import Call
from replaykit.seam.scope import PendingCall

if TYPE_CHECKING:
    from replaykit.seam.http.request import HttpRequest


def as_pending(call: Call) -> PendingCall:
    """Return a recorded call as one that is made again, to look it up on a tape."""
    arguments = bytes(call.request_json)
    return PendingCall(
        call.kind,
        call.name,
        arguments,
        key_of(call),
        call.path,
        call.step,
        call.parent,
        call.seq,
        call.at,
        "external",
        request=_request_of(call),
    )


def key_of(call: Call) -> bytes:
    """Its arguments; of a model call over the wire, what they ask for."""
    arguments = bytes(call.request_json)
    if call.wire is None:
        return arguments
    from replaykit.wire.request_keys import match_key  # noqa: PLC0415 (most tapes hold nothing that went over the wire)
    from replaykit.wire.routes import api_of  # noqa: PLC0415

    api = api_of(call.wire.method, call.wire.url)
    if api is None or call.kind == "exchange":
        return arguments
    return match_key(api, arguments)


def _request_of(call: Call) -> HttpRequest | None:
    """The request of a call that went over HTTP, as far as a log tells of it."""
    if call.wire is None:
        return None
    from replaykit.seam.http.request import HttpRequest  # noqa: PLC0415 (most calls did not)

    return HttpRequest(method=call.wire.method, url=call.wire.url)
