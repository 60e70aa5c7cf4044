"""An HTTP endpoint as a candidate: the case goes in as JSON, the runner output comes back as JSON.

The tools of such an agent live in its own process. One with `replaykit.middleware` is handed the tape. To any other the
request carries the recorded answers, and whether it used them is not known: the result says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from replaykit.cases.case import ReplayCase
from replaykit.errors import UsageError
from replaykit.middleware.messages import TapeLog
from replaykit.model.events import Call, ToolCall
from replaykit.model.result import Deviation
from replaykit.model.values import Json
from replaykit.runners.asking import Ask, ask
from replaykit.runners.attempt import Attempt
from replaykit.runners.command import OUTPUT_NAME, timed_out_run
from replaykit.runners.output import parse_output
from replaykit.runners.tape_client import UNWATCHED, Headers, TapeClient, TapeRefused
from replaykit.runners.worlds import calls_of, world_of


class HttpCandidate:
    """An agent behind a URL."""

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            usable = False
        if not usable:
            raise UsageError(f"{url!r} is not an address of an agent", hint="Write http://host:port/path")
        self.label = url
        self._tapes = TapeClient(url)

    def run(self, case: ReplayCase, workspace: Path, timeout_s: float) -> Attempt:
        """Post the case once; inside of its tape, where there is one and the agent takes it."""
        calls = tuple(calls_of(case))
        taped = bool(calls) and self._tapes.is_there(timeout_s)
        try:
            headers = self._tapes.offer(world_of(case), timeout_s) if taped else ()
            attempt = self._posted(case, calls, headers, workspace, timeout_s)
            if taped:
                return _with_log(attempt, self._tapes.log(headers, timeout_s))
        except TapeRefused as error:
            return Attempt(reason=f"{self.label} does not take the tape: {error}")
        told = (Deviation(kind=UNWATCHED, text=_NOT_KNOWN),) if calls and attempt.run is not None else ()
        return msgspec.structs.replace(attempt, deviations=attempt.deviations + told)

    def _posted(
        self, case: ReplayCase, calls: Iterable[Call], headers: Headers, workspace: Path, timeout_s: float
    ) -> Attempt:
        body = {
            "case": case.id,
            "input": case.scenario.input_json,
            **({"context": case.scenario.context_json} if case.scenario.context_json else {}),
            "tool_responses": [_response(call) for call in calls if isinstance(call, ToolCall)],
        }
        sent = (("content-type", "application/json"), *headers)
        answer = ask(Ask(method="POST", url=self.label, body=msgspec.json.encode(body), headers=sent), timeout_s)
        if answer.timed_out:
            return Attempt(run=timed_out_run(timeout_s))
        if answer.status is None or not 200 <= answer.status < 300:
            return Attempt(reason=f"{self.label} {answer.why or f'answered {answer.status}'}")
        (workspace / OUTPUT_NAME).write_bytes(answer.body)
        return parse_output(answer.body)


_NOT_KNOWN = (
    "the agent takes no tape: whether it used the recorded answers it was sent, or called its tools, is not known"
)


def _with_log(attempt: Attempt, log: TapeLog) -> Attempt:
    """What the agent did as its middleware saw it, instead of as it says itself."""
    if not log.runs or attempt.run is None:
        return attempt
    taped = log.runs[0]
    run = msgspec.structs.replace(attempt.run, events=taped.events, event_count=len(taped.events))
    return Attempt(run=run, deviations=taped.deviations)


def _response(call: ToolCall) -> dict[str, Json]:
    if call.error is not None:
        answer: dict[str, Json] = {"error": str(call.error)}
    elif call.items_json is not None:
        answer = {"response": call.items_json}
    else:
        answer = {"response": call.result_json or None}
    return {"tool": call.name, "arguments": call.arguments_json, **answer}
