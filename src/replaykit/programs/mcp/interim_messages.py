"""Messages exchanged while a request waits for its answer, recorded as items.

    {"from": "server", "message": {"method": "notifications/progress", "params": {"progressToken": null, …}}}
    {"from": "client", "message": {"id": 4, "result": {…}}}      an answer to what the server asked
    {"from": "server", "aside": true, "message": …}              it came on a stream of its own (HTTP)

A null stands where a message names the request it belongs to: its progress token, its id.
"""

from __future__ import annotations

from replaykit.model.values import Json, Raw, raw
from replaykit.programs.mcp.messages import (
    CANCELLED,
    PROGRESS,
    SUBSCRIPTION,
    Message,
    id_key,
    meta_of,
    params_of,
    with_meta,
    with_param,
)

CLIENT, SERVER = "client", "server"


def item(sender: str, message: Message, request: Message, *, aside: bool = False) -> Raw:
    """A message that was sent while a request was waiting for its answer."""
    content = {key: value for key, value in detached(message, request, sender).items() if key != "jsonrpc"}
    return raw({"from": sender, "aside": True, "message": content} if aside else {"from": sender, "message": content})


def detached(message: Message, request: Message, sender: str = SERVER) -> Message:
    """The message without the names that this client happened to give the request."""
    if _names(params_of(message), _own_member(message, sender), _own_value(message, request, sender)):
        return with_param(message, _own_member(message, sender), None)
    if SUBSCRIPTION in meta_of(message) and _same(meta_of(message)[SUBSCRIPTION], request.get("id")):
        return with_meta(message, SUBSCRIPTION, None)
    return message


def attached(message: Message, request: Message) -> Message | None:
    """A recorded message of the server with this client's names in it; None where the client wants no such message."""
    params = params_of(message)
    if message.get("method") == PROGRESS and params.get("progressToken", "") is None:
        token = progress_token(request)
        if token is None:
            return None
        return with_param(message, "progressToken", token)
    if SUBSCRIPTION in meta_of(message) and meta_of(message)[SUBSCRIPTION] is None:
        return with_meta(message, SUBSCRIPTION, request.get("id"))
    return message


def progress_token(request: Message) -> Json:
    """Return the progress token of a request."""
    return meta_of(request).get("progressToken")


def belongs(message: Message, request: Message) -> bool:
    """True when a message of the server names the request."""
    return detached(message, request) is not message


def _own_member(message: Message, sender: str) -> str:
    if sender == SERVER:
        if message.get("method") == PROGRESS:
            return "progressToken"
        return ""
    if message.get("method") == CANCELLED:
        return "requestId"
    return ""


def _own_value(message: Message, request: Message, sender: str) -> Json:
    if sender == SERVER:
        return progress_token(request)
    return request.get("id")


def _names(params: dict[str, Json], member: str, value: Json) -> bool:
    return member in params and value is not None and _same(params[member], value)


def _same(one: Json, other: Json) -> bool:
    return id_key(one) == id_key(other)
