"""MCP requests as calls at the seam, and recorded outcomes as JSON-RPC answers.

    tools/call            a tool_call `<server>.<tool>` with the tool's arguments
    any other request     an exchange `MCP <server> <method>` with its parameters
    on the way to it      one exchange `MCP <server> meanwhile` inside the call: its items are what else was said
    outside of any call   an exchange `MCP <server> asks <method>` or `MCP <server> says <method>`: the server began

What varies from one client to the next is no part of a call: `_meta`, and in a handshake what the client says of
itself.
"""

from __future__ import annotations

import time

from replaykit.errors import Divergence, ReplayKitError
from replaykit.model.diff import differences
from replaykit.model.events import Call, ErrorInfo, Exchange, ToolCall
from replaykit.model.values import Json, canonical, decode, raw, sayable
from replaykit.programs.mcp.messages import Message, failure
from replaykit.seam.scope import MCP_RESULT, CallAnswer, Outcome, PendingCall, Scope, pending_call

TOOL, EXCHANGE = (str(kind.__struct_config__.tag) for kind in (ToolCall, Exchange))

MISS = -32050
"""The code of the answer to what the recording does not hold."""
HANDSHAKE = frozenset({"initialize", "server/discover"})
DESCRIBING = HANDSHAKE | {
    "logging/setLevel",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "subscriptions/listen",
    "tools/list",
}
"""Requests that only ask what the server is: they may come more often than they were recorded."""

_RPC, _GONE, _HTTP = "McpError", "ServerGone", "HttpError"
_AS_SENT = "as_sent"


def call_of(scope: Scope, server: str, request: Message) -> PendingCall:
    """The call that a client's request is."""
    kind, name, arguments = _call_parts(server, request)
    call = pending_call(kind, sayable(name), canonical(arguments), scope, time.time())
    call.form = MCP_RESULT if kind == TOOL else ""
    return call


def server_message_name(server: str, message: Message) -> str:
    """The name of what a server sends on its own."""
    return sayable(f"MCP {server} {'asks' if 'id' in message else 'says'} {message['method']}")


def interim_name(server: str) -> str:
    """The name of what was said on the way to an answer."""
    return sayable(f"MCP {server} meanwhile")


def server_end_name(server: str) -> str:
    """The name of a server's end, where nobody was waiting for it."""
    return sayable(f"MCP {server} ends")


def is_client_call(server: str, call: Call) -> bool:
    """True for a recorded call that a client made; False for what came along with one, or from the server."""
    own = (f"MCP {server} asks ", f"MCP {server} says ", interim_name(server), server_end_name(server))
    return call.kind != EXCHANGE or not call.name.startswith(own)


def _call_parts(server: str, request: Message) -> tuple[str, str, Json]:
    method = request["method"]
    if method in HANDSHAKE:
        return EXCHANGE, f"MCP {server} {method}", {}
    params = request.get("params", {})
    if not isinstance(params, dict):
        return EXCHANGE, f"MCP {server} {method}", params
    params = {key: value for key, value in params.items() if key != "_meta"}
    if method != "tools/call" or not isinstance(params.get("name"), str):
        return EXCHANGE, f"MCP {server} {method}", params
    return TOOL, f"{server}.{params.pop('name')}", _tool_arguments(params)


def _tool_arguments(params: dict[str, Json]) -> Json:
    """The tool's own arguments; what else a request holds, such as an answer that it was asked for, stands beside."""
    arguments = params.get("arguments")
    if arguments is None or isinstance(arguments, dict):
        params.pop("arguments", None)
        if params:
            return {**(arguments or {}), "_mcp": params}
        return arguments or {}
    return {"_mcp": params}


def outcome_of(response: Message) -> Outcome:
    """Return the outcome that a JSON-RPC answer carries."""
    if "error" not in response:
        return Outcome(result_json=raw(response["result"]))
    error = response["error"]
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        rest = {key: value for key, value in error.items() if key != "message"}
        info = ErrorInfo(type=_RPC, message=sayable(error["message"]), attributes_json=raw(rest))
    else:
        info = ErrorInfo(type=_RPC, message="not an error object", attributes_json=raw({_AS_SENT: error}))
    return Outcome(error=info)


def rpc_error(code: int, message: str) -> Outcome:
    """A JSON-RPC error as an outcome."""
    return Outcome(error=ErrorInfo(type=_RPC, message=message, attributes_json=raw({"code": code})))


def unanswered(error: ErrorInfo | None = None) -> Outcome:
    """The outcome of a request that nobody answered."""
    return Outcome(error=error, complete=False)


def server_gone_error(exit_code: int | None = None) -> ErrorInfo:
    """The server ended, or closed the connection, before it answered."""
    if exit_code is None:
        return ErrorInfo(type=_GONE, message="the server closed the connection")
    return ErrorInfo(
        type=_GONE, message=f"the server ended with exit code {exit_code}", attributes_json=raw({"exit": exit_code})
    )


def http_error(status: int, content_type: str, body: str) -> ErrorInfo:
    """The server answered with an HTTP error that is no JSON-RPC answer."""
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
    """Status, content type and body of an HTTP error that stood in for the answer."""
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
    """True when there is a JSON-RPC answer to give."""
    return answer.complete and (bool(answer.result_json) or answer.error is not None)


def response_of(answer: CallAnswer, request_id: Json, kind: str = EXCHANGE) -> Message:
    """The JSON-RPC answer that a recorded outcome is, with the caller's own id."""
    if answer.result_json:
        result = decode(answer.result_json)
        if kind == TOOL and not isinstance(result, dict):  # written by hand, or by a tool that is no MCP server's
            if isinstance(result, str):
                text = result
            else:
                text = bytes(answer.result_json).decode()
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
    """The answer to a request that the recording does not answer: what was asked, the nearest call, the difference."""
    data: dict[str, Json] = {"replaykit": type(error).__name__, "call": call.name}
    near = error.nearest if isinstance(error, Divergence) else None
    if isinstance(near, Call):
        data["nearest"] = {"name": near.name, "arguments": near.arguments}
        data["differences"] = [str(d) for d in differences(near.arguments, decode(call.arguments), limit=5)]
    if error.hint:
        data["hint"] = error.hint
    return failure(request_id, MISS, error.message, data)


def same_answer(recorded: Message, actual: Message) -> bool:
    """True when a client answers as it did: `_meta` aside."""
    return canonical(_comparable_answer(recorded)) == canonical(_comparable_answer(actual))


def _comparable_answer(response: Message) -> Json:
    if "error" in response:
        error = response["error"]
        return {"error": error.get("code") if isinstance(error, dict) else error}
    result = response.get("result")
    if isinstance(result, dict):
        return {key: value for key, value in result.items() if key != "_meta"}
    return result


def _attributes(info: ErrorInfo) -> dict[str, Json]:
    attributes = decode(info.attributes_json) if info.attributes_json else None
    if isinstance(attributes, dict):
        return attributes
    return {}
