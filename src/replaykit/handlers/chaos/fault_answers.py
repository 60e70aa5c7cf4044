"""Answers that faults give: changed answers, and replies that take the place of one.

A `Change` turns an answer into another, or returns None if there is nothing to change.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import orjson

from replaykit.errors import UsageError
from replaykit.handlers.chaos import answers, mcp_results
from replaykit.handlers.chaos.chance import SeededChance
from replaykit.handlers.chaos.drifts import drifted, garbage, truncated
from replaykit.model.events import ErrorInfo, WireInfo
from replaykit.model.faults import ContextAttack, ModelFault, ModelTrouble, ToolFault, ToolTrouble
from replaykit.model.nesting import NestedTooDeeply, check_value_nesting
from replaykit.model.values import Json, JsonObject, Raw, decode, raw
from replaykit.seam.failures import ToolError, describe
from replaykit.seam.http.rewriting import api_error, chunks_of, no_response, wire_of, with_body, written
from replaykit.seam.scope import MCP_RESULT, CallAnswer, Outcome, PendingCall
from replaykit.wire.api import ModelApi, finish_reason_in
from replaykit.wire.model_calls import ModelAnswer, answer_of

_FIRST_STATUS, _LAST_STATUS, _TOO_MANY = 100, 599, 429
_AT_ONCE_MS = 1.0
Change = Callable[[CallAnswer], CallAnswer | None]


def of_tool(fault: ToolFault, call: PendingCall) -> Change:
    """Return how the fault changes the answer of a tool or a server."""
    form = _form(call)
    payload = fault.payload if isinstance(fault.payload, str) else answers.PAYLOAD
    spoil: dict[ToolTrouble, Callable[[Json], Json]] = {
        ToolTrouble.MALFORMED: form.malformed,
        ToolTrouble.PARTIAL: form.partial,
        ToolTrouble.EMPTY: form.empty,
        ToolTrouble.MALICIOUS: lambda value: form.saying(value, payload),
    }
    return _change(call, spoil[fault.mode])


def _form(call: PendingCall) -> Any:
    """Return the module that can change answers of this call's form."""
    if call.form == MCP_RESULT:
        return mcp_results
    return answers


def instead(earlier: Callable[[CallAnswer], CallAnswer | None]) -> Change:
    """Return a change to an earlier answer; None if there is none, or the tool itself failed."""

    def change(answer: CallAnswer) -> CallAnswer | None:
        if answer.error is not None:
            return None
        return earlier(answer)

    return change


def serve_value(value: Json, call: PendingCall) -> Change:
    """Return a change to this value."""
    if call.form == MCP_RESULT:
        return lambda answer: mcp_results.changed(answer, lambda _: mcp_results.as_result(value))
    as_logged = orjson.loads(bytes(raw(value)))

    def change(answer: CallAnswer) -> CallAnswer | None:
        served = as_logged if answer.wire is None else value
        return _changed(answer, lambda _: served)

    return change


def hiding(attack: ContextAttack, chance: SeededChance, call: PendingCall) -> Change:
    """Return a change that hides one of the attack's payloads in the answer."""
    payload = chance.dice().choice(attack.payloads or (attack.payload or answers.PAYLOAD,))
    return _change(call, lambda value: _form(call).with_hidden(value, payload))


def _change(call: PendingCall, change: Callable[[Json], Json]) -> Change:
    if call.form == MCP_RESULT:
        return lambda answer: mcp_results.changed(answer, change)
    return lambda answer: _changed(answer, change)


def of_model(fault: ModelFault, chance: SeededChance, call: PendingCall, api: ModelApi | None) -> Change:
    """Return how the fault changes the answer of a model."""

    def change(answer: CallAnswer) -> CallAnswer | None:
        message = _model_message(answer)
        if message is None:
            return None
        other, reason = _other(message, fault, chance, call, api)
        if other == message:
            return None
        return rewritten(other, answer, call, api, reason)

    return change


def made_up(fault: ModelFault, chance: SeededChance) -> ModelAnswer | None:
    """Return an answer that does not depend on the real one; None if the fault changes that one."""
    if fault.mode is ModelTrouble.EMPTY:
        return ModelAnswer(content="")
    if fault.mode is ModelTrouble.GARBAGE:
        return garbage(chance.dice())
    return None


def rewritten(
    message: ModelAnswer, answer: CallAnswer, call: PendingCall, api: ModelApi | None, finish_reason: str | None = None
) -> Outcome | None:
    """Return the outcome in which the model gives this answer; None if its API cannot express it."""
    request = call.request
    if api is None or request is None:
        return Outcome(result_json=raw(message.message), finish_reason=finish_reason)
    wire = answer.wire or wire_of(request, 200)
    try:
        return written(
            api, message, wire, request=request.body, like=chunks_of(answer, wire), finish_reason=finish_reason
        )
    except UsageError:  # such as an API for embeddings
        return None


def _other(
    message: ModelAnswer, fault: ModelFault, chance: SeededChance, call: PendingCall, api: ModelApi | None
) -> tuple[ModelAnswer, str | None]:
    invented = made_up(fault, chance)
    if invented is not None:
        return invented, None
    if fault.mode is ModelTrouble.TRUNCATED:
        name = "" if api is None else api.name
        cut = truncated(message, fault.max_tokens, as_objects=_sends_objects(call, api))
        return cut, finish_reason_in(name, "length")
    return drifted(message, fault, chance.dice()), None


def _sends_objects(call: PendingCall, api: ModelApi | None) -> bool:
    """True if tool arguments come as an object rather than as text, which can break off anywhere."""
    if api is None:
        return False
    family = api.name.partition(".")[0]
    if family == "anthropic" and call.request is not None:
        return not api.read_request(call.request.body).streamed
    return family in ("gemini", "ollama")


def _model_message(answer: CallAnswer) -> ModelAnswer | None:
    """Return the model's answer; None if the call failed or the answer cannot be parsed."""
    if answer.error is not None or not answer.result_json:
        return None
    try:
        return answer_of(decode(answer.result_json))
    except UsageError:
        return None


def _changed(answer: CallAnswer, change: Callable[[Json], Json]) -> CallAnswer | None:
    """Change the value of the answer: its result, the items of its stream, or the body of its response."""
    if answer.error is not None:
        return None
    if answer.wire is not None:
        return _with_body_changed(answer, answer.wire, change)
    if answer.items_json is not None:
        items = change([orjson.loads(bytes(item)) for item in answer.items_json])
        if not isinstance(items, list):
            items = [items]
        return _but_for(answer, items_json=tuple(map(_dumped, items)))
    if not answer.result_json:
        return None
    return _but_for(answer, result_json=_dumped(change(orjson.loads(bytes(answer.result_json)))))


def _with_body_changed(answer: CallAnswer, wire: WireInfo, change: Callable[[Json], Json]) -> CallAnswer | None:
    """Return the response with its body changed, as JSON if it is JSON and as text otherwise."""
    body = b"".join(chunks_of(answer, wire))
    if not wire.status or not body:
        return None
    value = change(_value_of(body))
    return with_body(wire, b"" if value is None else answers.body_of(value))


def _value_of(body: bytes) -> Json:
    try:
        value = orjson.loads(body)
        check_value_nesting(value)
    except (orjson.JSONDecodeError, NestedTooDeeply):
        return body.decode("utf-8", "replace")
    return value


def _dumped(value: Json) -> Raw:
    return Raw(orjson.dumps(value))


def _but_for(answer: CallAnswer, **changes: Json) -> Outcome:
    fields: JsonObject = {
        "result_json": answer.result_json,
        "items_json": answer.items_json,
        "complete": answer.complete,
        "wire": answer.wire,
    }
    return Outcome(**{**fields, **changes})


def no_answer(call: PendingCall, message: str) -> Outcome:
    """Return the timeout of a call that was never answered."""
    text = message or f"`{call.name}` did not answer in time (injected)"
    if call.form == MCP_RESULT:
        return mcp_results.refused(mcp_results.TIMED_OUT, text)
    if call.request is None:
        return Outcome(error=ErrorInfo(type="TimeoutError", module="builtins", message=text, args_json=raw((text,))))
    return no_response(call.request, text, timed_out=True)


def failure(call: PendingCall, fault: ToolFault) -> Outcome:
    """Return the failure of a tool; for an exchange, a response with that status."""
    text = fault.message or f"`{call.name}` failed with {fault.error_code} (injected)"
    if call.form == MCP_RESULT:
        if fault.error_code:
            return mcp_results.failed(text, fault.payload)
        return mcp_results.refused(mcp_results.CLOSED, text)
    if call.request is None:
        return Outcome(error=describe(ToolError(text, status=fault.error_code, response=fault.payload)))
    if not _FIRST_STATUS <= fault.error_code <= _LAST_STATUS:
        return no_response(call.request, text, timed_out=False)
    body = fault.payload
    if body is None:
        body = {"error": {"code": fault.error_code, "message": text}}
    # A text is a JSON string here: clients parse the body of an error as JSON.
    data = orjson.dumps(body) if isinstance(body, str) else answers.body_of(body)
    return with_body(wire_of(call.request, fault.error_code), data, "application/json")


def rate_limited(call: PendingCall, fault: ModelFault, api: ModelApi | None) -> Outcome:
    """Return status 429 in the words of the model's API, with the time to retry after."""
    text = fault.message or "Rate limit reached. Please try again later. (injected)"
    if call.request is None or api is None:
        return Outcome(error=describe(ToolError(text, status=_TOO_MANY)))
    wait_ms = fault.delay_ms or _AT_ONCE_MS  # without a header, SDKs would back off for longer than the fault says
    headers = (("retry-after", str(math.ceil(wait_ms / 1000))), ("retry-after-ms", str(math.ceil(wait_ms))))
    return api_error(api, call.request, _TOO_MANY, ErrorInfo(type="RateLimitError", message=text), headers)
