"""Run an HTTP endpoint as a candidate: it gets the case as JSON and returns the runner output as JSON.

The tools of such an agent run in its own process. With `replaykit.middleware`, it receives the tape. Without, the
request carries the recorded answers; whether the agent uses them is unknown, and the result says so.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec.structs import replace

from replaykit.candidates.attempt import Attempt, reported_on, served_from
from replaykit.candidates.http_client import UNWATCHED, Ask, Handed, TapeClient, TapeRefused, ask, check_url
from replaykit.candidates.output import parse_output
from replaykit.candidates.process import OUTPUT_NAME, timed_out_run
from replaykit.candidates.worlds import world_of
from replaykit.cases.case import ReplayCase
from replaykit.middleware.messages import TapeLog
from replaykit.model.events import Call, ToolCall
from replaykit.model.result import Deviation
from replaykit.model.run import RunStatus
from replaykit.model.tool_errors import is_raised
from replaykit.model.values import JsonObject
from replaykit.redaction.files import file_redactor, write_clean

_OWN_FORM = (
    "If the agent has its own response format, describe it in replaykit.yaml: agent: {type: http, endpoint: URL}"
)


class HttpCandidate:
    """An agent behind a URL."""

    def __init__(self, url: str) -> None:
        check_url(url, url)
        self.label = url
        self._tapes = TapeClient(url)

    def run(self, case: ReplayCase, workspace: Path, timeout_s: float) -> Attempt:
        """Post the case once, inside its tape if the agent accepts one."""
        world = world_of(case)
        calls = [call for call in world.calls if isinstance(call, Call)]
        taped = bool(calls) and self._tapes.look(timeout_s).takes_tapes
        try:
            handed = self._tapes.offer(world, timeout_s) if taped else None
            ends = time.monotonic() + timeout_s
            attempt = self._posted(case, calls, handed, workspace, timeout_s)
            if handed is not None:
                timed_out = attempt.run is not None and attempt.run.status is RunStatus.TIMEOUT
                left = 0.0 if timed_out else ends - time.monotonic()
                attempt = self._with_log(attempt, self._tapes.log(handed, timeout_s, work_s=left), timeout_s)
                evidence = served_from(world, attempt.run, attempt.deviations)
                return replace(attempt, evidence=evidence)
        except TapeRefused as error:
            return Attempt(reason=f"{self.label} does not take the tape: {error}")
        deviations = (Deviation(kind=UNWATCHED, text=_NOT_KNOWN),) if calls and attempt.run is not None else ()
        evidence = reported_on(world, attempt.run)
        return replace(attempt, deviations=attempt.deviations + deviations, evidence=evidence)

    def _posted(
        self, case: ReplayCase, calls: Iterable[Call], handed: Handed | None, workspace: Path, timeout_s: float
    ) -> Attempt:
        body = {
            "case": case.id,
            "input": case.scenario.input_json,
            **({"context": case.scenario.context_json} if case.scenario.context_json else {}),
            "tool_responses": [_response(call) for call in calls if isinstance(call, ToolCall)],
        }
        sent = (("content-type", "application/json"),)
        request = Ask(method="POST", url=self.label, body=msgspec.json.encode(body), headers=sent)
        if handed is None:
            answer = ask(request, timeout_s)
        else:
            answer = self._tapes.ask_within(handed, request, timeout_s)
        if answer.timed_out:
            return Attempt(run=timed_out_run(timeout_s))
        if answer.status is None or not 200 <= answer.status < 300:
            return Attempt(reason=f"{self.label} {answer.why or f'answered {answer.status}'}")
        write_clean(workspace / OUTPUT_NAME, answer.body, file_redactor())
        attempt = parse_output(answer.body)
        if attempt.run is None:
            return replace(attempt, reason=f"{attempt.reason}\n{_OWN_FORM}")
        return attempt

    def _with_log(self, attempt: Attempt, log: TapeLog, timeout_s: float) -> Attempt:
        """Return the attempt with the calls that the middleware saw, instead of those that the agent reports."""
        if attempt.run is None:
            return attempt
        if not log.runs:
            return Attempt(reason=f"{self.label} did not use the tape: the request did not get to the middleware")
        taped = log.runs[0]
        run = timed_out_run(timeout_s) if taped.running else attempt.run
        run = replace(run, events=taped.events, event_count=len(taped.events))
        return Attempt(run=run, deviations=taped.deviations, keeps_hashes=True)


_NOT_KNOWN = "the agent takes no tape, so it is not known whether it used the recorded answers or called its tools"


def _response(call: ToolCall) -> JsonObject:
    if is_raised(call):
        answer: JsonObject = {"error": str(call.error)}
    elif call.items_json is not None:
        answer = {"response": call.items_json}
    else:
        answer = {"response": call.result_json or None}
    return {"tool": call.name, "arguments": call.arguments_json, **answer}
