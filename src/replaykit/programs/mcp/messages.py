"""JSON-RPC messages, and the calls at the seam that they become.

    tools/call            a tool_call `<server>.<tool>` with the tool's arguments
    any other request     an exchange `MCP <server> <method>` with its parameters
    on the way to it      one exchange `MCP <server> meanwhile` inside the call: its items are the other messages
    outside of any call   an exchange `MCP <server> asks <method>` or `MCP <server> says <method>` of the server's own

What differs from client to client is not part of a call: `_meta`, and in a handshake the client's description of
itself. Messages before an answer are items:

    {"from": "server", "message": {"method": "notifications/progress", "params": {"progressToken": null, …}}}
    {"from": "client", "message": {"id": 4, "result": {…}}}      an answer to a question of the server
    {"from": "server", "aside": true, "message": …}              a message on a stream of its own (HTTP)

A null stands for the name of the request that a message belongs to: its progress token or its id.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec
import orjson

from replaykit.errors import Divergence, ReplayKitError
from replaykit.model.diff import differences
from replaykit.model.events import Call, ErrorInfo, Exchange, ToolCall
from replaykit.model.nesting import NestedTooDeeply, check_nesting, decode_json
from replaykit.model.values import Json, JsonObject, Raw, canonical, decode, raw, sayable
from replaykit.seam.scope import MCP_RESULT, CallAnswer, Outcome, PendingCall, Scope, pending_call
from replaykit.wire.json_fields import as_object, object_in

Message: TypeAlias = dict[str, Any]
"""One JSON-RPC object."""

PING = "ping"
CANCELLED = "notifications/cancelled"
PROGRESS = "notifications/progress"
INITIALIZED = "notifications/initialized"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
"""The key in `_meta` of a subscription's messages: the id of the request that opened it."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601


def parse(text: bytes) -> Json:
    """Parse JSON; raise ValueError for anything else."""
    try:
        return decode_json(text)
    except NestedTooDeeply:
        raise
    except (msgspec.MsgspecError, UnicodeDecodeError):
        pass  # half a surrogate pair, NaN or a huge number: other implementations write them, so they are read
    check_nesting(text)
    return json.loads(text)


def dump(value: Json) -> bytes:
    """Return a value as JSON on one line."""
    try:
        return orjson.dumps(value)
    except TypeError:  # an integer beyond 64 bits, or half a surrogate pair
        return json.dumps(value, separators=(",", ":")).encode()


def messages_in(text: bytes) -> list[Message]:
    """Return the messages in a text: one, or those of a batch; empty if it is neither."""
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
    """Return True for a message that expects an answer."""
    return isinstance(message.get("method"), str) and "id" in message


def is_notification(message: Message) -> bool:
    """Return True for a message that expects no answer."""
    return isinstance(message.get("method"), str) and "id" not in message


def is_response(message: Message) -> bool:
    return "method" not in message and ("result" in message or "error" in message)


def is_unchanged(sent: Sequence[Message], received: Sequence[Message]) -> bool:
    """True if every message is passed on as it came."""
    return all(message is original for message, original in zip(sent, received, strict=True))


def id_key(value: Json) -> bytes:
    """Return an id as a lookup key: 1, 1.0, "1" and true are four different ids."""
    return dump(value)


def params_of(message: Message) -> JsonObject:
    """Return the parameters if they are an object, or else an empty one."""
    return object_in(message, "params")


def meta_of(message: Message) -> JsonObject:
    """Return the `_meta` of the parameters or of the result."""
    return object_in(message.get("params" if "method" in message else "result"), "_meta")


def with_meta(message: Message, name: str, value: Json) -> Message:
    """Return the message with another value in its `_meta`."""
    holder = "params" if "method" in message else "result"
    inner = message[holder]
    return {**message, holder: {**inner, "_meta": {**inner["_meta"], name: value}}}


def with_param(message: Message, name: str, value: Json) -> Message:
    """Return the message with another value of a parameter."""
    return {**message, "params": {**message["params"], name: value}}


def failure(request_id: Json, code: int, text: str, data: Json = None) -> Message:
    """Return an error response."""
    error: Message = {"code": code, "message": text}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


CLIENT, SERVER = "client", "server"


def item(sender: str, message: Message, request: Message, *, aside: bool = False) -> Raw:
    """Return a message that was sent while a request was pending, as an item."""
    content = dict(detached(message, request, sender))
    content.pop("jsonrpc", None)
    if aside:
        return raw({"from": sender, "aside": True, "message": content})
    return raw({"from": sender, "message": content})


def detached(message: Message, request: Message, sender: str = SERVER) -> Message:
    """Return the message without the names that this client gave to the request."""
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
    """Return a recorded message of the server with this client's names; None if the client did not ask for it."""
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
    """True if a message of the server names the request."""
    return detached(message, request) is not message


# By sender: the notification that names a request, its parameter, and the request's name in it.
_REQUEST_NAMES: dict[str, tuple[str, str, Callable[[Message], Json]]] = {
    SERVER: (PROGRESS, "progressToken", progress_token),
    CLIENT: (CANCELLED, "requestId", lambda request: request.get("id")),
}


TOOL, EXCHANGE = (str(kind.__struct_config__.tag) for kind in (ToolCall, Exchange))

MISS = -32050
"""The error code for requests that the recording does not hold."""
HANDSHAKE = frozenset({"initialize", "server/discover"})
DESCRIBING = HANDSHAKE | {
    "logging/setLevel",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "subscriptions/listen",
    "tools/list",
}
"""Requests that only describe the server: they may come more often than recorded."""

_RPC, _GONE, _HTTP = "McpError", "ServerGone", "HttpError"
_AS_SENT = "as_sent"


def call_of(scope: Scope, server: str, request: Message) -> PendingCall:
    """Return a client's request as a call."""
    kind, name, arguments = _call_parts(server, request)
    call = pending_call(kind, sayable(name), canonical(arguments), scope, time.time())
    call.form = MCP_RESULT if kind == TOOL else ""
    return call


def server_message_name(server: str, message: Message) -> str:
    """Return the name of the exchange for a message that a server sends on its own."""
    return sayable(f"MCP {server} {'asks' if 'id' in message else 'says'} {message['method']}")


def interim_name(server: str) -> str:
    """Return the name of the exchange with the messages before an answer."""
    return sayable(f"MCP {server} meanwhile")


def server_end_name(server: str) -> str:
    """Return the name of the exchange for a server that ended by itself."""
    return sayable(f"MCP {server} ends")


def is_client_call(server: str, call: Call) -> bool:
    """True for a recorded call of a client; False for messages beside one, or of the server's own."""
    own = (f"MCP {server} asks ", f"MCP {server} says ", interim_name(server), server_end_name(server))
    return call.kind != EXCHANGE or not call.name.startswith(own)


def _call_parts(server: str, request: Message) -> tuple[str, str, Json]:
    method = request["method"]
    if method in HANDSHAKE:
        return EXCHANGE, f"MCP {server} {method}", {}
    params = request.get("params", {})
    if not isinstance(params, dict):
        return EXCHANGE, f"MCP {server} {method}", params
    params = dict(params)
    params.pop("_meta", None)
    if method != "tools/call" or not isinstance(params.get("name"), str):
        return EXCHANGE, f"MCP {server} {method}", params
    return TOOL, f"{server}.{params.pop('name')}", _tool_arguments(params)


def _tool_arguments(params: JsonObject) -> Json:
    """Return the tool's own arguments; the rest of a request, such as an answer to a question, goes beside them."""
    arguments = params.get("arguments")
    if arguments is not None and not isinstance(arguments, dict):
        return {"_mcp": params}
    params.pop("arguments", None)
    if params:
        return {**(arguments or {}), "_mcp": params}
    return arguments or {}


def outcome_of(response: Message) -> Outcome:
    if "error" not in response:
        return Outcome(result_json=raw(response["result"]))
    error = response["error"]
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        attributes = dict(error)
        message = sayable(attributes.pop("message"))
        info = ErrorInfo(type=_RPC, message=message, attributes_json=raw(attributes))
    else:
        info = ErrorInfo(type=_RPC, message="not an error object", attributes_json=raw({_AS_SENT: error}))
    return Outcome(error=info)


def rpc_error(code: int, message: str) -> Outcome:
    """Return a JSON-RPC error as an outcome."""
    return Outcome(error=ErrorInfo(type=_RPC, message=message, attributes_json=raw({"code": code})))


def unanswered(error: ErrorInfo | None = None) -> Outcome:
    """Return the outcome of a request that was not answered."""
    return Outcome(error=error, complete=False)


def server_gone_error(exit_code: int | None = None) -> ErrorInfo:
    """Return the error of a server that ended or closed the connection before answering."""
    if exit_code is None:
        return ErrorInfo(type=_GONE, message="the server closed the connection")
    return ErrorInfo(
        type=_GONE, message=f"the server ended with exit code {exit_code}", attributes_json=raw({"exit": exit_code})
    )


def http_error(status: int, content_type: str, body: str) -> ErrorInfo:
    """Return the error of a server that answered with an HTTP error instead of JSON-RPC."""
    return ErrorInfo(
        type=_HTTP,
        message=f"HTTP status {status}",
        attributes_json=raw({"status": status, "content_type": content_type, "body": body}),
    )


def exit_code_of(answer: CallAnswer) -> int | None:
    """Return the exit code of a server that ended instead of answering, 0 if it gave none; None if it answered."""
    if answer.error is None or answer.error.type != _GONE or answer.complete:
        return None
    code = _attributes(answer.error).get("exit")
    if type(code) is int:
        return code
    return 0


def http_error_of(answer: CallAnswer) -> tuple[int, str, str] | None:
    """Return status, content type and body of an HTTP error; None for any other answer."""
    if answer.error is None or answer.error.type != _HTTP:
        return None
    attributes = _attributes(answer.error)
    status = attributes.get("status")
    return (
        status if type(status) is int and 400 <= status <= 599 else 500,
        str(attributes.get("content_type") or "text/plain"),
        str(attributes.get("body") or ""),
    )


def is_answered(answer: CallAnswer) -> bool:
    """True if there is a JSON-RPC answer."""
    return answer.complete and (bool(answer.result_json) or answer.error is not None)


def response_of(answer: CallAnswer, request_id: Json, kind: str = EXCHANGE) -> Message:
    """Return a recorded outcome as a JSON-RPC answer with this id."""
    if answer.result_json:
        result = decode(answer.result_json)
        if kind == TOOL and not isinstance(result, dict):  # written by hand, or recorded from a tool outside of MCP
            text = result if isinstance(result, str) else bytes(answer.result_json).decode()
            result = {"content": [{"type": "text", "text": text}]}
            if answer.error is not None:
                result["isError"] = True
        return {"jsonrpc": "2.0", "id": request_id, "result": result}
    info = answer.error or ErrorInfo(type=_RPC, message="no outcome was recorded")
    if info.type != _RPC:
        return failure(request_id, -32603, str(info))
    attributes = _attributes(info)
    error = attributes.get(_AS_SENT, {"code": attributes.pop("code", -32603), "message": info.message, **attributes})
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


def miss_response(error: ReplayKitError, call: PendingCall, request_id: Json) -> Message:
    """Return the answer to a request that is not on the tape, with the nearest call and the differences."""
    data: JsonObject = {"replaykit": type(error).__name__, "call": call.name}
    near = error.nearest if isinstance(error, Divergence) else None
    if isinstance(near, Call):
        data["nearest"] = {"name": near.name, "arguments": near.arguments}
        data["differences"] = list(map(str, differences(near.arguments, decode(call.arguments), limit=5)))
    if error.hint:
        data["hint"] = error.hint
    return failure(request_id, MISS, error.message, data)


def same_answer(recorded: Message, actual: Message) -> bool:
    """True if a client gave the recorded answer, apart from `_meta`."""
    return canonical(_comparable_answer(recorded)) == canonical(_comparable_answer(actual))


def _comparable_answer(response: Message) -> Json:
    if "error" in response:
        error = response["error"]
        return {"error": error.get("code") if isinstance(error, dict) else error}
    result = response.get("result")
    if isinstance(result, dict):
        result = dict(result)
        result.pop("_meta", None)
    return result


def _attributes(info: ErrorInfo) -> JsonObject:
    return as_object(decode(info.attributes_json)) if info.attributes_json else {}
