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
from replaykit.mcp.messages import Message, failure
from replaykit.model.diff import differences
from replaykit.model.events import Call, ErrorInfo, Exchange, ToolCall
from replaykit.model.values import Json, canonical, decode, raw, sayable
from replaykit.seam.scope import MCP_RESULT, Answer, Outcome, PendingCall, Scope, pending_call

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
    kind, name, arguments = _asked(server, request)
    call = pending_call(kind, sayable(name), canonical(arguments), scope, time.time())
    call.form = MCP_RESULT if kind == TOOL else ""
    return call


def unasked_name(server: str, message: Message) -> str:
    """The name of what a server sends on its own."""
    return sayable(f"MCP {server} {'asks' if 'id' in message else 'says'} {message['method']}")


def meanwhile_name(server: str) -> str:
    """The name of what was said on the way to an answer."""
    return sayable(f"MCP {server} meanwhile")


def gone_name(server: str) -> str:
    """The name of a server's end, where nobody was waiting for it."""
    return sayable(f"MCP {server} ends")


def is_asked_for(server: str, call: Call) -> bool:
    """True for a recorded call that a client made; False for what came along with one, or from the server."""
    own = (f"MCP {server} asks ", f"MCP {server} says ", meanwhile_name(server), gone_name(server))
    return call.kind != EXCHANGE or not call.name.startswith(own)


def _asked(server: str, request: Message) -> tuple[str, str, Json]:
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
        return {**(arguments or {}), "_mcp": params} if params else arguments or {}
    return {"_mcp": params}


def outcome_of(response: Message) -> Outcome:
    """What a JSON-RPC answer says."""
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


def gone(exit_code: int | None = None) -> ErrorInfo:
    """The server ended, or closed the connection, before it answered."""
    if exit_code is None:
        return ErrorInfo(type=_GONE, message="the server closed the connection")
    return ErrorInfo(
        type=_GONE, message=f"the server ended with exit code {exit_code}", attributes_json=raw({"exit": exit_code})
    )


def refused_by_http(status: int, content_type: str, body: str) -> ErrorInfo:
    """The server answered with an HTTP error that is no JSON-RPC answer."""
    return ErrorInfo(
        type=_HTTP,
        message=f"HTTP status {status}",
        attributes_json=raw({"status": status, "content_type": content_type, "body": body}),
    )


def exit_code_of(answer: Answer) -> int | None:
    """How the server ended instead of answering: its exit code, 0 where it just left; None when it did not."""
    if answer.error is None or answer.error.type != _GONE or answer.complete:
        return None
    code = _attributes(answer.error).get("exit")
    return code if type(code) is int else 0


def http_error_of(answer: Answer) -> tuple[int, str, str] | None:
    """Status, content type and body of an HTTP error that stood in for the answer."""
    if answer.error is None or answer.error.type != _HTTP:
        return None
    told = _attributes(answer.error)
    status = told.get("status")
    return (
        status if type(status) is int and 400 <= status <= 599 else 500,
        str(told.get("content_type") or "text/plain"),
        str(told.get("body") or ""),
    )


def is_answered(answer: Answer) -> bool:
    """True when there is a JSON-RPC answer to give."""
    return answer.complete and (bool(answer.result_json) or answer.error is not None)


def response_of(answer: Answer, request_id: Json, kind: str = EXCHANGE) -> Message:
    """The JSON-RPC answer that a recorded outcome is, with the caller's own id."""
    if answer.result_json:
        result = decode(answer.result_json)
        if kind == TOOL and not isinstance(result, dict):  # written by hand, or by a tool that is no MCP server's
            text = result if isinstance(result, str) else bytes(answer.result_json).decode()
            result = {"content": [{"type": "text", "text": text}]}
            if answer.error is not None:
                result["isError"] = True
        return {"jsonrpc": "2.0", "id": request_id, "result": result}
    info = answer.error or ErrorInfo(type=_RPC, message="no outcome was recorded")
    if info.type != _RPC:
        return failure(request_id, -32603, str(info))
    told = _attributes(info)
    error = told.get(_AS_SENT, {"code": told.pop("code", -32603), "message": info.message, **told})
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


def refusal(error: ReplayKitError, call: PendingCall, request_id: Json) -> Message:
    """The answer to a request that the recording does not answer: what was asked, the nearest call, the difference."""
    data: dict[str, Json] = {"replaykit": type(error).__name__, "call": call.name}
    near = error.nearest if isinstance(error, Divergence) else None
    if isinstance(near, Call):
        data["nearest"] = {"name": near.name, "arguments": near.arguments}
        data["differences"] = [str(d) for d in differences(near.arguments, decode(call.arguments), limit=5)]
    if error.hint:
        data["hint"] = error.hint
    return failure(request_id, MISS, error.message, data)


def same_answer(recorded: Message, given: Message) -> bool:
    """True when a client answers as it did: `_meta` aside."""
    return canonical(_told(recorded)) == canonical(_told(given))


def _told(response: Message) -> Json:
    if "error" in response:
        error = response["error"]
        return {"error": error.get("code") if isinstance(error, dict) else error}
    result = response.get("result")
    return {key: value for key, value in result.items() if key != "_meta"} if isinstance(result, dict) else result


def _attributes(info: ErrorInfo) -> dict[str, Json]:
    told = decode(info.attributes_json) if info.attributes_json else None
    return told if isinstance(told, dict) else {}
