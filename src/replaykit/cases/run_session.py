"""A run as a session: its input, what its tools really answered, and how it went wrong."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator

from replaykit.cases.session import FAILED_FROM
from replaykit.cases.session_shape import MAX_LATENCY_MS, MAX_STATUS
from replaykit.errors import UsageError
from replaykit.model.events import ErrorInfo, ToolCall
from replaykit.model.run import TraceRun
from replaykit.model.values import NULL, Json, Raw, decode

FAILED_STATUS = 500  # of a tool that raised something other than an answer with a status
NO_ANSWER = 0
_SILENCE = re.compile(r"Timeout|Connect")
_NAME_CHARS = 150
_REASON_CHARS = 500


def session_of_run(run: TraceRun, contract: str = "") -> dict[str, Json]:
    """The session that a run is; a `UsageError` where the run does not hold what a session needs."""
    if run.input_json == NULL:
        raise UsageError(f"run {run.id}: its input is not known, so it cannot be asked again")
    said: dict[str, Json] = {
        "id": run.id,
        "name": _line(run.name, _NAME_CHARS) or run.id,
        "source": run.origin.format or run.origin.kind,
        "captured_at": dt.datetime.fromtimestamp(run.started_at, dt.UTC).isoformat(),
        "input": _value(run.input_json),
        "tool_responses": [_answer(call) for call in _given(run)],
    }
    if run.error is not None:
        said["expected_failure"] = _line(str(run.error), _REASON_CHARS)
    return {**said, "contract": contract} if contract else said


def _given(run: TraceRun) -> Iterator[ToolCall]:
    """The calls whose answers a candidate is given."""
    unknown: set[str] = set()
    for call in run.tool_calls:
        if not call.answered:
            unknown.add(call.name)
        elif call.name in unknown:
            # The n-th answer goes to the n-th call: one that is missing would put all after it in the wrong place.
            raise UsageError(f"run {run.id}: an answer of {call.name!r} is not known, and later ones are")
        else:
            yield call


def _answer(call: ToolCall) -> Json:
    said: dict[str, Json] = {"tool": call.name}
    arguments = _value(call.arguments_json) if call.arguments_json else None
    if isinstance(arguments, dict):
        said["arguments"] = arguments
    if call.error is not None:
        said["response"], said["status"] = _failure(call.error)
    elif call.items_json is not None:
        said["response"] = [_value(item) for item in call.items_json]
    else:
        said["response"] = _value(call.result_json)
    latency = min(round(call.duration_s * 1000), MAX_LATENCY_MS)
    return {**said, "latency_ms": latency} if latency > 0 else said


def _failure(error: ErrorInfo) -> tuple[Json, int]:
    """What a tool that failed is said to have answered, and its status."""
    said = _value(error.attributes_json) if error.attributes_json else None
    kept = said if isinstance(said, dict) else {}
    status = kept.get("status")
    if type(status) is int and (FAILED_FROM <= status <= MAX_STATUS or status == NO_ANSWER):
        return kept.get("response", str(error)), status
    return str(error), NO_ANSWER if _SILENCE.search(error.type) else FAILED_STATUS


def _value(raw: Raw) -> Json:
    return _plain(decode(raw))


def _plain(value: Json) -> Json:
    """The value as JSON has it; a `UsageError` for what would be something else when it is read again."""
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, str | int | float):
        return value
    raise UsageError(f"it holds a value that no session can: {type(value).__name__}")


def _line(text: str, chars: int) -> str:
    plain = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(plain.split())[:chars].strip()
