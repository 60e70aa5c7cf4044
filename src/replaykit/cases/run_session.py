"""A run as a session: its input, what its tools really answered, and how it went wrong."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

from replaykit.cases.seen_calls import seen, session_answer
from replaykit.cases.tagged_values import Say, build_tagged
from replaykit.errors import UsageError
from replaykit.model.events import ToolCall
from replaykit.model.run import TraceRun
from replaykit.model.values import NULL, Json

_NAME_CHARS = 150
_REASON_CHARS = 500


def session_of_run(run: TraceRun, contract: str = "") -> dict[str, Json]:
    """The session that a run is; a `UsageError` where the run does not hold what a session needs."""
    if run.input_json == NULL:
        raise UsageError(f"run {run.id}: its input is not known, so it cannot be asked again")
    calls = [seen(call) for call in _served_calls(run)]

    def build(say: Say) -> dict[str, Json]:
        document: dict[str, Json] = {
            "id": run.id,
            "name": _line(run.name, _NAME_CHARS) or run.id,
            "source": run.origin.format or run.origin.kind,
            "captured_at": dt.datetime.fromtimestamp(run.started_at, dt.UTC).isoformat(),
            "input": say(run.input_json),
            "tool_responses": [session_answer(call, say) for call in calls],
        }
        if run.error is not None:
            document["expected_failure"] = _line(str(run.error), _REASON_CHARS)
        if contract:
            return {**document, "contract": contract}
        return document

    return build_tagged(build)


def _served_calls(run: TraceRun) -> Iterator[ToolCall]:
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


def _line(text: str, chars: int) -> str:
    plain = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(plain.split())[:chars].strip()
