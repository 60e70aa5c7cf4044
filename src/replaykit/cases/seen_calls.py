"""Calls of tools as an agent saw them: what came back, with a status where the tool failed. Sessions hold them."""

from __future__ import annotations

import re

from msgspec import Struct, field

from replaykit.cases.session import FAILED_FROM
from replaykit.cases.session_shape import MAX_LATENCY_MS, MAX_STATUS
from replaykit.cases.tagged_values import Say
from replaykit.model.events import ErrorInfo, ToolCall
from replaykit.model.tool_errors import is_raised
from replaykit.model.values import ABSENT, NULL, Json, Raw, decode, raw

NO_ANSWER = 0
FAILED_STATUS = 500  # of a tool that raised something other than an answer with a status
_SILENT = frozenset({"builtins.TimeoutError", "builtins.ConnectionError"})
_SILENT_NAME = re.compile(r"Timeout|Connect")  # of an error that was read from a trace, only the name is known


class SeenCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One call of a tool, as the agent saw it."""

    name: str
    arguments_json: Raw = field(default=NULL, name="arguments")
    response_json: Raw = field(default=ABSENT, name="response")
    error: str = ""
    status: int | None = None
    """Of a tool that failed; 0 where no answer came."""
    latency_ms: float = 0.0


def seen(call: ToolCall) -> SeenCall:
    """What the agent saw of a call."""
    status, response = None, call.result_json or ABSENT
    if call.error is not None and is_raised(call):
        status, response = _failure(call.error)
    elif call.items_json is not None:
        response = Raw(b"[%b]" % b",".join(map(bytes, call.items_json)))
    return SeenCall(
        name=call.name,
        arguments_json=call.arguments_json,
        response_json=response,
        error="" if call.error is None else str(call.error),
        status=status,
        latency_ms=round(call.duration_s * 1000, 3),
    )


def session_answer(call: SeenCall, say: Say) -> dict[str, Json]:
    """The call as an answer in a session."""
    entry: dict[str, Json] = {"tool": call.name}
    arguments = say(call.arguments_json) if call.arguments_json else None
    if isinstance(arguments, dict):
        entry["arguments"] = arguments
    entry["response"] = say(call.response_json) if call.response_json else None
    if call.status is not None:
        entry["status"] = call.status if _is_failure(call.status) else FAILED_STATUS
    latency = min(round(call.latency_ms), MAX_LATENCY_MS)
    if latency > 0:
        return {**entry, "latency_ms": latency}
    return entry


def _failure(error: ErrorInfo) -> tuple[int, Raw]:
    """The status of a tool that failed, and what it is said to have answered."""
    attributes = decode(error.attributes_json) if error.attributes_json else None
    attribute_fields = attributes if isinstance(attributes, dict) else {}
    status = attribute_fields.get("status")
    if type(status) is int and _is_failure(status):
        return status, raw(attribute_fields.get("response", str(error)))
    return NO_ANSWER if _is_silence(error) else FAILED_STATUS, raw(str(error))


def _is_failure(status: int) -> bool:
    return FAILED_FROM <= status <= MAX_STATUS or status == NO_ANSWER


def _is_silence(error: ErrorInfo) -> bool:
    """True for an exception that says that no answer came."""
    return bool(_SILENT_NAME.search(error.type) or _SILENT & {f"{error.module}.{error.type}", *error.bases})
