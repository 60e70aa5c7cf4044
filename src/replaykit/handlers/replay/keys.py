"""The keys by which recorded calls are found, and their HTTP requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replaykit.model.events import Call
from replaykit.seam.scope import PendingCall

if TYPE_CHECKING:
    from replaykit.seam.http.request import HttpRequest


def as_pending(call: Call) -> PendingCall:
    """Convert a recorded call to a pending one, to look it up on a tape."""
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
    """Return the arguments of a call or, for a model call over HTTP, the key of its request."""
    arguments = bytes(call.request_json)
    if call.wire is None:
        return arguments
    from replaykit.wire.request_keys import match_key  # noqa: PLC0415 (most tapes hold no HTTP calls)
    from replaykit.wire.routes import api_of  # noqa: PLC0415

    api = api_of(call.wire.method, call.wire.url)
    if api is None or call.kind == "exchange":
        return arguments
    return match_key(api, arguments)


def _request_of(call: Call) -> HttpRequest | None:
    """Return the request of an HTTP call, as far as the log contains it."""
    if call.wire is None:
        return None
    from replaykit.seam.http.request import HttpRequest  # noqa: PLC0415 (most calls are not HTTP)

    return HttpRequest(method=call.wire.method, url=call.wire.url)
