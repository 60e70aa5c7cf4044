"""What is said on the way to an answer, as items.

    {"from": "server", "message": {"method": "notifications/progress", "params": {"progressToken": null, …}}}
    {"from": "client", "message": {"id": 4, "result": {…}}}      an answer to what the server asked
    {"from": "server", "aside": true, "message": …}              it came on a stream of its own (HTTP)

A null stands where a message names the request it belongs to: its progress token, its id.
"""

from __future__ import annotations

from replaykit.mcp.messages import (
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
from replaykit.model.values import Json, Raw, raw

CLIENT, SERVER = "client", "server"


def item(who: str, message: Message, request: Message, *, aside: bool = False) -> Raw:
    """A message that was sent while a request was waiting for its answer."""
    told = {key: value for key, value in detached(message, request, who).items() if key != "jsonrpc"}
    return raw({"from": who, "aside": True, "message": told} if aside else {"from": who, "message": told})


def detached(message: Message, request: Message, who: str = SERVER) -> Message:
    """The message without the names that this client happened to give the request."""
    if _names(params_of(message), _own_member(message, who), _own_value(message, request, who)):
        return with_param(message, _own_member(message, who), None)
    if SUBSCRIPTION in meta_of(message) and _same(meta_of(message)[SUBSCRIPTION], request.get("id")):
        return with_meta(message, SUBSCRIPTION, None)
    return message


def attached(message: Message, request: Message) -> Message | None:
    """A recorded message of the server with this client's names in it; None where the client wants no such message."""
    params = params_of(message)
    if message.get("method") == PROGRESS and params.get("progressToken", "") is None:
        token = progress_token(request)
        return None if token is None else with_param(message, "progressToken", token)
    if SUBSCRIPTION in meta_of(message) and meta_of(message)[SUBSCRIPTION] is None:
        return with_meta(message, SUBSCRIPTION, request.get("id"))
    return message


def progress_token(request: Message) -> Json:
    """What a client wants the progress of its request to be told under."""
    return meta_of(request).get("progressToken")


def belongs(message: Message, request: Message) -> bool:
    """True when a message of the server names the request."""
    return detached(message, request) is not message


def _own_member(message: Message, who: str) -> str:
    if who == SERVER:
        return "progressToken" if message.get("method") == PROGRESS else ""
    return "requestId" if message.get("method") == CANCELLED else ""


def _own_value(message: Message, request: Message, who: str) -> Json:
    return progress_token(request) if who == SERVER else request.get("id")


def _names(params: dict[str, Json], member: str, value: Json) -> bool:
    return member in params and value is not None and _same(params[member], value)


def _same(one: Json, other: Json) -> bool:
    return id_key(one) == id_key(other)
