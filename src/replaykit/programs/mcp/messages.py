"""JSON-RPC messages: text ⇄ values, what sort of message a value is, and messages on the way to an answer as items.

    {"from": "server", "message": {"method": "notifications/progress", "params": {"progressToken": null, …}}}
    {"from": "client", "message": {"id": 4, "result": {…}}}      an answer to what the server asked
    {"from": "server", "aside": true, "message": …}              it came on a stream of its own (HTTP)

In such an item, a null stands where a message names the request it belongs to: its progress token, its id.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec
import orjson

from replaykit.model.nesting import NestedTooDeeply, check_nesting, decode_json
from replaykit.model.values import Json, Raw, raw

Message: TypeAlias = dict[str, Any]
"""One JSON-RPC object."""

PING = "ping"
CANCELLED = "notifications/cancelled"
PROGRESS = "notifications/progress"
INITIALIZED = "notifications/initialized"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
"""In `_meta` of what a subscription brings: the id of the request that opened it."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601


def parse(text: bytes) -> Json:
    """The value of a JSON text; a ValueError where it is none."""
    try:
        return decode_json(text)
    except NestedTooDeeply:
        raise
    except (msgspec.MsgspecError, UnicodeDecodeError):
        pass  # half of an emoji, NaN or a number beyond all bounds: others write it, so it is read
    check_nesting(text)
    return json.loads(text)


def dump(value: Json) -> bytes:
    """The JSON text of a value, on one line."""
    try:
        return orjson.dumps(value)
    except TypeError:  # an integer of more than 64 bits, half of an emoji
        return json.dumps(value, separators=(",", ":")).encode()


def messages_in(text: bytes) -> list[Message]:
    """Return the messages of a JSON text: one, or those of a batch; none where it is neither."""
    try:
        value = parse(text)
    except ValueError:
        return []
    if isinstance(value, dict):
        return [value]
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return value
    return []


def is_request(message: Message) -> bool:
    """True for what wants an answer."""
    return isinstance(message.get("method"), str) and "id" in message


def is_notification(message: Message) -> bool:
    """True for what is said, and not answered."""
    return isinstance(message.get("method"), str) and "id" not in message


def is_response(message: Message) -> bool:
    """True for an answer."""
    return "method" not in message and ("result" in message or "error" in message)


def is_unchanged(sent: Sequence[Message], received: Sequence[Message]) -> bool:
    """True when every message is passed on as it came."""
    return all(one is other for one, other in zip(sent, received, strict=True))


def id_key(value: Json) -> bytes:
    """An id as something to look up by: 1, 1.0, "1" and true are four ids."""
    return dump(value)


def params_of(message: Message) -> dict[str, Json]:
    """The parameters, where they are an object."""
    params = message.get("params")
    if isinstance(params, dict):
        return params
    return {}


def meta_of(message: Message) -> dict[str, Json]:
    """Return the `_meta` of the parameters or of the result."""
    holder = message.get("params") if "method" in message else message.get("result")
    meta = holder.get("_meta") if isinstance(holder, dict) else None
    if isinstance(meta, dict):
        return meta
    return {}


def with_meta(message: Message, name: str, value: Json) -> Message:
    """The message with another value in its `_meta`."""
    holder = "params" if "method" in message else "result"
    inner = message[holder]
    return {**message, holder: {**inner, "_meta": {**inner["_meta"], name: value}}}


def with_param(message: Message, name: str, value: Json) -> Message:
    """The message with another value of a parameter."""
    return {**message, "params": {**message["params"], name: value}}


def failure(request_id: Json, code: int, text: str, data: Json = None) -> Message:
    """The answer that says no."""
    error: Message = {"code": code, "message": text}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


CLIENT, SERVER = "client", "server"


def item(sender: str, message: Message, request: Message, *, aside: bool = False) -> Raw:
    """A message that was sent while a request was waiting for its answer."""
    content = dict(detached(message, request, sender))
    content.pop("jsonrpc", None)
    if aside:
        return raw({"from": sender, "aside": True, "message": content})
    return raw({"from": sender, "message": content})


def detached(message: Message, request: Message, sender: str = SERVER) -> Message:
    """The message without the names that this client happened to give the request."""
    method, member, name = _REQUEST_NAMES[sender]
    own_name = name(request)
    params, meta = params_of(message), meta_of(message)
    is_named = message.get("method") == method and member in params and own_name is not None
    if is_named and id_key(params[member]) == id_key(own_name):
        return with_param(message, member, None)
    if SUBSCRIPTION in meta and id_key(meta[SUBSCRIPTION]) == id_key(request.get("id")):
        return with_meta(message, SUBSCRIPTION, None)
    return message


def attached(message: Message, request: Message) -> Message | None:
    """A recorded message of the server with this client's names in it; None where the client wants no such message."""
    if message.get("method") == PROGRESS and params_of(message).get("progressToken", "") is None:
        token = progress_token(request)
        if token is None:
            return None
        return with_param(message, "progressToken", token)
    if meta_of(message).get(SUBSCRIPTION, "") is None:
        return with_meta(message, SUBSCRIPTION, request.get("id"))
    return message


def progress_token(request: Message) -> Json:
    """Return the progress token of a request."""
    return meta_of(request).get("progressToken")


def belongs(message: Message, request: Message) -> bool:
    """True when a message of the server names the request."""
    return detached(message, request) is not message


_REQUEST_NAMES: dict[str, tuple[str, str, Callable[[Message], Json]]] = {
    SERVER: (PROGRESS, "progressToken", progress_token),
    CLIENT: (CANCELLED, "requestId", lambda request: request.get("id")),
}
"""By sender: the notification that names a request, the parameter that does so, and the name a request has there."""
